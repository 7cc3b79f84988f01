package caddymodule_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fairwayhq/fairway/internal/keyword"
)

// overlayOf returns an overlay with actions in YAML flow style, one a line.
func overlayOf(actions ...string) string {
	return "overlay: 1.1.0\ninfo: {title: T, version: '1'}\nactions:\n- " + strings.Join(actions, "\n- ") + "\n"
}

const (
	removeDelete = "{target: \"$.paths['/trips/{id}'].delete\", remove: true}"
)

func TestOverlay_changes_the_tools_and_is_watched(t *testing.T) {
	s := newSite(t)
	one, two := s.write("one.overlay.yaml", overlayOf(removeDelete)), s.write("two.overlay.yaml", overlayOf("{target: \"$.paths['/trips'].get\", update: {operationId: findTrips}}", "{target: $.nothing, remove: true}"))
	s.start("agents {\ntoolset trips TRIPS {\noverlay "+one+"\noverlay "+two+"\n}\n}", "mcp /mcp trips\nrespond ok")
	s.wantTools("findTrips", "createTrip", "probeTrips", "getTrip")
	s.logged(`"level":"warn"`, "two.overlay.yaml:5 $.nothing")
	s.succeed("findTrips", "")

	t.Run("changed", func(t *testing.T) {
		s := s.with(t)
		s.write("one.overlay.yaml", overlayOf(removeDelete, "{target: $.paths.*.head, remove: true}"))
		eventually(t, "the tools of the changed overlay", func() bool {
			return slices.Equal(s.toolNames(), []string{"findTrips", "createTrip", "getTrip"})
		})
	})
	t.Run("broken", func(t *testing.T) {
		s := s.with(t)
		s.write("one.overlay.yaml", overlayOf("{target: $.paths, remove: yes please}"))
		s.logged(`"level":"error"`, "one.overlay.yaml:4 actions[0].remove previous")
		s.wantTools("findTrips", "createTrip", "getTrip")
		if err := s.load("agents {\ntoolset trips TRIPS {\noverlay "+one+" "+two+"\n}\n}", "mcp /mcp trips\nrespond again"); err == nil || !keyword.All(err.Error(), "one.overlay.yaml:4") {
			t.Errorf("the configuration was loaded: %v", err)
		}
	})
	t.Run("repaired", func(t *testing.T) {
		s := s.with(t)
		s.write("one.overlay.yaml", overlayOf(removeDelete))
		eventually(t, "the tools of the repaired overlay", func() bool {
			return slices.Equal(s.toolNames(), []string{"findTrips", "createTrip", "probeTrips", "getTrip"})
		})
	})
}

func TestOverlay_of_an_endpoint_in_JSON(t *testing.T) {
	s := newSite(t)
	s.write("one.overlay.yaml", overlayOf(removeDelete))
	s.start("", "mcp /mcp TRIPS {\noverlay DIR/one.overlay.yaml\n}\nrespond ok")
	s.wantTools("listTrips", "createTrip", "probeTrips", "getTrip")
	if config := string(s.config("", "mcp /mcp TRIPS {\noverlay a.yaml\noverlay b.yaml c.yaml\n}")); !strings.Contains(config, `"overlays":["a.yaml","b.yaml","c.yaml"]`) {
		t.Error(config)
	}
}

// The discovery document of ocp describes the tools that the site has.
func TestOverlay_shows_in_the_discovery_document(t *testing.T) {
	s := newSite(t)
	s.write("one.overlay.yaml", overlayOf("{target: $.info, update: {title: Overlaid}}"))
	s.start("agents {\ntoolset trips TRIPS {\noverlay DIR/one.overlay.yaml\n}\n}", "ocp {\ntoolset trips\ndiscovery /openapi.json\n}\nrespond ok")
	if a := s.get("/openapi.json"); a.status != http.StatusOK || !strings.Contains(a.body, "Overlaid") {
		t.Errorf("%d: %s", a.status, a.body)
	}
}

