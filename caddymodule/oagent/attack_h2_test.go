package oagent_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// guardedH2 runs a site as guarded does, whose clients may speak HTTP/2 in clear
// text.
func guardedH2(t *testing.T, capabilities string, handler http.HandlerFunc) *sitetest.Site {
	t.Helper()
	s := sitetest.NewSite(t)
	s.Write("agent.yaml", sitetest.AgentDocument("desk", capabilities))
	s.Start("agents {\n\tstore bolt DIR/store.db\n}\nservers {\n\tprotocols h1 h2c\n}", sitetest.GuardedBlock("", sitetest.Upstream(t, handler)))
	return s
}

// clientH2 is a client that speaks HTTP/2 over one connection.
func clientH2(t *testing.T) *http.Client {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &protocols}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// frames sends one request of HTTP/2 frame by frame, and returns the status of the
// answer: 0 if the server has given the stream or the connection up. Fields are
// names and values as they are; a trailer follows the body if there is one.
func frames(s *sitetest.Site, fields []string, body string, trailer []string) (status string) {
	s.T.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		s.T.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(testkit.Patience))
	_, _ = io.WriteString(conn, http2.ClientPreface)
	framer := http2.NewFramer(conn, conn)
	framer.AllowIllegalWrites = true
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_ = framer.WriteSettings()
	block := new(strings.Builder)
	encoder := hpack.NewEncoder(block)
	encode := func(fields []string) []byte {
		block.Reset()
		for i := 0; i < len(fields); i += 2 {
			_ = encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
		}
		return []byte(block.String())
	}
	headers := encode(fields)
	first := headers[:min(len(headers), 16<<10)]
	_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: first, EndStream: body == "" && trailer == nil, EndHeaders: len(first) == len(headers)})
	for rest := headers[len(first):]; len(rest) > 0; {
		part := rest[:min(len(rest), 16<<10)]
		rest = rest[len(part):]
		_ = framer.WriteContinuation(1, len(rest) == 0, part)
	}
	if body != "" || trailer != nil {
		_ = framer.WriteData(1, trailer == nil, []byte(body))
	}
	if trailer != nil {
		_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: encode(trailer), EndStream: true, EndHeaders: true})
	}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return "0"
		}
		switch f := frame.(type) {
		case *http2.MetaHeadersFrame:
			if status := f.PseudoValue("status"); status != "" && status[0] != '1' {
				return status
			}
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return "0"
		case *http2.SettingsFrame:
			if !f.IsAck() {
				_ = framer.WriteSettingsAck()
			}
		}
	}
}

