package ocp_test

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
	"github.com/fairwayhq/fairway/ocp"
)

// sessionJSON is the header of a session that no Go program would write.
func sessionJSON(text string) string {
	return base64.StdEncoding.EncodeToString([]byte(text))
}

// compressedSessionJSON returns the text as a compressed session.
func compressedSessionJSON(t *testing.T, text string) string {
	t.Helper()
	return "gzip:" + sessionJSON(sitetest.Gzipped(t, text))
}

// TestOCP_forward_control wants a context that the upstream's header can carry,
// whatever characters are in it.
func TestOCP_forward_control(t *testing.T) {
	a := sitetest.NewAPI(t, nil)
	s := ocpSite(t, a, "ocp {\nforward json\n}\nreverse_proxy API")
	text := `{"context_id":"ocp-debug-123","agent_type":"ide_coding_assistant","current_file":"a\u007f\u0000\n\u0085\u2028é"}`
	got := s.Do(agent(s, "GET", "/trips", "OCP-Session", sessionJSON(text)))
	if got.Status != http.StatusOK {
		t.Fatalf("got %+v", got)
	}
	forwarded := a.Last(t).Header.Get("OCP-Context")
	context, _ := ocp.ReadContext([]byte(forwarded), ocp.ReadOptions{})
	if context == nil || context.CurrentFile != "a\x7f\x00\n\u0085\u2028é" {
		t.Errorf("got %q", forwarded)
	}
}

// TestOCP_long_URL wants a long URL to be reported in part, in whole segments, so
// that it costs the entry nothing else.
func TestOCP_long_URL(t *testing.T) {
	a := sitetest.NewAPI(t, func(w http.ResponseWriter, r *http.Request) {})
	s := ocpSite(t, a, "ocp\nreverse_proxy API")
	var path strings.Builder
	for i := range 1_000 {
		fmt.Fprintf(&path, "/%x", i*2654435761)
	}
	got := s.Do(agent(s, "GET", path.String()))
	reply := replyOf(t, got)
	if got.Status != http.StatusOK || reply == nil || len(reply.History) != 1 {
		t.Fatalf("got %d, %+v", got.Status, reply)
	}
	entry := reply.History[0]
	at := entry.APIEndpoint
	if len(at) > 2048 || entry.Metadata == nil {
		t.Errorf("got %d bytes, want at most 2048; got the metadata %s, want some", len(at), entry.Metadata)
	}
	if !strings.HasPrefix(s.URL+path.String(), at) || !strings.HasSuffix(at, "/") {
		t.Errorf("got %s, want the beginning of the URL up to a slash", at)
	}
}

// TestOCP_debug_log wants nothing in the logs that a client has put into a session,
// names included.
func TestOCP_debug_log(t *testing.T) {
	a := sitetest.NewAPI(t, nil)
	s := ocpSite(t, a, "ocp {\nforward json\nenhance x \"ocp.current_file + 1\"\n}\nreverse_proxy API")
	text := `{"context_id":"ocp-debug-123","agent_type":"ide_coding_assistant","hidden1":"hidden2","current_file":"hidden3",` +
		`"api_specs":{"hidden4":"x"},"session":{"hidden5":1},"history":[{"hidden6":1,"metadata":{"hidden7":{"a":1,"a":2}}}]}`
	s.Do(agent(s, "GET", "/trips", "OCP-Session", sessionJSON(text)))
	s.Logged("OCP", "session")
	s.Logged("handled request")
	for line := range strings.Lines(s.Log()) {
		// reverse_proxy itself logs what it forwards at level DEBUG.
		if strings.Contains(line, "hidden") && !strings.Contains(line, "upstream roundtrip") {
			t.Errorf("logged %s", line)
		}
	}
}

