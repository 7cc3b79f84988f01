package otcadapter

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/tools"
)

// edition is a Toolset of that title and version with these tools.
func edition(title, version string, names ...string) *tools.Toolset {
	var toolset []*tools.Tool
	for _, name := range names {
		toolset = append(toolset, &tools.Tool{Name: name, Definition: tools.Definition{Description: title + " " + version}, Plan: tools.Plan{Method: "GET", Path: "/" + name}})
	}
	set := tools.NewToolset(title+version, toolset)
	set.Title, set.Version = title, version
	return set
}

func TestVersions(t *testing.T) {
	editions := []*tools.Toolset{
		edition("Trains", "1.0.0", "find", "cancel"),
		edition("Trains", "10.2.0", "find", "book"),
		edition("Trains", "2.0.0", "find", "cancel"),
		edition("Boats", "v3", "find"),
		edition("Trains", "2.0.0", "find", "extra"),
	}
	var site Site
	for _, toolset := range editions {
		site.Toolkits = append(site.Toolkits, Toolkit{Tools: toolset})
	}
	called := -1
	site.Host = hostFunc(func(i int) tools.Caller {
		return callerFunc(func(_ context.Context, current string, _ []byte) tools.Outcome {
			called = i
			if _, ok := editions[i].Tool(current); !ok {
				return tools.Outcome{Failure: &tools.Failure{Kind: tools.UnknownTool, Message: "unknown tool"}}
			}
			return tools.Outcome{Result: jsonResult("1")}
		})
	})
	var warnings []string
	s := New(Options{Warn: func(message string) { warnings = append(warnings, message) }})
	for _, c := range []struct {
		rule, id string
		toolkit  int // -1: none
		status   int
		says     string
	}{
		{"exact", "Trains.find@1.0.0", 0, 200, ""},
		{"exact among several", "Trains.find@2.0.0", 2, 200, ""},
		{"x is x.0.0", "Trains.find@2", 2, 200, ""},
		{"x is not x.y.0", "Trains.find@10", -1, 400, "10.2.0, 2.0.0, 1.0.0"},
		{"none is the newest, by number", "Trains.find", 1, 200, ""},
		{"latest is the newest", "Trains.find@latest", 1, 200, ""},
		{"the newest that has the tool", "Trains.cancel", 2, 200, ""},
		{"documents of one version are one", "Trains.extra@2.0.0", 4, 200, ""},
		{"another toolkit", "Boats.find@3.0.0", 3, 200, ""},
		{"unknown version", "Trains.find@7.0.0", -1, 400, "10.2.0, 2.0.0, 1.0.0"},
		{"a version without the tool", "Trains.book@1.0.0", -1, 400, "10.2.0"},
		{"unknown version of an unknown tool", "Trains.sail@7.0.0", -1, 400, "10.2.0, 2.0.0, 1.0.0"},
		{"unknown tool", "Trains.sail", 1, 400, "unknown tool"},
		{"unknown toolkit", "Planes.find", -1, 400, "Trains Boats"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			called = -1
			request := httptest.NewRequest("POST", "/otc/call", strings.NewReader(`{"tool_id":"`+c.id+`"}`))
			request.Header.Set("Content-Type", "application/json")
			recorder := httptest.NewRecorder()
			s.ServeHTTP(recorder, request, "/call", site)
			if recorder.Code != c.status || called != c.toolkit || !testkit.ContainsAll(recorder.Body.String(), c.says) {
				t.Errorf("status %d, toolkit %d, %s; want %d, %d, %q", recorder.Code, called, recorder.Body, c.status, c.toolkit, c.says)
			}
		})
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "Trains.find@2.0.0") {
		t.Errorf("warnings: %q", warnings)
	}

	t.Run("all are listed", func(t *testing.T) {
		recorder := httptest.NewRecorder()
		s.ServeHTTP(recorder, httptest.NewRequest("GET", "/tools", nil), "/tools", site)
		members := answer{recorder, t}.json()
		var ids []string
		for _, item := range members["items"].([]any) {
			ids = append(ids, item.(map[string]any)["id"].(string))
		}
		want := "Trains.find@1.0.0 Trains.cancel@1.0.0 Trains.find@10.2.0 Trains.book@10.2.0 Trains.find@2.0.0 Trains.cancel@2.0.0 Boats.find@3.0.0 Trains.extra@2.0.0"
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})

	t.Run("one that is not loaded", func(t *testing.T) {
		partial := site
		partial.Toolkits = append([]Toolkit(nil), site.Toolkits...)
		partial.Toolkits[3].Tools = nil
		for path, status := range map[string]int{"/health": 503, "/tools": 200} {
			recorder := httptest.NewRecorder()
			s.ServeHTTP(recorder, httptest.NewRequest("GET", path, nil), path, partial)
			if recorder.Code != status {
				t.Errorf("%s: status %d, want %d", path, recorder.Code, status)
			}
		}
		for id, status := range map[string]int{"Boats.find": 503, "Trains.find": 200} {
			request := httptest.NewRequest("POST", "/otc/call", strings.NewReader(`{"tool_id":"`+id+`"}`))
			request.Header.Set("Content-Type", "application/json")
			recorder := httptest.NewRecorder()
			s.ServeHTTP(recorder, request, "/call", partial)
			if recorder.Code != status {
				t.Errorf("%s: status %d, want %d: %s", id, recorder.Code, status, recorder.Body)
			}
		}
	})

	t.Run("a configured toolkit is all of them", func(t *testing.T) {
		recorder := httptest.NewRecorder()
		request := httptest.NewRequest("POST", "/otc/call", strings.NewReader(`{"tool_id":"Travel.find@3.0.0"}`))
		request.Header.Set("Content-Type", "application/json")
		New(Options{Toolkit: "Travel"}).ServeHTTP(recorder, request, "/call", site)
		if recorder.Code != 200 || called != 3 {
			t.Errorf("status %d, toolkit %d: %s", recorder.Code, called, recorder.Body)
		}
	})
}

func TestVersions_compare(t *testing.T) {
	ordered := []string{"0.0.0", "1.0.0", "1.0.1", "1.2.0", "1.10.0", "2.0.0", "10.0.0", "2024.1.1"}
	for i, a := range ordered {
		for j, b := range ordered {
			got := compareVersions(a, b)
			if (got < 0) != (i < j) || (got == 0) != (i == j) {
				t.Errorf("compare %q with %q: %d", a, b, got)
			}
		}
	}
}

func TestCheckVersion(t *testing.T) {
	for version, good := range map[string]bool{
		"1.2.3": true, "0.0.0": true, "2024.10.1": true, "10.20.30": true,
		"": false, "x": false, "1": false, "2.1": false, "1.2.3.4": false, "v1.2.3": false, "1.2.x": false, "1..3": false,
		"1.2.3-beta": false, "1.2.3+4": false, "latest": false, "-1.2.3": false, " 1.2.3": false, "1.2.٣": false,
		"1.2." + strings.Repeat("9", maxVersionPart): true, "1.2." + strings.Repeat("9", maxVersionPart+1): false,
	} {
		if err := CheckVersion(version); (err == nil) != good {
			t.Errorf("%q: %v", version, err)
		}
	}
	if err := CheckVersion("v2.1"); err == nil || !strings.Contains(err.Error(), `version "v2.1"`) || !strings.Contains(err.Error(), "such as 2.1.0") {
		t.Errorf("got %v", err)
	}
}
