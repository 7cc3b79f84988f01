package ocp_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

func zstandard(t *testing.T, text string) string {
	t.Helper()
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(z.EncodeAll([]byte(text), nil))
}

// TestOCPEnhance sends one answer of each kind through a site that enhances, and
// says what the client must get. Where it is left as it is, it is the upstream's.
func TestOCPEnhance(t *testing.T) {
	const object, enhanced = `{ "a" : 1 }`, `{ "a" : 1 ,"by":"ide_coding_assistant"}`
	var write http.HandlerFunc
	a := sitetest.NewAPI(t, func(w http.ResponseWriter, r *http.Request) { write(w, r) })
	s := ocpSite(t, a, "ocp {\nenhance by ocp.agent_type\nmax_enhanced 4KB\n}\nreverse_proxy API")

	large := `{"a":"` + strings.Repeat("x", 5000) + `"}`
	type headers map[string]string
	for rule, c := range map[string]struct {
		method  string
		request headers
		status  int
		header  headers // of the upstream's answer
		body    string
		chunked bool
		varies  bool // with the context, though this answer is not enhanced

		want       string  // body; "" means the upstream's
		wantStatus int     // 0 means the upstream's
		wantHeader headers // "" means absent
	}{
		"object":                {header: headers{"Content-Type": "application/json"}, body: object, want: enhanced, wantHeader: headers{"Content-Length": strconv.Itoa(len(enhanced))}},
		"chunked":               {header: headers{"Content-Type": "application/json; charset=utf-8"}, body: object, chunked: true, want: enhanced},
		"suffix":                {header: headers{"Content-Type": "application/hal+json"}, body: object, want: enhanced},
		"list":                  {header: headers{"Content-Type": "application/json"}, body: `[{},{"a":1},2]`, want: `[{"by":"ide_coding_assistant"},{"a":1,"by":"ide_coding_assistant"},2]`},
		"created":               {method: "POST", status: 201, header: headers{"Content-Type": "application/json"}, body: object, want: enhanced},
		"refusal":               {status: 404, header: headers{"Content-Type": "application/problem+json"}, body: object},
		"text":                  {header: headers{"Content-Type": "text/plain", "ETag": `"v1"`, "Last-Modified": "Fri, 20 Nov 2026 00:00:00 GMT"}, body: object, wantHeader: headers{"ETag": `"v1"`, "Last-Modified": "Fri, 20 Nov 2026 00:00:00 GMT"}},
		"broken JSON":           {header: headers{"Content-Type": "application/json", "ETag": `"v1"`, "Digest": "sha-256=x"}, body: `{"a":`, wantHeader: headers{"ETag": `"v1"`, "Digest": "sha-256=x"}},
		"two values":            {header: headers{"Content-Type": "application/json"}, body: "{}\n{}"},
		"too large":             {header: headers{"Content-Type": "application/json", "ETag": `"v1"`}, body: large, wantHeader: headers{"ETag": `"v1"`, "Content-Length": strconv.Itoa(len(large))}},
		"too large/chunked":     {header: headers{"Content-Type": "application/json", "ETag": `"v1"`}, body: large, chunked: true, wantHeader: headers{"ETag": `"v1"`}},
		"empty":                 {header: headers{"Content-Type": "application/json"}, body: ""},
		"no content":            {status: 204, header: headers{"ETag": `"v1"`}, wantHeader: headers{"ETag": `"v1"`}},
		"not modified":          {status: 304, header: headers{"ETag": `"v1"`}, wantHeader: headers{"ETag": `"v1"`}, varies: true},
		"partial":               {status: 206, header: headers{"Content-Type": "application/json", "Content-Range": "bytes 0-10/20", "ETag": `"v1"`}, body: object, wantHeader: headers{"ETag": `"v1"`, "Content-Range": "bytes 0-10/20"}},
		"gzip":                  {request: headers{"Accept-Encoding": "gzip"}, header: headers{"Content-Type": "application/json", "Content-Encoding": "gzip"}, body: sitetest.Gzipped(t, object), want: enhanced, wantHeader: headers{"Content-Encoding": "", "Content-Length": strconv.Itoa(len(enhanced))}},
		"zstd":                  {request: headers{"Accept-Encoding": "zstd"}, header: headers{"Content-Type": "application/json", "Content-Encoding": "zstd"}, body: zstandard(t, object), chunked: true, want: enhanced, wantHeader: headers{"Content-Encoding": ""}},
		"gzip/broken":           {request: headers{"Accept-Encoding": "gzip"}, header: headers{"Content-Type": "application/json", "Content-Encoding": "gzip"}, body: sitetest.Gzipped(t, object)[:20], wantHeader: headers{"Content-Encoding": "gzip"}},
		"gzip/too large inside": {request: headers{"Accept-Encoding": "gzip"}, header: headers{"Content-Type": "application/json", "Content-Encoding": "gzip"}, body: sitetest.Gzipped(t, large), wantHeader: headers{"Content-Encoding": "gzip"}},
		"brotli":                {request: headers{"Accept-Encoding": "br"}, header: headers{"Content-Type": "application/json", "Content-Encoding": "br"}, body: "\x0b\x02\x80{}\x03", wantHeader: headers{"Content-Encoding": "br"}},
		"etag":                  {header: headers{"Content-Type": "application/json", "ETag": `"v1"`}, body: object, want: enhanced, wantHeader: headers{"ETag": `"v1-ocp.` + hashOf(enhanced) + `"`}},
		"etag/weak":             {header: headers{"Content-Type": "application/json", "ETag": `W/"v1"`}, body: object, want: enhanced, wantHeader: headers{"ETag": `W/"v1-ocp.` + hashOf(enhanced) + `"`}},
		"etag/known":            {request: headers{"If-None-Match": `"v1-ocp.` + hashOf(enhanced) + `"`}, header: headers{"Content-Type": "application/json", "ETag": `"v1"`}, body: object, want: " ", wantStatus: 304, wantHeader: headers{"ETag": `"v1-ocp.` + hashOf(enhanced) + `"`, "Content-Length": "", "Content-Type": ""}},
		"etag/other":            {request: headers{"If-None-Match": `"v1-ocp.0123456789abcdef"`}, header: headers{"Content-Type": "application/json", "ETag": `"v1"`}, body: object, want: enhanced},
		"what was true of the body": {
			header: headers{"Content-Type": "application/json", "Digest": "x", "Content-Digest": "x", "Repr-Digest": "x", "Content-MD5": "x", "Accept-Ranges": "bytes", "Last-Modified": "Fri, 20 Nov 2026 00:00:00 GMT"}, body: object, want: enhanced,
			wantHeader: headers{"Digest": "", "Content-Digest": "", "Repr-Digest": "", "Content-MD5": "", "Accept-Ranges": "", "Last-Modified": ""},
		},
		"no-transform": {header: headers{"Content-Type": "application/json", "Cache-Control": "private, no-transform"}, body: object},
		"signed":       {header: headers{"Content-Type": "application/json", "Signature-Input": "sig1=()"}, body: object},
		"head":         {method: "HEAD", header: headers{"Content-Type": "application/json", "Content-Length": "11", "ETag": `"v1"`}, wantHeader: headers{"Content-Length": "", "ETag": "", "Content-Type": "application/json"}},
		"head/text":    {method: "HEAD", header: headers{"Content-Type": "text/plain", "Content-Length": "11", "ETag": `"v1"`}, wantHeader: headers{"Content-Length": "11", "ETag": `"v1"`}},
	} {
		t.Run(rule, func(t *testing.T) {
			write = func(w http.ResponseWriter, r *http.Request) {
				for key, value := range c.header {
					w.Header().Set(key, value)
				}
				if !c.chunked && c.header["Content-Length"] == "" && c.status != 204 && c.status != 304 {
					w.Header().Set("Content-Length", strconv.Itoa(len(c.body)))
				}
				w.WriteHeader(max(c.status, 200))
				if !c.chunked {
					io.WriteString(w, c.body)
					return
				}
				for i := range len(c.body) {
					if io.WriteString(w, c.body[i:i+1]); i%(len(c.body)/4+1) == 0 {
						_ = http.NewResponseController(w).Flush()
					}
				}
			}
			s := s.With(t)
			r := agent(s, "GET", "/trips")
			if c.method != "" {
				r.Method = c.method
			}
			r.Header.Set("Accept-Encoding", "identity")
			for key, value := range c.request {
				r.Header.Set(key, value)
			}
			got := s.Do(r)
			want, wantStatus := c.want, c.wantStatus
			if want == "" {
				want = c.body
			}
			if wantStatus == 0 {
				wantStatus = max(c.status, 200)
			}
			if got.Body != strings.TrimSpace(want) && got.Body != want || got.Status != wantStatus {
				t.Errorf("got %d %q, want %d %q", got.Status, got.Body, wantStatus, want)
			}
			for key, value := range c.wantHeader {
				if got.Header.Get(key) != value {
					t.Errorf("%s: got %q, want %q", key, got.Header.Get(key), value)
				}
			}
			if replyOf(t, got) == nil {
				t.Errorf("no reply: %v", got.Header)
			}
			if wide := strings.Contains(got.Header.Get("Vary"), "OCP-Current-Goal"); wide != (c.want != "" || c.varies) && c.wantHeader["Content-Type"] == "" && !strings.HasPrefix(rule, "broken") && !strings.HasPrefix(rule, "two") && !strings.HasPrefix(rule, "gzip") && !strings.HasPrefix(rule, "empty") && rule != "too large/chunked" {
				t.Errorf("Vary: %s", got.Header.Get("Vary"))
			}
		})
	}
}

