package app_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

func TestFilter_that_matches_nothing_is_a_configuration_error(t *testing.T) {
	for name, test := range map[string]struct{ filter, want string }{
		"exclude operation": {"exclude operation deleteTrp", "mean deleteTrip"},
		"include operation": {"include operation listTrips getTripp", "mean getTrip"},
		"exclude tag":       {"exclude tag admin", "exclude tag admin"},
		"exclude path":      {"exclude path /trip/*", "mean /trips/*"},
		"exclude method":    {"exclude method DELETE PATCH", "exclude method PATCH"},
		"method and path":   {"exclude operation DELETE /trip/{id}", "mean /trips/{id}"},
	} {
		t.Run(name, func(t *testing.T) {
			s := sitetest.NewSite(t)
			for where, block := range map[string][2]string{
				"toolset":  {"agents {\ntoolset trips TRIPS {\n" + test.filter + "\n}\n}", "mcp /mcp trips\nrespond ok"},
				"endpoint": {"", "mcp /mcp TRIPS {\n" + test.filter + "\n}\nrespond ok"},
			} {
				if err := s.Load(block[0], block[1]); err == nil || !testkit.ContainsAll(err.Error(), test.want) {
					t.Errorf("%s: got %v, want %q", where, err, test.want)
				}
			}
		})
	}
}

func TestFilter_by_tool_name_operation_id_and_method_and_path(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Start("", "respond ok")
	for _, filter := range []string{
		"exclude operation issues_lock", "exclude operation issues/lock",
		"exclude operation PUT /lock/{id}", `exclude operation "PUT /lock/{id}"`,
	} {
		s.Write("trips.yaml", sitetest.Trips+"  /lock/{id}:\n    put: {operationId: issues/lock, parameters: [{name: id, in: path, required: true, schema: {type: string}}]}\n")
		if err := s.Load("", "mcp /mcp TRIPS {\n"+filter+"\nexclude method HEAD POST\n}\nrespond ok"); err != nil {
			t.Errorf("%s: %v", filter, err)
			continue
		}
		s.WantTools("listTrips", "getTrip", "deleteTrip")
	}
}

func TestFilter_on_the_command_line(t *testing.T) {
	s := sitetest.NewSite(t)
	path := s.Write("filter.json", `{"openapi":"3.1.0","info":{"title":"F","version":"1"},"paths":{
		"/issues":{"get":{"operationId":"issues/list","tags":["issues"]}},
		"/pulls":{"get":{"operationId":"pulls/list","tags":["pulls"]}},
		"/near/{x},{y}":{"get":{"operationId":"near","tags":["geo, maps"]}},
		"/users":{"get":{"operationId":"users/list","tags":["users"]}}}}`)
	for _, test := range []struct {
		flags []string
		want  string // the tools
	}{
		{[]string{"--include", "tag=issues,pulls"}, "issues_list pulls_list"},
		{[]string{"--exclude", "operation=issues_list,pulls/list,GET /users"}, "near"},
		{[]string{"--include", "operation GET /near/{x},{y}"}, "near"},
		{[]string{"--include", "tag=geo, maps"}, "near"},
		{[]string{"--include", "path=/near/{x},{y},/users"}, "near users_list"},
	} {
		out, _, err := sitetest.CaddyTools(append([]string{path}, test.flags...)...)
		var names []string
		table, _, _ := strings.Cut(out, "\n\n")
		for line := range strings.Lines(table) {
			if fields := strings.Fields(line); len(fields) > 1 && fields[1] == "GET" {
				names = append(names, fields[0])
			}
		}
		if got := strings.Join(names, " "); err != nil || got != test.want {
			t.Errorf("%q: %v, got %q, want %q", test.flags, err, got, test.want)
		}
	}
	for flag, want := range map[string]string{
		"tag=issue":            "mean issues",
		"operation=issue_list": "mean issues_list",
		"method=DELTE":         "mean DELETE",
		"tag=issues,":          "value",
	} {
		if _, _, err := sitetest.CaddyTools(path, "--exclude", flag); err == nil || !testkit.ContainsAll(err.Error(), want) {
			t.Errorf("--exclude %s: got %v, want %q", flag, err, want)
		}
	}
}

func TestFilter_exclude_that_stopped_matching_keeps_the_old_tools(t *testing.T) {
	s := sitetest.Run(t, "", "mcp /mcp TRIPS {\nexclude operation deleteTrip\n}\nrespond ok")
	s.Write("trips.yaml", sitetest.Renamed)
	s.Logged(`"level":"error"`, "exclude", "deleteTrip")
	s.WantTools("listTrips", "createTrip", "probeTrips", "getTrip")
}

func TestFilter_include_that_stopped_matching_is_logged(t *testing.T) {
	const block = "mcp /mcp TRIPS {\ninclude operation listTrips deleteTrip\n}\nrespond ok"
	s := sitetest.Run(t, "", block)
	s.Write("trips.yaml", sitetest.Renamed)
	s.Logged(`"level":"warn"`, "include", "deleteTrip", "mean")
	s.WantTools("listTrips")
	if err := s.Load("", block+" # changed"); err == nil || !strings.Contains(err.Error(), "include operation deleteTrip") {
		t.Errorf("loading the configuration again: %v", err)
	}
}

func TestReload_logs_tools_that_appeared_and_went(t *testing.T) {
	s := sitetest.Run(t, "", "mcp /mcp TRIPS\nrespond ok")
	s.Write("trips.yaml", sitetest.Renamed)
	s.Logged(`"appeared_count":1,"appeared":["removeTrip"]`, `"gone_count":1,"gone":["deleteTrip"]`)

	var many strings.Builder
	many.WriteString(sitetest.Renamed)
	for i := range 50 {
		fmt.Fprintf(&many, "  /more/%d:\n    get: {operationId: more%d}\n", i, i)
	}
	s.Write("trips.yaml", many.String())
	s.Logged(`"appeared_count":50,"appeared":["more0"`, `"more19"]`, `"gone_count":0`)
}

// TestFilter_of_a_document_that_comes_later: a document that is not there at start
// serves no tool while an exclude matches nothing in it.
func TestFilter_of_a_document_that_comes_later(t *testing.T) {
	var document atomic.Value
	document.Store(sitetest.Renamed)
	source := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(document.Load().(string)))
	}))
	t.Cleanup(source.Close)
	for name, block := range map[string]string{
		"url":  "mcp /mcp " + source.URL + "/trips.yaml {\nexclude operation deleteTrip\n}\nrespond ok",
		"site": "mcp /mcp /openapi.yaml {\nexclude operation deleteTrip\n}\nhandle /openapi.yaml {\nreverse_proxy " + strings.TrimPrefix(source.URL, "http://") + "\n}\nhandle {\nrespond ok\n}",
	} {
		t.Run(name, func(t *testing.T) {
			document.Store(sitetest.Renamed)
			s := sitetest.Run(t, "", block)
			list := func() sitetest.Response {
				r := s.CallRequest("removeTrip", `{"id":"1"}`)
				return s.Do(r)
			}
			if a := list(); a.Status != 503 {
				t.Errorf("got %d %s", a.Status, a.Body)
			}
			s.Logged(`"level":"error"`, "exclude", "deleteTrip", "503")
			document.Store(sitetest.Trips)
			sitetest.Eventually(t, "the tools of the corrected document", func() bool { return list().Status == 200 })
			s.WantTools("listTrips", "createTrip", "probeTrips", "getTrip")
		})
	}
}