// TestOCP_no_foreign_bytes wants each of many clients at a time to be answered with
// its own bytes, in the body and in the reply.
func TestOCP_no_foreign_bytes(t *testing.T) {
	a := sitetest.NewAPI(t, func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get("OCP-Context-ID")
		body := `{"id":"` + id + `","fill":"` + strings.Repeat(id, 200) + `"}`
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/gzip":
			w.Header().Set("Content-Encoding", "gzip")
			body = sitetest.Gzipped(t, body)
		case "/flush":
			io.WriteString(w, body[:10])
			http.NewResponseController(w).Flush()
			body = body[10:]
		case "/broken":
			body = body[:len(body)-1]
		}
		io.WriteString(w, body)
	})
	s := ocpSite(t, a, "ocp {\nenhance who \"[ocp.context_id, ocp.?current_file.orValue('-')]\"\n}\nreverse_proxy API")
	paths := []string{"/plain", "/gzip", "/flush", "/broken"}
	var all sync.WaitGroup
	for client := range 16 {
		all.Go(func() {
			id := fmt.Sprintf("ocp-client-%d", client)
			for i := range 40 {
				path := paths[(i+client)%len(paths)]
				r := agent(s, "GET", path, "OCP-Context-ID", id, "OCP-Session",
					sessionJSON(fmt.Sprintf(`{"context_id":%q,"agent_type":"ide_coding_assistant","current_file":"%s.%d"}`, id, id, i%3)))
				response, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Error(err)
					return
				}
				body, _ := io.ReadAll(response.Body)
				response.Body.Close()
				want := `{"id":"` + id + `","fill":"` + strings.Repeat(id, 200) + `"`
				if path != "/broken" {
					want += fmt.Sprintf(`,"who":["%s","%s.%d"]}`, id, id, i%3)
				}
				h := ocp.ReadHeaders(response.Header, ocp.ReadOptions{})
				if string(body) != want {
					t.Errorf("%s %s: got %s, want %s", id, path, body, want)
				}
				if h.ContextID != id || h.Session == nil || h.Session.Text("context_id") != id {
					t.Errorf("%s %s: got the context %s with the session %+v", id, path, h.ContextID, h.Session)
				}
			}
		})
	}
	all.Wait()
}

// TestOCP_large_answer wants an answer that is too large to be enhanced to pass as
// it comes, in little memory.
func TestOCP_large_answer(t *testing.T) {
	const parts = 64
	part := bytes.Repeat([]byte("x"), 1<<20)
	a := sitetest.NewAPI(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for range parts {
			w.Write(part)
		}
	})
	for _, block := range []string{"", "flush_interval -1"} {
		s := ocpSite(t, a, "ocp {\nenhance by ocp.agent_type\n}\nreverse_proxy API {\n"+block+"\n}")
		got := s.Do(agent(s, "GET", "/trips"))
		if len(got.Body) != parts<<20 || replyOf(t, got) == nil {
			t.Errorf("got %d bytes, %v", len(got.Body), got.Header)
		}
	}
}