// TestOCP_enhance_requests expects requests to the upstream for responses that can be enhanced.
func TestOCP_enhance_requests(t *testing.T) {
	a := sitetest.NewAPI(t, nil)
	s := ocpSite(t, a, "ocp {\nenhance by ocp.agent_type\n}\nreverse_proxy API")
	for sent, want := range map[string]string{
		"br, gzip;q=0.8, *;q=0.1": "gzip;q=0.8",
		"br":                      "identity",
		"gzip, deflate, zstd":     "gzip, deflate, zstd",
	} {
		s.Do(agent(s, "GET", "/trips", "Accept-Encoding", sent))
		if got := a.Last(t).Header.Get("Accept-Encoding"); got != want {
			t.Errorf("%s: got %s, want %s", sent, got, want)
		}
	}
	s.Do(agent(s, "PUT", "/trips/7", "If-Match", `"a-ocp.0123456789abcdef", W/"b-ocp.0123456789abcdef" , "c-ocp.d"`, "If-Range", `"a-ocp.0123456789abcdef"`))
	upstream := a.Last(t)
	if got, want := upstream.Header.Get("If-Match"), `"a", W/"b" , "c-ocp.d"`; got != want {
		t.Errorf("If-Match: got %s, want %s", got, want)
	}
	if got, want := upstream.Header.Get("If-Range"), `"a-ocp.0123456789abcdef"`; got != want {
		t.Errorf("If-Range: got %s, want %s", got, want)
	}
}

