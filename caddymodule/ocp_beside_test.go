package caddymodule_test

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// TestOCPBesideEncode wants an answer that is decoded, enhanced and compressed anew.
func TestOCPBesideEncode(t *testing.T) {
	long := `{"a":"` + strings.Repeat("x", 1000) + `"}`
	a := newAPI(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		io.WriteString(w, gzipped(t, long))
	})
	s := ocpSite(t, a, "encode gzip\nocp {\nenhance by ocp.agent_type\n}\nreverse_proxy API")
	got := s.do(s.agent("GET", "/trips", "Accept-Encoding", "gzip, br"))
	z, err := gzip.NewReader(strings.NewReader(got.body))
	if err != nil {
		t.Fatalf("%v: %+v", err, got)
	}
	body, err := io.ReadAll(z)
	if want := long[:len(long)-1] + `,"by":"ide_coding_assistant"}`; string(body) != want || err != nil {
		t.Errorf("got %s, %v", body, err)
	}
	if got.header.Get("Content-Encoding") != "gzip" || !strings.Contains(strings.Join(got.header["Vary"], ","), "Accept-Encoding") {
		t.Errorf("got %v", got.header)
	}
}

// TestOCPBesideFiles wants files, which are copied without Write, to be enhanced
// as a whole, and parts of them to be left alone.
func TestOCPBesideFiles(t *testing.T) {
	a := newAPI(t, nil)
	s := ocpSite(t, a, "root DIR\nocp {\nenhance by ocp.agent_type\n}\nfile_server")
	s.write("trips.json", `{"trips":[]}`)
	whole := s.do(s.agent("GET", "/trips.json"))
	if whole.body != `{"trips":[],"by":"ide_coding_assistant"}` || whole.header.Get("Last-Modified") != "" || whole.header.Get("Accept-Ranges") != "" {
		t.Errorf("got %+v", whole)
	}
	part := s.do(s.agent("GET", "/trips.json", "Range", "bytes=0-4"))
	if part.status != http.StatusPartialContent || part.body != `{"tri` {
		t.Errorf("got %+v", part)
	}
	// A part of what was read before is not a part of the file.
	mixed := s.do(s.agent("GET", "/trips.json", "Range", "bytes=0-4", "If-Range", whole.header.Get("ETag")))
	if mixed.status != http.StatusOK || mixed.body != whole.body {
		t.Errorf("got %+v", mixed)
	}
	same := s.do(s.agent("GET", "/trips.json", "If-None-Match", whole.header.Get("ETag")))
	if same.status != http.StatusNotModified || same.body != "" {
		t.Errorf("got %+v", same)
	}
}

// TestOCPBesideUpgrade wants another protocol to take over the connection.
func TestOCPBesideUpgrade(t *testing.T) {
	a := newAPI(t, func(w http.ResponseWriter, r *http.Request) {
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
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
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

// TestOCPBesideErrors wants error routes to answer with the reply.
func TestOCPBesideErrors(t *testing.T) {
	a := newAPI(t, nil)
	s := ocpSite(t, a, "ocp {\nenhance by ocp.agent_type\n}\nerror 404\nhandle_errors {\nheader Content-Type application/json\nrespond `{\"goal\":\"{http.ocp.current_goal}\"}` 404\n}")
	got := s.do(s.agent("GET", "/trips", "OCP-Current-Goal", "g"))
	if reply := replyOf(t, got); got.status != 404 || got.body != `{"goal":"g"}` || reply == nil || reply.History[0].Result != "error: 404 Not Found" {
		t.Errorf("got %+v", got)
	}
}

// TestOCPBesideFailures wants a handler's own fault to be answered as one.
func TestOCPBesideFailures(t *testing.T) {
	a := newAPI(t, nil)
	s := ocpSite(t, a, "ocp {\nenhance by ocp.agent_type\n}\nheader Content-Type application/json\nroute {\ntemplates {\nmime application/json\n}\nrespond `{{nothing}}`\n}")
	if got := s.do(s.agent("GET", "/")); got.status != http.StatusInternalServerError || replyOf(t, got) == nil {
		t.Errorf("got %+v", got)
	}
}
