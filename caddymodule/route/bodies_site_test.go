package route_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	_ "github.com/fairwayhq/fairway/caddymodule/sigv4"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// bodiesSite runs a site whose request bodies may use 1 MiB in all, with everything that reads a body as a whole.
// X-Test-User is the user.
func bodiesSite(t *testing.T, servers string) *sitetest.Site {
	t.Helper()
	api := sitetest.Upstream(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{}`)
	})
	s := sitetest.NewSite(t)
	s.Write("agent.yaml", sitetest.AgentDocument("desk", "\n  create-trip: {user_identity: false}\n"))
	s.Start(servers+"agents {\n\ttoolset trips TRIPS\n\tstore bolt DIR/store.db\n\tmax_bodies 1MiB\n}", sitetest.MetricsRoute+`route {
	test_user
	agents_console {
		auditors ada bob
	}
	mcp /mcp trips
	otc /otc trips
	handle_path /signed/* {
		reverse_proxy `+api+` {
			transport aws_sigv4 {
				service  execute-api
				region   r
				access_key a
				secret_key b
			}
		}
	}
	handle /guarded/* {
		uri strip_prefix /guarded
		oagent DIR/agent.yaml {
			engagement {http.request.header.X-Talk}
		}
		reverse_proxy `+api+`
	}
	reverse_proxy `+api+`
}`)
	return s
}

// wholeBodies are the endpoints that read the body of a request as a whole.
var wholeBodies = []string{"/mcp", "/otc/call", "/guarded/trips", "/signed/x", "/console/tools/mcp/create_trip"}

// send sends a body of the size as a user.
func send(s *sitetest.Site, path, user string, size int) sitetest.Response {
	s.T.Helper()
	body := `{"to":"` + strings.Repeat("x", size) + `"}`
	return s.Request(http.MethodPost, path, body, "Content-Type", "application/json", "X-Test-User", user, "Origin", s.URL)
}

// hold sends the beginning of a body, and keeps the connection open until the test ends or closes it.
func hold(s *sitetest.Site, path, user string, size int) net.Conn {
	s.T.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		s.T.Fatal(err)
	}
	s.T.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nX-Test-User: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n{",
		path, strings.TrimPrefix(s.URL, "http://"), user, size); err != nil {
		s.T.Fatal(err)
	}
	return conn
}

// awaitBodies waits until bodies use so many bytes.
func awaitBodies(s *sitetest.Site, least, most int) {
	s.T.Helper()
	sitetest.Eventually(s.T, fmt.Sprintf("bodies to use %d to %d bytes", least, most), func() bool {
		n := sitetest.MetricsOf(s).Value(`fairway_limit_used{resource="request bodies"}`)
		return n >= least && n <= most
	})
}

// TestBodies_of_one_user_leave_room_for_others holds unfinished bodies of ada at each endpoint in turn.
func TestBodies_of_one_user_leave_room_for_others(t *testing.T) {
	s := bodiesSite(t, "")
	for _, path := range wholeBodies {
		t.Run(path, func(t *testing.T) {
			s := s.With(t)
			held := hold(s, path, "ada", 850_000)
			awaitBodies(s, 850_000, 850_000)
			if a := send(s, path, "ada", 100_000); a.Status != http.StatusTooManyRequests || lacksRetry(path, a) {
				t.Errorf("a large body of ada: %d %v %.200s", a.Status, a.Header, a.Body)
			}
			for user, size := range map[string]int{"ada": 1000, "bob": 100_000} {
				if a := send(s, path, user, size); isRefused(a.Status) {
					t.Errorf("%d bytes of %s: %d %.200s", size, user, a.Status, a.Body)
				}
			}
			if a := send(s, path, "bob", 200_000); a.Status != http.StatusServiceUnavailable || lacksRetry(path, a) {
				t.Errorf("a body that there is no room for: %d %v %.200s", a.Status, a.Header, a.Body)
			}
			_ = held.Close()
			awaitBodies(s, 0, 0)
			if a := send(s, path, "ada", 100_000); isRefused(a.Status) {
				t.Errorf("after the body has ended: %d %.200s", a.Status, a.Body)
			}
		})
	}
}

// lacksRetry reports whether a refusal lacks Retry-After. A transport cannot set it.
func lacksRetry(path string, a sitetest.Response) bool {
	return a.Header.Get("Retry-After") == "" && path != "/signed/x"
}

func isRefused(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable || status == http.StatusRequestTimeout
}

// TestBodies_that_pass_through_do_not_count sends a body larger than the limit to a path that reads none.
func TestBodies_that_pass_through_do_not_count(t *testing.T) {
	s := bodiesSite(t, "")
	if a := send(s, "/trips", "ada", 3<<20); a.Status != http.StatusOK {
		t.Errorf("%d %.200s", a.Status, a.Body)
	}
}

// TestBodies_that_arrive_too_slowly_get_408 has a short time without a byte, so that it need not wait for the default.
func TestBodies_that_arrive_too_slowly_get_408(t *testing.T) {
	s := bodiesSite(t, "servers {\n\ttimeouts {\n\t\tread_body_idle 200ms\n\t}\n}\n")
	for _, path := range wholeBodies {
		for _, size := range []int{100, 100_000} {
			answer, err := io.ReadAll(hold(s, path, "ada", size))
			if status, _, _ := strings.Cut(string(answer), "\r\n"); err != nil || status != "HTTP/1.1 408 Request Timeout" {
				t.Errorf("%s, %d bytes: %q, %v", path, size, status, err)
			}
		}
	}
	awaitBodies(s, 0, 0)
}