// TestOCPStream wants streams to flow.
func TestOCPStream(t *testing.T) {
	next := make(chan struct{})
	a := sitetest.NewAPI(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", r.Header.Get("X-Type"))
		for i := range 2 {
			fmt.Fprintf(w, "{\"event\":%d}\n", i)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-next:
			case <-r.Context().Done():
				return
			}
		}
	})
	s := ocpSite(t, a, "ocp {\nenhance by ocp.agent_type\n}\nreverse_proxy API")
	for _, kind := range []string{"text/event-stream", "application/x-ndjson", "application/json"} {
		t.Run(kind, func(t *testing.T) {
			response, err := http.DefaultClient.Do(agent(s, "GET", "/watch", "X-Type", kind))
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			buffer := make([]byte, 64)
			for i := range 2 {
				// Each event must arrive before the next one is sent.
				n, err := io.ReadAtLeast(response.Body, buffer, len("{\"event\":0}\n"))
				if want := fmt.Sprintf("{\"event\":%d}\n", i); string(buffer[:n]) != want || err != nil {
					t.Fatalf("got %q, %v", buffer[:n], err)
				}
				select {
				case next <- struct{}{}:
				case <-time.After(time.Minute):
					t.Fatal("the stream has ended")
				}
			}
		})
	}
}

// TestOCPTrailers wants trailers to arrive, and what they speak of unchanged.
func TestOCPTrailers(t *testing.T) {
	a := sitetest.NewAPI(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/announced" {
			w.Header().Set("Trailer", "X-Sum")
		}
		io.WriteString(w, `{}`)
		_ = http.NewResponseController(w).Flush()
		if r.URL.Path == "/announced" {
			w.Header().Set("X-Sum", "1")
		} else {
			w.Header().Set(http.TrailerPrefix+"X-Sum", "1")
		}
	})
	s := ocpSite(t, a, "ocp {\nenhance by ocp.agent_type\n}\nreverse_proxy API")
	for path, want := range map[string]string{"/announced": `{}`, "/unannounced": `{}`} {
		response, err := http.DefaultClient.Do(agent(s, "GET", path))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if string(body) != want || err != nil || response.Trailer.Get("X-Sum") != "1" {
			t.Errorf("%s: got %s, %v, %v", path, body, response.Trailer, err)
		}
	}
}