// TestOCP_early_hints wants hints to pass before the answer, without a reply.
func TestOCP_early_hints(t *testing.T) {
	a := sitetest.NewAPI(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{}`)
	})
	s := ocpSite(t, a, "ocp {\nenhance by ocp.agent_type\n}\nreverse_proxy API {\nflush_interval -1\n}")
	got := s.Do(agent(s, "GET", "/trips"))
	if got.Body != `{"by":"ide_coding_assistant"}` || len(got.Header["Ocp-Session"]) != 1 || replyOf(t, got) == nil {
		t.Errorf("got %+v", got)
	}
}

// TestOCP_access_log_filter wants the filter of the README to keep sessions and users
// out of the access log.
func TestOCP_access_log_filter(t *testing.T) {
	a := sitetest.NewAPI(t, nil)
	s := sitetest.NewSite(t)
	const filtered = `log filtered {
		output file DIR/access.log
		format filter {
			request>headers>Ocp-Session delete
			request>headers>Ocp-User delete
			resp_headers>Ocp-Session delete
		}
	}
	`
	s.Start("", filtered+"ocp\nreverse_proxy "+strings.TrimPrefix(a.URL, "http://"))
	sent := session(t, nil)
	reply := s.Do(agent(s, "GET", "/trips", "OCP-Session", sent, "OCP-User", "ada-lovelace")).Header.Get("OCP-Session")
	access := ""
	sitetest.Eventually(t, "a line in the access log", func() bool {
		text, _ := os.ReadFile(filepath.Join(s.Dir, "access.log"))
		access = string(text)
		return strings.Contains(access, "handled request")
	})
	for _, secret := range []string{sent, reply, "ada-lovelace"} {
		if strings.Contains(access, secret) {
			t.Errorf("the access log has %q: %s", secret, access)
		}
	}
}

// TestOCP_placeholder_lines wants a field of a session to fit wherever a placeholder
// can be, a header among them, though it has several lines.
func TestOCP_placeholder_lines(t *testing.T) {
	a := sitetest.NewAPI(t, nil)
	s := ocpSite(t, a, "ocp\nreverse_proxy API {\nheader_up X-Summary {http.ocp.session.context_summary}\nheader_up X-Odd {http.ocp.session.odd}\n}")
	text := `{"context_id":"ocp-debug-123","agent_type":"ide_coding_assistant","context_summary":"one\ntwo\u007f\u0000é","odd":[1,
		2]}`
	got := s.Do(agent(s, "GET", "/trips", "OCP-Session", sessionJSON(text)))
	if got.Status != http.StatusOK {
		t.Fatalf("got %+v", got)
	}
	if summary, odd := a.Last(t).Header.Get("X-Summary"), a.Last(t).Header.Get("X-Odd"); summary != "one two  é" || odd != "[1,   2]" && odd != "[1,\t\t2]" {
		t.Errorf("got %q, %q", summary, odd)
	}
}

// varyLine is the only thing that ocp adds to an answer without a valid context, and only
// if it would be enhanced with one.
const varyLine = "Vary: OCP-Context-ID, OCP-Agent-Type, OCP-Current-Goal, OCP-User, OCP-Workspace, OCP-Session\r\n"

// TestOCP_raw_answers wants odd answers of an upstream to pass byte for byte but for Vary,
// where there is no valid context.
func TestOCP_raw_answers(t *testing.T) {
	const head, body = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n", `{"a":1}`
	answers := map[string]string{
		"/too-short":     head + "Content-Length: 50\r\n\r\n" + body,
		"/too-long":      head + "Content-Length: 3\r\n\r\n" + body,
		"/trailer":       head + "Transfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n7\r\n" + body + "\r\n0\r\nX-T: v\r\n\r\n",
		"/late-trailer":  head + "Transfer-Encoding: chunked\r\n\r\n7\r\n" + body + "\r\n0\r\nX-T: v\r\n\r\n",
		"/no-content":    "HTTP/1.1 204 No Content\r\nContent-Type: application/json\r\n\r\n",
		"/not-modified":  "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n",
		"/partial":       "HTTP/1.1 206 Partial Content\r\nContent-Type: application/json\r\nContent-Range: bytes 0-6/9\r\nContent-Length: 7\r\n\r\n" + body,
		"/coded":         head + "Content-Encoding: gzip, gzip\r\nContent-Length: 7\r\n\r\n" + body,
		"/tags":          head + "ETag: \"a\"\r\nETag: b\r\nDigest: x\r\nContent-Length: 7\r\n\r\n" + body,
		"/vary":          head + "Vary: *\r\nContent-Length: 7\r\n\r\n" + body,
		"/ocp":           head + "OCP-Context-ID: a\r\nOCP-Context-ID: b\r\nOCP-Session: e30=\r\nContent-Length: 7\r\n\r\n" + body,
		"/invalid":       head + "X: \x01\r\n\r\n" + body,
		"/hints":         "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + head + "Content-Length: 7\r\n\r\n" + body,
		"/until-closed":  head + "\r\n" + body,
		"/unknown":       "HTTP/1.1 999 Odd\r\nContent-Length: 7\r\n\r\n" + body,
		"/closed-at-all": "",
	}
	upstream := rawServer(t, answers)
	s := sitetest.NewSite(t)
	// A connection that the upstream has closed, or left bytes on, must not be
	// the next request's.
	proxy := "reverse_proxy " + upstream + " {\ntransport http {\nkeepalive off\n}\n}"
	s.Start("", "handle_path /plain/* {\n"+proxy+"\n}\nhandle_path /ocp/* {\nroute {\nocp {\nenhance by ocp.agent_type\n}\n"+proxy+"\n}\n}")
	varies := []string{"/too-short", "/too-long", "/late-trailer", "/not-modified", "/tags", "/ocp", "/hints", "/until-closed"}
	for path := range answers {
		for _, method := range []string{"GET", "HEAD"} {
			want := raw(s, method, "/plain"+path, "")
			for _, headers := range []string{
				"",
				"OCP-Context-ID: a b\r\nOCP-Agent-Type: x\r\n",
				"OCP-Agent-Type: x\r\nOCP-Session: zzz\r\n",
				"OCP-Context-ID: a\r\nOCP-Context-ID: a\r\nOCP-Agent-Type: x\r\n",
			} {
				got := raw(s, method, "/ocp"+path, headers)
				without := strings.Replace(got, varyLine, "", 1)
				if without != want {
					t.Errorf("%s %s %q\ngot  %q\nwant %q", method, path, headers, got, want)
				}
				// A malformed answer may become an error of the proxy, which does not vary.
				if whole := strings.Contains(want, " 200 ") || strings.Contains(want, " 304 "); (without != got) != (whole && slices.Contains(varies, path)) {
					t.Errorf("%s %s %q: Vary\ngot  %q", method, path, headers, got)
				}
			}
		}
	}
}

// rawServer answers with the text that belongs to the path, and closes.
func rawServer(t *testing.T, answers map[string]string) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if r, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
					io.WriteString(conn, answers[r.URL.Path])
				}
			}()
		}
	}()
	return listener.Addr().String()
}

// raw returns an answer as it is on the wire, but for its date.
func raw(s *sitetest.Site, method, path, headers string) string {
	s.T.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		s.T.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n%s\r\n", method, path, headers)
	answer, err := io.ReadAll(conn)
	if err != nil {
		s.T.Fatal(err)
	}
	before, after, found := strings.Cut(string(answer), "Date: ")
	if !found {
		return before
	}
	_, after, _ = strings.Cut(after, "\r\n")
	return before + after
}

// TestOCP_broken_session wants a session that breaks the text of the protocol to be as if it were absent.
func TestOCP_broken_session(t *testing.T) {
	a := sitetest.NewAPI(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{}`)
	})
	s := ocpSite(t, a, "ocp {\nenhance goal \"ocp.?current_goal.orValue('none')\"\n}\nreverse_proxy API")
	for members, goal := range map[string]string{
		`"context_id":"ocp-debug-123"`:                         "spy",
		`"context_id":"ocp-debug-124"`:                         "none",
		`"agent_type":"cli"`:                                   "none",
		`"history":"long"`:                                     "none",
		`"last_updated":"today at noon"`:                       "none",
		`"recent_changes":[` + strings.Repeat("0,", 10) + `0]`: "none",
	} {
		got := s.Do(agent(s, "GET", "/trips", "OCP-Session", sessionJSON(`{"current_goal":"spy",`+members+`}`)))
		sent := a.Last(t).Header.Get("OCP-Session") != ""
		if got.Status != http.StatusOK || sent != (goal == "spy") || !strings.Contains(got.Body, `"goal":"`+goal+`"`) {
			t.Errorf("%s: status %d, %s; the API got the session: %v", members, got.Status, got.Body, sent)
		}
	}
}
