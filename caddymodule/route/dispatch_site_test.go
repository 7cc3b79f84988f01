package route_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

func TestDispatch(t *testing.T) {
	api := sitetest.Upstream(t, sitetest.Echo)
	s := sitetest.Run(t, "", `mcp TRIPS
		reverse_proxy `+api)

	t.Run("a call is the API's own request", func(t *testing.T) {
		s := s.With(t)
		e := s.Echo(s.CallRequest("createTrip", `{"to":"Bern"}`))
		if e.Method != "POST" || e.URI != "/trips" || e.Body != `{"to":"Bern"}` {
			t.Errorf("got %+v", e)
		}
		if e.Header.Get("Content-Type") != "application/json" {
			t.Errorf("Content-Type %q", e.Header.Get("Content-Type"))
		}
		if want := strings.TrimPrefix(s.URL, "http://"); e.Host != want {
			t.Errorf("host %q, want that of the caller's request, %q", e.Host, want)
		}
	})

	t.Run("headers of the caller go along, those of the message stay", func(t *testing.T) {
		s := s.With(t)
		r := s.CallRequest("listTrips", `{"limit":3}`)
		r.Header.Set("MCP-Protocol-Version", "2025-11-25") // that of the session
		carried := map[string]string{
			"Authorization": "Bearer abc", "X-Tenant": "blue", "Cookie": "session=1", "Traceparent": "00-a-b-01",
			"Tracestate": "x=y", "Baggage": "k=v", "User-Agent": "agent/1",
		}
		dropped := map[string]string{
			"Connection": "X-Hop, keep-alive", "X-Hop": "1", "Mcp-Session-Id": s.Begin("/mcp"), "Accept-Language": "de", "Content-Language": "de",
			"Origin": s.URL, "Referer": "http://x/", "Sec-Fetch-Mode": "cors", "If-None-Match": `"x"`, "Range": "bytes=0-1",
			"Last-Event-Id": "7", "Proxy-Authorization": "Basic x", "Te": "trailers", "X-Http-Method-Override": "DELETE",
			"X_http_method_override": "DELETE", "Mcp_session_id": "s",
		}
		for name, value := range carried {
			r.Header.Set(name, value)
		}
		for name, value := range dropped {
			r.Header.Set(name, value)
		}
		e := s.Echo(r)
		for name, value := range carried {
			if got := e.Header.Get(name); got != value {
				t.Errorf("%s is %q, want %q", name, got, value)
			}
		}
		for name, value := range dropped {
			if got := e.Header.Get(name); got == value {
				t.Errorf("%s went along", name)
			}
		}
		if e.Header.Get("Mcp-Protocol-Version") != "" || e.Header.Get("Content-Type") != "" {
			t.Errorf("headers of the message went along: %v", e.Header)
		}
		if got := e.Header.Get("Accept"); !strings.HasPrefix(got, "application/json") {
			t.Errorf("Accept is %q", got)
		}
		if got := e.Header.Get("Accept-Encoding"); got != "identity" {
			t.Errorf("Accept-Encoding is %q", got)
		}
		if e.URI != "/trips?limit=3" {
			t.Errorf("URI %q", e.URI)
		}
	})

	t.Run("arguments override the caller's headers", func(t *testing.T) {
		s := s.With(t)
		r := s.CallRequest("listTrips", `{"X_Trace":"argument","lang":"de"}`)
		if e := s.Echo(r); e.Header.Get("X-Trace") != "argument" || e.Header.Get("Cookie") != "lang=de" {
			t.Errorf("arguments alone: %v", e.Header)
		}
		r = s.CallRequest("listTrips", `{"X_Trace":"argument","lang":"de"}`)
		r.Header["X-Trace"], r.Header["X_Trace"] = []string{"caller"}, []string{"caller"}
		r.Header.Set("Cookie", "session=1; lang=fr; LANG=it; theme=dark")
		e := s.Echo(r)
		if got := e.Header.Get("Cookie"); got != "session=1; theme=dark; lang=de" {
			t.Errorf("Cookie is %q", got)
		}
		if values := append(e.Header["X-Trace"], e.Header["X_trace"]...); len(values) != 1 || values[0] != "argument" {
			t.Errorf("X-Trace is %q", values)
		}
		r = s.CallRequest("listTrips", `{"lang":"de"}`)
		r.Header.Set("X-Trace", "caller")
		r.Header.Set("Cookie", "session=1")
		if e := s.Echo(r); e.Header.Get("X-Trace") != "caller" || e.Header.Get("Cookie") != "session=1; lang=de" {
			t.Errorf("without the argument: %v", e.Header)
		}
	})

	t.Run("other requests pass by", func(t *testing.T) {
		s := s.With(t)
		for _, path := range []string{"/", "/trips", "/mcpx", "/mcp/below"} {
			if a := s.Get(path); a.Status != 200 || !strings.Contains(a.Body, `"uri":"`+path+`"`) {
				t.Errorf("%s: %d %s", path, a.Status, a.Body)
			}
		}
		if a := s.Get("/mcp/"); a.Status != http.StatusNotAcceptable {
			t.Errorf("/mcp/ is the endpoint's: %d", a.Status)
		}
	})
}