func TestOverlay_of_a_URL_applies_before_conversion(t *testing.T) {
	var fetches atomic.Int32
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fetches.Add(1)
		fmt.Fprint(w, `{"swagger":"2.0","info":{"title":"S","version":"1"},"paths":{"/a":{"get":{"operationId":"a","parameters":[{"$ref":"#/parameters/p"}],"responses":{}}}},
			"parameters":{"p":{"name":"p","in":"query","type":"string"}}}`)
	}))
	t.Cleanup(api.Close)
	s := newSite(t)
	s.write("one.overlay.yaml", overlayOf("{target: $.parameters.p, update: {name: q}}"))
	s.start("agents {\ntoolset s "+api.URL+" {\noverlay DIR/one.overlay.yaml\n}\n}", "mcp /mcp s\nrespond ok")
	eventually(t, "the tools", func() bool { return strings.Contains(s.toolList(), `"q":{`) })
	s.write("one.overlay.yaml", overlayOf("{target: $.parameters.p, update: {name: r}}"))
	eventually(t, "the tools of the changed overlay", func() bool { return strings.Contains(s.toolList(), `"r":{`) })
	if n := fetches.Load(); n != 2 {
		t.Errorf("the document was fetched %d times, want 2", n)
	}
}

// toolList returns the body of the response to tools/list.
func (s *site) toolList() string {
	return s.post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, nil).body
}

func TestOverlay_errors_at_start(t *testing.T) {
	s := newSite(t)
	s.write("class.yaml", overlayOf("{target: $.info, update: [1]}"))
	s.write("grow.yaml", overlayOf(slices.Repeat([]string{"{target: $, update: {x-a: {}}}", "{target: \"$['x-a']\", copy: $}"}, 30)...))
	s.write("unknown.yaml", overlayOf("{targets: $, remove: true}"))
	for options, words := range map[string]string{
		"overlay":                            "overlay",
		"overlay a.yaml a.yaml":              "twice a.yaml",
		"overlays a.yaml":                    "overlays overlay",
		"overlay DIR/none.yaml":              "trips none.yaml",
		"overlay DIR/class.yaml":             "trips class.yaml:4 object array",
		"overlay DIR/grow.yaml":              "trips grow.yaml 1000000",
		"overlay DIR/unknown.yaml":           "trips unknown.yaml:4 targets target",
		"overlay {env.FAIRWAY_TEST_MISSING}": "trips overlay empty",
	} {
		t.Run(options, func(t *testing.T) {
			global := "agents {\ntoolset trips TRIPS {\n" + options + "\n}\n}"
			_, _, err := adapt("{\n" + global + "\n}\n")
			if err == nil {
				err = s.with(t).load(global, "mcp /mcp trips\nrespond ok")
			}
			if err == nil || !keyword.All(err.Error(), words) {
				t.Errorf("%v, want the words %q", err, words)
			}
		})
	}
}

func TestToolsCommand_overlay(t *testing.T) {
	s := newSite(t)
	path := s.write("trips.yaml", trips)
	one := s.write("one.yaml", overlayOf(removeDelete, "{target: $.nothing, remove: true}"))
	two := s.write("two.yaml", overlayOf("{target: $.info, update: {title: Overlaid}}"))
	t.Run("list", func(t *testing.T) {
		out, _, err := tools(path, "--overlay", one)
		if err != nil || strings.Contains(out, "deleteTrip") || !keyword.All(out, "getTrip one.yaml:5 $.nothing") {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("document", func(t *testing.T) {
		out, aside, err := tools("--overlay", one, "--overlay", two, "--document", path)
		if err != nil || strings.Contains(out, "deleteTrip") || !strings.Contains(out, "\n  title: Overlaid\n") || !keyword.All(aside, "one.yaml:5") {
			t.Errorf("%v\n%s\n%s", err, out, aside)
		}
	})
	t.Run("JSON document", func(t *testing.T) {
		out, _, err := tools("--overlay", two, "--document", s.write("t.json", `{"openapi":"3.1.0","info":{"title":"A","version":"1"},"paths":{}}`))
		if err != nil || !json.Valid([]byte(out)) || !strings.Contains(out, `"Overlaid"`) {
			t.Errorf("%v\n%s", err, out)
		}
	})
	for arguments, words := range map[string]string{
		"--document " + path:                       "--overlay",
		"--overlay " + one:                         "arg",
		path + " --overlay " + path:                "trips.yaml:1 overlay",
		path + " --document " + path:               "--document two",
		"--document none.yaml --overlay " + one:    "none.yaml",
		"--document " + one + " --overlay " + path: "trips.yaml:1",
	} {
		if _, _, err := tools(strings.Fields(arguments)...); err == nil || !keyword.All(err.Error(), words) {
			t.Errorf("%s: %v, want the words %q", arguments, err, words)
		}
	}
}
