package route_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

func TestDispatchFailures(t *testing.T) {
	arrived, gone := make(chan struct{}), make(chan struct{})
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	bomb := []byte(sitetest.Gzipped(t, strings.Repeat("\x00", 20<<20)))
	api := sitetest.Upstream(t, func(w http.ResponseWriter, r *http.Request) {
		switch id := strings.TrimPrefix(r.URL.Path, "/trips/"); id {
		case "slow":
			select {
			case <-r.Context().Done():
			case <-release:
			}
		case "canceled":
			close(arrived)
			<-r.Context().Done()
			close(gone)
		case "large":
			w.Header().Set("Content-Length", "5000000")
			_, _ = w.Write(bytes.Repeat([]byte("x"), 5_000_000))
		case "endless":
			for r.Context().Err() == nil {
				if _, err := w.Write(bytes.Repeat([]byte("x"), 64<<10)); err != nil {
					return
				}
			}
		case "cut":
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write([]byte("half"))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case "gzip":
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			fmt.Fprint(z, "unzipped")
			z.Close()
		case "bomb":
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bomb)
		case "garbled":
			w.Header().Set("Content-Encoding", "gzip")
			fmt.Fprint(w, "this is not gzip")
		case "brotli":
			w.Header().Set("Content-Encoding", "br")
			fmt.Fprint(w, "xxxx")
		case "early":
			w.Header().Set("Link", "</x>; rel=preload")
			w.WriteHeader(http.StatusEarlyHints)
			fmt.Fprint(w, "after hints")
		case "teapot":
			http.Error(w, "short and stout", http.StatusTeapot)
		case "moved":
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		default:
			fmt.Fprint(w, "fine")
		}
	})
	s := sitetest.Run(t, "", `mcp TRIPS {
			timeout 30s
		}
		mcp /hurried TRIPS {
			timeout 300ms
		}
		handle /trips/panic {
			test_panic
		}
		handle /trips/forbidden {
			error "not for you" 403
		}
		handle /trips/down {
			reverse_proxy 127.0.0.1:1
		}
		handle /trips* {
			reverse_proxy `+api+`
		}`)

	failing := map[string][]string{
		"timeout":            {"slow", "GET /trips/{id}", "300ms"},
		"too large":          {"large", "4.8 MiB", "4.0 MiB", "max_response"},
		"endless":            {"endless", "more than 4.0 MiB"},
		"cut off":            {"cut", "closed"},
		"zip bomb":           {"bomb", "more than 4.0 MiB"},
		"garbled encoding":   {"garbled", "compressed", "corrupt"},
		"unknown encoding":   {"brotli", `"br"`},
		"panic":              {"panic", "gateway", "failed"},
		"upstream down":      {"down", "502 Bad Gateway", "down"},
		"refused by handler": {"forbidden", "403"},
		"refused by API":     {"teapot", "418", "short and stout"},
		"redirect":           {"moved", "302", "/elsewhere"},
	}
	for name, want := range failing {
		t.Run(name, func(t *testing.T) {
			s := s.With(t)
			request := s.CallRequest("getTrip", fmt.Sprintf(`{"id":%q}`, want[0]))
			if want[0] == "slow" {
				request.URL.Path = "/hurried"
			}
			r := s.Result(s.Do(request))
			if !r.IsError || !sitetest.ContainsAll(r.Text(), want[1:]) {
				t.Fatalf("error %t %q, want an error with %q", r.IsError, r.Text(), want[1:])
			}
			if got := s.Succeed("getTrip", `{"id":"ok"}`); got != "fine" {
				t.Errorf("the next call: %q", got)
			}
			if strings.Contains(r.Text(), api) || strings.Contains(r.Text(), "127.0.0.1") {
				t.Errorf("the message contains the upstream's address: %s", r.Text())
			}
		})
	}
	s.Logged("panic", "a fault of the handler", "stack")

	t.Run("gzip is decoded", func(t *testing.T) {
		s := s.With(t)
		if got := s.Succeed("getTrip", `{"id":"gzip"}`); got != "unzipped" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("1xx answers are skipped", func(t *testing.T) {
		s := s.With(t)
		if got := s.Succeed("getTrip", `{"id":"early"}`); got != "after hints" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("HEAD has no body", func(t *testing.T) {
		s := s.With(t)
		s.Succeed("probeTrips", "")
	})
	t.Run("a client that goes away cancels the upstream", func(t *testing.T) {
		s := s.With(t)
		ctx, cancel := context.WithCancel(t.Context())
		r := s.CallRequest("getTrip", `{"id":"canceled"}`).WithContext(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			if response, err := http.DefaultClient.Do(r); err == nil {
				response.Body.Close()
			}
		}()
		sitetest.Await(t, "the call at the upstream", arrived)
		cancel()
		sitetest.Await(t, "the client's end", done)
		sitetest.Await(t, "the end of the upstream's request", gone)
	})
}

func TestDispatchUnanswered(t *testing.T) {
	t.Run("no handler after the endpoint", func(t *testing.T) {
		s := sitetest.Run(t, "", "mcp TRIPS")
		s.Fail("listTrips", "", "no handler", "site", "GET", "/trips", "reverse_proxy", "mcp")
		s.Logged("no handler after the endpoint", "mcp", "warn")
	})
	t.Run("alone in a handle block", func(t *testing.T) {
		s := sitetest.Run(t, "", `handle /trips/* {
				respond "before it" 200
			}
			handle /mcp {
				mcp TRIPS
			}`)
		s.Fail("listTrips", "", "no handler", "site", "GET", "/trips")
		s.Logged("no handler after the endpoint", "mcp")
	})
	t.Run("in a handle block with the API in a later one", func(t *testing.T) {
		s := sitetest.Run(t, "", `handle /mcp {
				mcp TRIPS
			}
			handle {
				respond "ok" 200
			}`)
		s.Succeed("listTrips", "")
		if strings.Contains(s.Log(), "no handler after the endpoint") {
			t.Errorf("warned: %s", s.Log())
		}
	})
	t.Run("no warning where something answers", func(t *testing.T) {
		s := sitetest.Run(t, "", `mcp TRIPS
			otc TRIPS
			handle {
				respond "ok"
			}`)
		s.Succeed("listTrips", "")
		if strings.Contains(s.Log(), "no handler after the endpoint") {
			t.Errorf("warned: %s", s.Log())
		}
	})
}