func TestDispatchChain(t *testing.T) {
	api := sitetest.Upstream(t, sitetest.Echo)

	t.Run("route groups are fresh", func(t *testing.T) {
		s := sitetest.Run(t, "", `mcp TRIPS
			handle /mcp* {
				respond "never" 418
			}
			handle /trips/* {
				respond "one {path}" 200
			}
			handle {
				respond "others {method} {path}" 200
			}`)
		if got := s.Succeed("getTrip", `{"id":"7"}`); got != "one /trips/7" {
			t.Errorf("got %q", got)
		}
		if got := s.Succeed("listTrips", ``); got != "others GET /trips" {
			t.Errorf("got %q", got)
		}
		if got := s.Succeed("getTrip", `{"id":"8"}`); got != "one /trips/8" {
			t.Errorf("again: %q", got)
		}
	})

	t.Run("inside a handle block", func(t *testing.T) {
		s := sitetest.Run(t, "", `handle {
				mcp TRIPS
				handle /trips* {
					respond "answered" 200
				}
			}`)
		if got := s.Succeed("listTrips", ``); got != "answered" {
			t.Errorf("got %q", got)
		}
	})

	t.Run("a tool call is no request for another endpoint", func(t *testing.T) {
		s := sitetest.NewSite(t)
		s.Write("self.yaml", strings.Replace(sitetest.Document("self"), "/x:", "/otc/tools:", 1))
		s.Start("", `mcp /mcp DIR/self.yaml
			otc TRIPS
			respond "the API's own {path}"`)
		if got := s.Succeed("self", ""); got != "the API's own /otc/tools" {
			t.Errorf("got %q", got)
		}
	})

	t.Run("error routes are not run", func(t *testing.T) {
		s := sitetest.Run(t, "", `mcp TRIPS
			header /trips WWW-Authenticate Basic
			error /trips "no entry" 401
			respond "ok"
			handle_errors {
				respond "a page for people"
			}`)
		r := s.Call("listTrips", "")
		if !r.IsError || !strings.Contains(r.Text(), "401") || strings.Contains(r.Text(), "people") {
			t.Errorf("got %+v", r)
		}
	})

	t.Run("calls at the same time do not mix", func(t *testing.T) {
		s := sitetest.Run(t, "", "mcp TRIPS\nreverse_proxy "+api)
		var group sync.WaitGroup
		for worker := range 8 {
			group.Go(func() {
				for i := range 25 {
					id := fmt.Sprintf("w%d-%d-%s", worker, i, strings.Repeat("x", i*40))
					if e := s.Echo(s.CallRequest("getTrip", fmt.Sprintf(`{"id":%q}`, id))); e.URI != "/trips/"+id {
						t.Errorf("requested %s, got %s", id, e.URI)
					}
				}
			})
		}
		group.Wait()
	})

	t.Run("who the caller is", func(t *testing.T) {
		hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
		if err != nil {
			t.Fatal(err)
		}
		s := sitetest.Run(t, "", `basic_auth {
				ada `+string(hash)+`
			}
			map {http.auth.user.id} {tenant} {
				ada blue
			}
			vars team rail
			mcp TRIPS
			reverse_proxy `+api+` {
				header_up X-User {http.auth.user.id}
				header_up X-Tenant {tenant}
				header_up X-Team {vars.team}
				header_up X-Tool "{http.tool.name} {http.tool.toolset} {http.tool.protocol}"
				header_up X-Uri {http.request.orig_uri}
			}`)
		if a := s.Do(s.CallRequest("listTrips", "")); a.Status != http.StatusUnauthorized {
			t.Fatalf("without credentials: %d", a.Status)
		}
		r := s.CallRequest("listTrips", "")
		r.SetBasicAuth("ada", "secret")
		r.Header.Set("X-User", "eve")
		e := s.Echo(r)
		for name, want := range map[string]string{
			"X-User": "ada", "X-Tenant": "blue", "X-Team": "rail", "X-Uri": "/trips",
			"X-Tool": "listTrips " + filepath.Join(s.Dir, "trips.yaml") + " mcp",
		} {
			if got := e.Header.Get(name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
	})
}
