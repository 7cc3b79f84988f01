package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

const (
	broken     = "{ this is no document"
	twoSets    = "agents {\nstore bolt DIR/store.db\ntoolset one DIR/one.yaml\ntoolset two TRIPS\n}"
	twoServed  = "mcp /mcp one\nmcp /two two\nhandle /metrics {\nmetrics\n}\nrespond ok"
	copyInUse  = "last good copy is in use"
	noCopyLeft = "get 503 until it is loaded"
)

// copied starts the configuration, uses its store, and stops it once the store has a copy of each document.
func copied(t *testing.T, s *sitetest.Site, global, block, tool string, documents int) {
	t.Helper()
	if err := s.Load(global, block); err != nil {
		t.Fatal(err)
	}
	sitetest.Eventually(t, "the tools", func() bool { return s.ToolNames() != nil })
	s.Succeed(tool, "") // calls are kept, so the store is in use
	sitetest.Eventually(t, "the copies", func() bool { return strings.Count(s.Log(), "copied the document") == documents })
	stop(t)
}

func stop(t *testing.T) {
	t.Helper()
	http.DefaultClient.CloseIdleConnections()
	if err := caddy.Stop(); err != nil {
		t.Fatal(err)
	}
}

func TestLastGood_file(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("one.yaml", sitetest.Timetable("first", "listTrains", "getTrain"))
	copied(t, s, twoSets, twoServed, "listTrains", 2)
	s.Write("one.yaml", broken)

	t.Run("validate fails", func(t *testing.T) {
		s := s.With(t)
		config := new(caddy.Config)
		if err := json.Unmarshal(s.Config(twoSets, twoServed), config); err != nil {
			t.Fatal(err)
		}
		if err := caddy.Validate(config); err == nil || !strings.Contains(err.Error(), "one.yaml") {
			t.Errorf("got %v", err)
		}
	})
	s.Start(twoSets, twoServed)
	t.Run("the copy serves", func(t *testing.T) {
		s := s.With(t)
		s.WantTools("listTrains", "getTrain")
		s.Succeed("listTrains", "")
		s.Logged(`"level":"error"`, "one.yaml", copyInUse, `"copy":`)
		sitetest.MetricsOf(s).Await(`fairway_document_failing{toolset="one"} 1`)
		sitetest.MetricsOf(s).Await(`fairway_document_tools{toolset="one"} 2`)
	})
	t.Run("a reload fails", func(t *testing.T) {
		s := s.With(t)
		if err := s.Load(twoSets, twoServed+" 201"); err == nil || !strings.Contains(err.Error(), "one.yaml") {
			t.Errorf("got %v", err)
		}
		s.WantTools("listTrains", "getTrain")
	})
	t.Run("a good document replaces it", func(t *testing.T) {
		s := s.With(t)
		s.Write("one.yaml", sitetest.Document("second"))
		sitetest.Eventually(t, "the new tool", func() bool { return slices.Equal(s.ToolNames(), []string{"second"}) })
		sitetest.MetricsOf(s).Await(`fairway_document_failing{toolset="one"} 0`)
	})
}

// TestLastGood_present_options checks that the copy has no tools that the present configuration excludes.
func TestLastGood_present_options(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("one.yaml", sitetest.Timetable("first", "listTrains", "getTrain"))
	copied(t, s, twoSets, twoServed, "listTrains", 2)
	for name, test := range map[string]func(){
		"not parsable": func() { s.Write("one.yaml", broken) },
		"without an operation that is included": func() {
			s.Write("one.yaml", sitetest.Document("other"))
		},
		"removed": func() {
			if err := os.Remove(filepath.Join(s.Dir, "one.yaml")); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			test()
			s := s.With(t)
			s.Start(strings.Replace(twoSets, "DIR/one.yaml", "file://DIR/one.yaml {\ninclude operation listTrains\n}", 1), twoServed)
			s.WantTools("listTrains")
		})
	}
}

func TestLastGood_overlay(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("one.yaml", sitetest.Timetable("first", "listTrains", "getTrain"))
	s.Write("o.yaml", "overlay: 1.0.0\ninfo: {title: t, version: '1'}\nactions:\n- target: $.paths['/getTrain']\n  remove: true\n")
	global := strings.Replace(twoSets, "one.yaml", "one.yaml {\noverlay DIR/o.yaml\n}", 1)
	copied(t, s, global, twoServed, "listTrains", 2)
	s.Write("o.yaml", broken)
	s.Start(global, twoServed)
	s.Logged(`"level":"error"`, "o.yaml", copyInUse)
	if names := s.ToolNames(); !slices.Contains(names, "listTrains") {
		t.Errorf("tools %q", names)
	}
}

func TestLastGood_none(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("one.yaml", broken)
	s.Start(twoSets, twoServed)
	s.Logged(`"level":"error"`, "one.yaml", noCopyLeft, "copy_error")
	if a := s.Do(s.CallRequest("x", "")); a.Status != 503 || !strings.Contains(a.Body, "loaded") {
		t.Errorf("the broken toolset: %d %s", a.Status, a.Body)
	}
	if a := s.Post("/two", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, nil); a.Status == 503 {
		t.Errorf("the other toolset: %d %s", a.Status, a.Body)
	}
	sitetest.MetricsOf(s).Await(`fairway_document_failing{toolset="one"} 1`)
	s.Write("one.yaml", sitetest.Document("second"))
	sitetest.Eventually(t, "the tool", func() bool { return slices.Equal(s.ToolNames(), []string{"second"}) })
}

// TestLastGood_configuration_errors checks that faults of the configuration fail at start.
func TestLastGood_configuration_errors(t *testing.T) {
	s := sitetest.NewSite(t)
	for name, test := range map[string]struct{ global, want string }{
		"missing file":    {"agents {\nstore bolt DIR/store.db\ntoolset one ./nowhere.yaml\n}", "nowhere.yaml"},
		"missing overlay": {"agents {\nstore bolt DIR/store.db\ntoolset one TRIPS {\noverlay DIR/nowhere.yaml\n}\n}", "nowhere.yaml"},
		"filter":          {"agents {\nstore bolt DIR/store.db\ntoolset one TRIPS {\ninclude operation nowhere\n}\n}", "nowhere"},
	} {
		t.Run(name, func(t *testing.T) {
			s := s.With(t)
			if err := s.Load(test.global, "mcp\nrespond ok"); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
				stop(t)
			}
		})
	}
}

func TestLastGood_URL(t *testing.T) {
	var content atomic.Pointer[string]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, *content.Load()) }))
	t.Cleanup(server.Close)
	serve := func(document string) { content.Store(&document) }
	serve(sitetest.Document("first"))
	s := sitetest.NewSite(t)
	global, block := "agents {\nstore bolt DIR/store.db\n}", "mcp "+server.URL+"/openapi.yaml {\nrefresh off\n}\nrespond ok"
	copied(t, s, global, block, "first", 1)
	serve(broken)
	s.Start(global, block)
	sitetest.Eventually(t, "the tools of the copy", func() bool { return slices.Equal(s.ToolNames(), []string{"first"}) })
	s.Logged(`"level":"error"`, copyInUse)
	serve(sitetest.Document("second"))
	sitetest.Eventually(t, "the new tool, also with refresh off", func() bool { return slices.Equal(s.ToolNames(), []string{"second"}) })
}
