package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// overlayOf returns an overlay with actions in YAML flow style, one a line.
func overlayOf(actions ...string) string {
	return "overlay: 1.1.0\ninfo: {title: T, version: '1'}\nactions:\n- " + strings.Join(actions, "\n- ") + "\n"
}

const (
	removeDelete = "{target: \"$.paths['/trips/{id}'].delete\", remove: true}"
)

func TestOverlay_changes_the_tools_and_is_watched(t *testing.T) {
	s := sitetest.NewSite(t)
	one, two := s.Write("one.overlay.yaml", overlayOf(removeDelete)), s.Write("two.overlay.yaml", overlayOf("{target: \"$.paths['/trips'].get\", update: {operationId: findTrips}}", "{target: $.nothing, remove: true}"))
	s.Start("agents {\ntoolset trips TRIPS {\noverlay "+one+"\noverlay "+two+"\n}\n}", "mcp /mcp trips\nrespond ok")
	s.WantTools("findTrips", "createTrip", "probeTrips", "getTrip")
	s.Logged(`"level":"warn"`, "two.overlay.yaml:5 $.nothing")
	s.Succeed("findTrips", "")

	t.Run("changed", func(t *testing.T) {
		s := s.With(t)
		s.Write("one.overlay.yaml", overlayOf(removeDelete, "{target: $.paths.*.head, remove: true}"))
		sitetest.Eventually(t, "the tools of the changed overlay", func() bool {
			return slices.Equal(s.ToolNames(), []string{"findTrips", "createTrip", "getTrip"})
		})
	})
	t.Run("broken", func(t *testing.T) {
		s := s.With(t)
		s.Write("one.overlay.yaml", overlayOf("{target: $.paths, remove: yes please}"))
		s.Logged(`"level":"error"`, "one.overlay.yaml:4 actions[0].remove previous")
		s.WantTools("findTrips", "createTrip", "getTrip")
		if err := s.Load("agents {\ntoolset trips TRIPS {\noverlay "+one+" "+two+"\n}\n}", "mcp /mcp trips\nrespond again"); err == nil || !testkit.ContainsAll(err.Error(), "one.overlay.yaml:4") {
			t.Errorf("the configuration was loaded: %v", err)
		}
	})
	t.Run("repaired", func(t *testing.T) {
		s := s.With(t)
		s.Write("one.overlay.yaml", overlayOf(removeDelete))
		sitetest.Eventually(t, "the tools of the repaired overlay", func() bool {
			return slices.Equal(s.ToolNames(), []string{"findTrips", "createTrip", "probeTrips", "getTrip"})
		})
	})
}

func TestOverlay_of_an_endpoint_in_JSON(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("one.overlay.yaml", overlayOf(removeDelete))
	s.Start("", "mcp /mcp TRIPS {\noverlay DIR/one.overlay.yaml\n}\nrespond ok")
	s.WantTools("listTrips", "createTrip", "probeTrips", "getTrip")
	if config := string(s.Config("", "mcp /mcp TRIPS {\noverlay a.yaml\noverlay b.yaml c.yaml\n}")); !strings.Contains(config, `"overlays":["a.yaml","b.yaml","c.yaml"]`) {
		t.Error(config)
	}
}

// The discovery document of ocp describes the tools that the site has.
func TestOverlay_shows_in_the_discovery_document(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("one.overlay.yaml", overlayOf("{target: $.info, update: {title: Overlaid}}"))
	s.Start("agents {\ntoolset trips TRIPS {\noverlay DIR/one.overlay.yaml\n}\n}", "ocp {\ntoolset trips\ndiscovery /openapi.json\n}\nrespond ok")
	if a := s.Get("/openapi.json"); a.Status != http.StatusOK || !strings.Contains(a.Body, "Overlaid") {
		t.Errorf("%d: %s", a.Status, a.Body)
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
	s := sitetest.NewSite(t)
	s.Write("one.overlay.yaml", overlayOf("{target: $.parameters.p, update: {name: q}}"))
	s.Start("agents {\ntoolset s "+api.URL+" {\noverlay DIR/one.overlay.yaml\n}\n}", "mcp /mcp s\nrespond ok")
	sitetest.Eventually(t, "the tools", func() bool { return strings.Contains(s.ToolList(), `"q":{`) })
	s.Write("one.overlay.yaml", overlayOf("{target: $.parameters.p, update: {name: r}}"))
	sitetest.Eventually(t, "the tools of the changed overlay", func() bool { return strings.Contains(s.ToolList(), `"r":{`) })
	if n := fetches.Load(); n != 2 {
		t.Errorf("the document was fetched %d times, want 2", n)
	}
}

func TestOverlay_errors_at_start(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("class.yaml", overlayOf("{target: $.info, update: [1]}"))
	s.Write("grow.yaml", overlayOf(slices.Repeat([]string{"{target: $, update: {x-a: {}}}", "{target: \"$['x-a']\", copy: $}"}, 30)...))
	s.Write("unknown.yaml", overlayOf("{targets: $, remove: true}"))
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
			_, _, err := sitetest.Adapt("{\n" + global + "\n}\n")
			if err == nil {
				err = s.With(t).Load(global, "mcp /mcp trips\nrespond ok")
			}
			if err == nil || !testkit.ContainsAll(err.Error(), words) {
				t.Errorf("%v, want the words %q", err, words)
			}
		})
	}
}

func TestToolsCommand_overlay(t *testing.T) {
	s := sitetest.NewSite(t)
	path := s.Write("trips.yaml", sitetest.Trips)
	one := s.Write("one.yaml", overlayOf(removeDelete, "{target: $.nothing, remove: true}"))
	two := s.Write("two.yaml", overlayOf("{target: $.info, update: {title: Overlaid}}"))
	t.Run("list", func(t *testing.T) {
		out, _, err := sitetest.CaddyTools(path, "--overlay", one)
		if err != nil || strings.Contains(out, "deleteTrip") || !testkit.ContainsAll(out, "getTrip one.yaml:5 $.nothing") {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("document", func(t *testing.T) {
		out, aside, err := sitetest.CaddyTools("--overlay", one, "--overlay", two, "--document", path)
		if err != nil || !testkit.ContainsAll(aside, "one.yaml:5") {
			t.Errorf("got the error %v and the warnings %s, want one of one.yaml:5", err, aside)
		}
		if strings.Contains(out, "deleteTrip") || !strings.Contains(out, "\n  title: Overlaid\n") {
			t.Errorf("got %s, want the title Overlaid without deleteTrip", out)
		}
	})
	t.Run("JSON document", func(t *testing.T) {
		out, _, err := sitetest.CaddyTools("--overlay", two, "--document", s.Write("t.json", `{"openapi":"3.1.0","info":{"title":"A","version":"1"},"paths":{}}`))
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
		if _, _, err := sitetest.CaddyTools(strings.Fields(arguments)...); err == nil || !testkit.ContainsAll(err.Error(), words) {
			t.Errorf("%s: %v, want the words %q", arguments, err, words)
		}
	}
}