// TestOAgent_no_bypass_h2 requests a forbidden operation by what HTTP/1 has no way to
// say.
func TestOAgent_no_bypass_h2(t *testing.T) {
	var reached atomic.Int64
	s := guardedH2(t, `
  list-trips: {user_identity: false, input_restriction: {assertion: "!has(recent.list-trips.inputs.lang) || recent.list-trips.inputs.lang == 'good'"}}
  create-trip: {user_identity: false, input_restriction: {assertion: recent.create-trip.inputs.to == "Bern"}}
`, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if len(r.Trailer) > 0 {
			t.Errorf("trailers %v", r.Trailer)
		}
		reached.Add(1)
	})
	authority := strings.TrimPrefix(s.URL, "http://")
	ask := func(method, path string, more ...string) []string {
		return append([]string{":method", method, ":scheme", "http", ":authority", authority, ":path", path}, more...)
	}
	const bern = `{"to":"Bern"}`
	isJSON := []string{"content-type", "application/json"}
	for _, test := range []struct {
		name    string
		fields  []string
		body    string
		trailer []string
		status  []string // what it may be; "200" alone reaches the API
	}{
		{"good", ask("GET", "/trips"), "", nil, []string{"200"}},
		{"good with a body", ask("POST", "/trips", isJSON...), bern, nil, []string{"200"}},
		{"good with a trailer", ask("POST", "/trips", isJSON...), bern, []string{"x-http-method-override", "DELETE"}, []string{"200"}},
		{"good with an announced trailer", ask("POST", "/trips", append(isJSON, "trailer", "x-a")...), bern, []string{"x-a", "b"}, []string{"200"}},
		{"good crumbs of cookies", ask("GET", "/trips", "cookie", "a=b", "cookie", "lang=good"), "", nil, []string{"200"}},
		{"plain", ask("DELETE", "/trips/1"), "", nil, []string{"403"}},
		{"a word of the body", ask("POST", "/trips", isJSON...), `{"to":"Zug"}`, nil, []string{"403"}},
		{"a method that is no token", ask("GET /trips/1", "/trips"), "", nil, []string{"0", "400", "403"}},
		{"a method with a line", ask("GET\r\nX: y", "/trips"), "", nil, []string{"0", "400", "403"}},
		{"a method in small letters", ask("delete", "/trips/1"), "", nil, []string{"400", "403"}},
		{"no slash", ask("GET", "trips/1"), "", nil, []string{"0", "400", "403"}},
		{"an absolute path", ask("GET", "http://"+authority+"/trips/1"), "", nil, []string{"0", "400", "403"}},
		{"an asterisk", ask("OPTIONS", "*"), "", nil, []string{"0", "200", "400", "403"}},
		{"two slashes", ask("GET", "//trips/1"), "", nil, []string{"400", "403"}},
		{"a line in the path", ask("GET", "/trips\r\nX: y"), "", nil, []string{"0", "400", "403"}},
		{"a space in the path", ask("GET", "/trips HTTP/1.1\r\n\r\nDELETE /trips/1"), "", nil, []string{"0", "400", "403"}},
		{"a fragment", ask("GET", "/trips/1#/../../trips"), "", nil, []string{"0", "400", "403"}},
		{"an escape", ask("GET", "/trips/%31"), "", nil, []string{"403"}},
		{"the path twice", append(ask("GET", "/trips"), ":path", "/trips/1"), "", nil, []string{"0", "400"}},
		{"the method twice", append(ask("GET", "/trips"), ":method", "DELETE"), "", nil, []string{"0", "400"}},
		{"the path after a header", []string{":method", "GET", ":scheme", "http", "x-a", "b", ":path", "/trips/1"}, "", nil, []string{"0", "400"}},
		{"a pseudo header of one's own", append(ask("GET", "/trips"), ":override", "/trips/1"), "", nil, []string{"0", "400"}},
		{"a status", append(ask("GET", "/trips"), ":status", "200"), "", nil, []string{"0", "400"}},
		{"a pseudo header in the trailer", ask("POST", "/trips", isJSON...), bern, []string{":path", "/trips/1"}, []string{"0", "200", "400"}},
		{"an override", ask("GET", "/trips", "x-http-method-override", "DELETE"), "", nil, []string{"403"}},
		{"an override in large letters", ask("GET", "/trips", "X-HTTP-Method-Override", "DELETE"), "", nil, []string{"0", "400"}},
		{"an override after a null byte", ask("GET", "/trips", "x-a", "b\x00\r\nx-http-method-override: DELETE"), "", nil, []string{"0", "400"}},
		{"a connection", ask("GET", "/trips", "connection", "upgrade", "upgrade", "websocket"), "", nil, []string{"0", "400", "403"}},
		{"a transfer encoding", ask("POST", "/trips", append(isJSON, "transfer-encoding", "chunked")...), "d\r\n" + bern + "\r\n0\r\n\r\n", nil, []string{"0", "400", "403"}},
		{"less than was said", ask("POST", "/trips", append(isJSON, "content-length", "99")...), bern, nil, []string{"0", "400"}},
		{"more than was said", ask("POST", "/trips", append(isJSON, "content-length", "13")...), bern + "DELETE /trips/1 HTTP/1.1\r\n\r\n", nil, []string{"0", "400", "403"}},
		{"two lengths", ask("POST", "/trips", append(isJSON, "content-length", "13", "content-length", "2")...), bern, nil, []string{"200", "0", "400"}}, // of which one is passed on
		{"an extended CONNECT", []string{":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":authority", authority, ":path", "/trips"}, "", nil, []string{"0", "400", "403"}},
		{"CONNECT", []string{":method", "CONNECT", ":authority", authority}, "", nil, []string{"0", "400", "403"}},
		{"CONNECT with a path", append(ask("CONNECT", "/trips/1"), "x-a", "b"), "", nil, []string{"0", "400", "403"}},
		{"another host", ask("GET", "/trips/1", "host", "example.com"), "", nil, []string{"0", "400", "403"}},
		{"crumbs of cookies", ask("GET", "/trips", "cookie", "lang=good", "cookie", "lang=evil"), "", nil, []string{"403"}},
		{"crumbs of cookies the other way", ask("GET", "/trips", "cookie", "lang=evil", "cookie", "lang=good"), "", nil, []string{"403"}},
		{"a crumb of a crumb", ask("GET", "/trips", "cookie", "a=b; lang=evil", "cookie", "lang=good; c=d"), "", nil, []string{"403"}},
		{"headers without end", ask("GET", "/trips", "x-a", strings.Repeat("\x01", 2<<20)), "", nil, []string{"0", "400", "431"}},
		{"large headers", ask("GET", "/trips", "x-a", strings.Repeat("a", 4<<20)), "", nil, []string{"0", "400", "431"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := s.With(t)
			before := reached.Load()
			status := frames(s, test.fields, test.body, test.trailer)
			if !slices.Contains(test.status, status) {
				t.Errorf("status %s, want one of %v", status, test.status)
			}
			if n := reached.Load() - before; n > 0 && test.status[0] != "200" && test.name != "a pseudo header in the trailer" {
				t.Errorf("the API was called %d times", n)
			}
		})
	}
}

// TestOAgent_limit_h2 has one connection ask for more than an agent may do, in many
// streams at once, of which some are given up in the middle: a call that reached
// the API counts, whatever becomes of its stream.
func TestOAgent_limit_h2(t *testing.T) {
	const limit, streams, broken = 40, 200, 7
	var reached, left atomic.Int64
	s := guardedH2(t, fmt.Sprintf(`
  list-trips: {user_identity: false}
  get-trip:
    user_identity: false
    input_restriction: {assertion: history._total < %d}
`, limit), func(_ http.ResponseWriter, r *http.Request) {
		reached.Add(1)
		if r.URL.Path == "/trips/hang" {
			<-r.Context().Done()
			left.Add(1)
		}
	})
	h2 := clientH2(t)
	get := func(ctx context.Context, path string) int {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, nil)
		if err != nil {
			t.Error(err)
			return 0
		}
		response, err := h2.Do(r)
		if err != nil {
			return 0
		}
		defer response.Body.Close()
		if response.ProtoMajor != 2 {
			t.Errorf("protocol %s", response.Proto)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		return response.StatusCode
	}
	ctx, leave := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for range broken {
		group.Go(func() { get(ctx, "/trips/hang") })
	}
	sitetest.Eventually(t, "the calls that hang", func() bool { return reached.Load() == broken })
	leave() // which resets their streams
	group.Wait()
	sitetest.Eventually(t, "the end of the calls", func() bool { return left.Load() == broken })

	var allowed, refused atomic.Int64
	for range streams {
		group.Go(func() {
			switch get(t.Context(), "/trips/1") {
			case 200:
				allowed.Add(1)
			case 403:
				refused.Add(1)
			}
		})
	}
	group.Wait()
	if allowed.Load() != limit-broken || refused.Load() != streams-limit+broken || reached.Load() != limit {
		t.Errorf("%d calls were allowed and %d refused, and %d reached the API, want %d, %d and %d",
			allowed.Load(), refused.Load(), reached.Load(), limit-broken, streams-limit+broken, limit)
	}
}