// TestOCP_broken_answer wants an answer that breaks off to break off here too.
func TestOCP_broken_answer(t *testing.T) {
	a := sitetest.NewAPI(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "100")
		io.WriteString(w, `{"a":1}`)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	s := ocpSite(t, a, "ocp {\nenhance by ocp.agent_type\n}\nreverse_proxy API")
	response, err := http.DefaultClient.Do(agent(s, "GET", "/trips"))
	if err == nil {
		_, err = io.ReadAll(response.Body)
		response.Body.Close()
	}
	if err == nil {
		t.Error("the answer seems to be whole", response)
	}
}

// TestOCP_enhance_faults wants an expression that fails to leave the answer alone, to
// be counted and to be logged once.
func TestOCP_enhance_faults(t *testing.T) {
	a := sitetest.NewAPI(t, nil)
	s := ocpSite(t, a, "ocp {\nenhance by ocp.user\n}\nmetrics /metrics\nreverse_proxy API")
	for range 3 {
		if got := s.Do(agent(s, "GET", "/trips")); got.Body != `{"path":"/trips"}` {
			t.Errorf("got %s", got.Body)
		}
	}
	if got := s.Do(agent(s, "GET", "/trips", "OCP-User", "ada")); got.Body != `{"path":"/trips","by":"ada"}` {
		t.Errorf("got %s", got.Body)
	}
	s.Logged(`"property":"by"`, `"reason":"missing_key"`, `"level":"warn"`)
	if n := strings.Count(s.Log(), `"reason":"missing_key"`); n != 1 {
		t.Errorf("got %d times", n)
	}
	metrics := s.Get("/metrics").Body
	for _, line := range []string{`fairway_ocp_enhancements_total{outcome="missing_key"} `, `fairway_ocp_enhancements_total{outcome="enhanced"} `, `fairway_ocp_contexts_total{verdict="none"} `, `fairway_ocp_replies_total{shed="false"} `} {
		if !strings.Contains(metrics, line) {
			t.Errorf("no metric %s", line)
		}
	}
}

// TestOCPEnhance_failure_costs_one_property wants an expression that fails to cost the answer
// its own property only, in a list only of the item for which it failed.
func TestOCPEnhance_failure_costs_one_property(t *testing.T) {
	a := sitetest.NewAPI(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `[{"a":1},{"b":2}]`)
	})
	s := ocpSite(t, a, "ocp {\nenhance broken ocp.workspace\nenhance next \"item.a + 1\"\nenhance by ocp.agent_type\n}\nmetrics /metrics\nreverse_proxy API")
	counter := func(property string) func(int) {
		return sitetest.MetricsOf(s).Counter(`fairway_ocp_property_failures_total{property="` + property + `",reason="missing_key"}`)
	}
	ofBroken, ofNext := counter("broken"), counter("next")
	const want = `[{"a":1,"next":2,"by":"ide_coding_assistant"},{"b":2,"by":"ide_coding_assistant"}]`
	if got := s.Do(agent(s, "GET", "/trips")); got.Body != want {
		t.Errorf("got %s, want %s", got.Body, want)
	}
	s.Logged(`"property":"next"`, `"reason":"missing_key"`)
	ofBroken(1)
	ofNext(1)
}

// TestOCPDeclared wants a property that is for declaring operations only to keep to
// these and to their schemas.
func TestOCPDeclared(t *testing.T) {
	a := sitetest.NewAPI(t, nil)
	s := ocpSite(t, a, "ocp {\ntoolset DIR/contextual.yaml\nenhance next_actions \"ocp.?user.hasValue() ? dyn(1) : dyn(['rest'])\" declared\n}\nreverse_proxy API")
	for _, c := range []struct{ path, user, want string }{
		{"/trips", "", `{"path":"/trips","next_actions":["rest"]}`},
		{"/trips", "ada", `{"path":"/trips"}`}, // a number does not fit the schema
		{"/trips/7", "", `{"path":"/trips/7"}`},
	} {
		r := agent(s, "GET", c.path)
		if c.user != "" {
			r.Header.Set("OCP-User", c.user)
		}
		if got := s.Do(r); got.Body != c.want {
			t.Errorf("%s %s: got %s, want %s", c.path, c.user, got.Body, c.want)
		}
	}
}

func hashOf(body string) string {
	sum := sha256.Sum256([]byte(body))
	return hex.EncodeToString(sum[:8])
}
