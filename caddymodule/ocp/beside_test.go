package ocp_test

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// TestOCP_beside_encode wants an answer that is decoded, enhanced and compressed anew.
func TestOCP_beside_encode(t *testing.T) {
	long := `{"a":"` + strings.Repeat("x", 1000) + `"}`
	a := sitetest.NewAPI(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		io.WriteString(w, sitetest.Gzipped(t, long))
	})
	s := ocpSite(t, a, "encode gzip\nocp {\nenhance by ocp.agent_type\n}\nreverse_proxy API")
	got := s.Do(agent(s, "GET", "/trips", "Accept-Encoding", "gzip, br"))
	z, err := gzip.NewReader(strings.NewReader(got.Body))
	if err != nil {
		t.Fatalf("%v: %+v", err, got)
	}
	body, err := io.ReadAll(z)
	if want := long[:len(long)-1] + `,"by":"ide_coding_assistant"}`; string(body) != want || err != nil {
		t.Errorf("got %s, %v", body, err)
	}
	if got.Header.Get("Content-Encoding") != "gzip" || !strings.Contains(strings.Join(got.Header["Vary"], ","), "Accept-Encoding") {
		t.Errorf("got %v", got.Header)
	}
}

// TestOCP_beside_files wants files, which are copied without Write, to be enhanced
// as a whole, and parts of them to be left alone.
func TestOCP_beside_files(t *testing.T) {
	a := sitetest.NewAPI(t, nil)
	s := ocpSite(t, a, "root DIR\nocp {\nenhance by ocp.agent_type\n}\nfile_server")
	s.Write("trips.json", `{"trips":[]}`)
	whole := s.Do(agent(s, "GET", "/trips.json"))
	if whole.Body != `{"trips":[],"by":"ide_coding_assistant"}` || whole.Header.Get("Last-Modified") != "" || whole.Header.Get("Accept-Ranges") != "" {
		t.Errorf("got %+v", whole)
	}
	part := s.Do(agent(s, "GET", "/trips.json", "Range", "bytes=0-4"))
	if part.Status != http.StatusPartialContent || part.Body != `{"tri` {
		t.Errorf("got %+v", part)
	}
	// A part of what was read before is not a part of the file.
	mixed := s.Do(agent(s, "GET", "/trips.json", "Range", "bytes=0-4", "If-Range", whole.Header.Get("ETag")))
	if mixed.Status != http.StatusOK || mixed.Body != whole.Body {
		t.Errorf("got %+v", mixed)
	}
	same := s.Do(agent(s, "GET", "/trips.json", "If-None-Match", whole.Header.Get("ETag")))
	if same.Status != http.StatusNotModified || same.Body != "" {
		t.Errorf("got %+v", same)
	}
}

// TestOCP_beside_upgrade wants another protocol to take over the connection.
func TestOCP_beside_upgrade(t *testing.T) {
	a := sitetest.NewAPI(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "echo")
		w.WriteHeader(http.StatusSwitchingProtocols)
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		line, _ := rw.ReadString('\n')
		fmt.Fprint(conn, line)
	})
	s := ocpSite(t, a, "ocp {\nenhance by ocp.agent_type\n}\nreverse_proxy API")
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: echo\r\nOCP-Context-ID: c\r\nOCP-Agent-Type: a\r\n\r\n")
	read := bufio.NewReader(conn)
	response, err := http.ReadResponse(read, nil)
	if err != nil || response.StatusCode != http.StatusSwitchingProtocols || response.Header.Get("OCP-Session") != "" {
		t.Fatalf("got %v, %v", response, err)
	}
	fmt.Fprint(conn, "hello\n")
	if line, err := read.ReadString('\n'); line != "hello\n" {
		t.Errorf("got %q, %v", line, err)
	}
}

// TestOCP_beside_errors wants error routes to answer with the reply.
func TestOCP_beside_errors(t *testing.T) {
	a := sitetest.NewAPI(t, nil)
	s := ocpSite(t, a, "ocp {\nenhance by ocp.agent_type\n}\nerror 404\nhandle_errors {\nheader Content-Type application/json\nrespond `{\"goal\":\"{http.ocp.current_goal}\"}` 404\n}")
	got := s.Do(agent(s, "GET", "/trips", "OCP-Current-Goal", "g"))
	if got.Status != 404 || got.Body != `{"goal":"g"}` {
		t.Errorf(`got %d %s, want 404 {"goal":"g"}`, got.Status, got.Body)
	}
	if reply := replyOf(t, got); reply == nil || reply.History[0].Result != "error: 404 Not Found" {
		t.Errorf("got the reply %+v, want the result error: 404 Not Found", reply)
	}
}

// TestOCP_beside_failures wants a handler's own fault to be answered as one.
func TestOCP_beside_failures(t *testing.T) {
	a := sitetest.NewAPI(t, nil)
	s := ocpSite(t, a, "ocp {\nenhance by ocp.agent_type\n}\nheader Content-Type application/json\nroute {\ntemplates {\nmime application/json\n}\nrespond `{{nothing}}`\n}")
	if got := s.Do(agent(s, "GET", "/")); got.Status != http.StatusInternalServerError || replyOf(t, got) == nil {
		t.Errorf("got %+v", got)
	}
}
