package remote

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/fetch"
	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/oagent"
)

// document is the definition of the agent helper.
const document = "kind: openagentspec:v1/agent\nname: helper\ndescription: Helps.\nintent: You help.\nowner: team\ncapabilities: {}\n"

// server is a server with the agent /agents/helper. A nil handler is replaced by one that works.
type server struct {
	*httptest.Server
	mu       sync.Mutex
	requests []*http.Request

	definition, start, state http.HandlerFunc
}

func newServer(t *testing.T) *server {
	s := &server{
		definition: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(document)) },
		start: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/engagements/1")
			w.WriteHeader(http.StatusSeeOther)
		},
		state: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(` {"status":"complete","text":"Done.","exposes":{"n":1}}`))
		},
	}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, r)
		s.mu.Unlock()
		switch {
		case r.Method == http.MethodPost:
			s.start(w, r)
		case strings.HasPrefix(r.URL.Path, "/agents/"):
			s.definition(w, r)
		case r.Method == http.MethodGet:
			s.state(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// host is the host and port of the server.
func (s *server) host() string { return s.Listener.Addr().String() }

func (s *server) reference(t *testing.T) oagent.Reference {
	t.Helper()
	r, err := oagent.ParseReference("oagent://" + s.host() + "/agents/helper")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// seen returns the requests with that method so far.
func (s *server) seen(method string) []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.requests), func(r *http.Request) bool { return r.Method != method })
}

// count returns the number of requests so far.
func (s *server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.requests)
}

// client returns a client that may call the server.
func (s *server) client(t *testing.T, change func(*Host)) *Client {
	t.Helper()
	h := Host{Name: s.host(), HostOptions: HostOptions{AllowPrivateAddresses: true, Roots: x509.NewCertPool()}}
	h.Roots.AddCert(s.Certificate())
	h.Timeout = testkit.Patience
	if change != nil {
		change(&h)
	}
	c, err := New(Options{Hosts: []Host{h}})
	if err != nil {
		t.Fatal(err)
	}
	c.firstGap = time.Millisecond
	t.Cleanup(c.Close)
	return c
}

// The reference server takes the input as a JSON string and answers with results.
func TestRun_of_the_reference_server(t *testing.T) {
	s := newServer(t)
	s.start = func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || string(body) != `"Help <me>"` {
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = w.Write([]byte(`{"detail":[{"type":"string_type","loc":["body"],"msg":"Input should be a valid string"}]}`))
			return
		}
		w.Header().Set("Location", "/engagements/1/")
		w.WriteHeader(http.StatusSeeOther)
	}
	s.state = writes(200, `{"engagement_id":"1","oagent":{},"user":{"id":"u"},"status":"complete","results":{"text":"Done.","n":1}}`)
	outputs, status, err := s.client(t, nil).Run(t.Context(), &Call{Reference: s.reference(t), Input: "Help <me>"})
	if err != nil || status != http.StatusOK || string(outputs) != `{"text":"Done.","exposes":{"n":1}}` {
		t.Fatalf("%s, %d, %v", outputs, status, err)
	}
	if n := len(s.seen(http.MethodPost)); n != 2 {
		t.Errorf("%d requests", n)
	}
}

// A server that refuses both forms is reported with what it says of the first one.
func TestRun_refused_in_both_forms(t *testing.T) {
	s := newServer(t)
	var bodies []string
	s.start = func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(body))
		writes(http.StatusUnprocessableEntity, fmt.Sprintf(`{"detail":"refusal %d"}`, len(bodies)))(w, r)
	}
	_, _, err := s.client(t, nil).Run(t.Context(), &Call{Reference: s.reference(t), Input: "Help"})
	if err == nil || !strings.Contains(err.Error(), "refusal 1") || !slices.Equal(bodies, []string{`{"input":"Help"}`, `"Help"`}) {
		t.Errorf("%v after %q", err, bodies)
	}
}

// writes returns a handler with a fixed response.
func writes(status int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

func TestRun(t *testing.T) {
	s := newServer(t)
	polls := 0
	s.state = func(w http.ResponseWriter, r *http.Request) {
		statuses := []string{"awaiting-llm", "awaiting-tool", "awaiting-verification", "complete"}
		fmt.Fprintf(w, `{"status":%q,"text":"Done.","exposes":{"n":1},"unknown":[]}`, statuses[polls])
		polls++
	}
	outputs, status, err := s.client(t, nil).Run(t.Context(), &Call{Reference: s.reference(t), Input: "Help"})
	if err != nil || status != http.StatusOK || string(outputs) != `{"text":"Done.","exposes":{"n":1}}` {
		t.Fatalf("%s, %d, %v", outputs, status, err)
	}
	if polls != 4 {
		t.Errorf("%d polls", polls)
	}
	for _, r := range s.seen(http.MethodGet)[1:] {
		if r.Header.Get("Prefer") != "wait=20" {
			t.Errorf("Prefer: %q", r.Header.Get("Prefer"))
		}
	}
	if n := len(s.seen(http.MethodDelete)); n != 0 {
		t.Errorf("%d requests to cancel", n)
	}
}

// TestRun_failures checks what the caller learns of a server that misbehaves, and that the client
// returns soon and follows nothing to another host.
func TestRun_failures(t *testing.T) {
	elsewhere := newServer(t)
	big := strings.Repeat("a", 10<<20)
	for name, test := range map[string]struct {
		change func(*server)
		want   string // of the error
		cancel bool   // whether the Engagement is canceled
	}{
		"definition redirects to itself": {func(s *server) { s.definition = writes(302, "", "Location", "/agents/helper") }, "redirects", false},
		"definition on another host": {func(s *server) {
			s.definition = writes(302, "", "Location", elsewhere.URL+"/agents/helper")
		}, "redirect another host", false},
		"definition over http": {func(s *server) {
			s.definition = writes(302, "", "Location", "http://"+s.host()+"/agents/helper")
		}, "redirect scheme", false},
		"definition of 10 MB": {func(s *server) { s.definition = writes(200, document+"# "+big) }, "larger", false},
		"definition missing":  {func(s *server) { s.definition = writes(404, "") }, "404", false},
		"definition is HTML":  {func(s *server) { s.definition = writes(200, "<!doctype html><p>") }, "kind", false},
		"definition malformed": {
			func(s *server) { s.definition = writes(200, "kind: [") },
			"YAML", false,
		},
		"definition not UTF-8": {func(s *server) { s.definition = writes(200, "\xff\xfe") }, "UTF-8", false},
		"wrong kind": {func(s *server) {
			s.definition = writes(200, strings.Replace(document, "v1/agent", "v2/agent", 1))
		}, "kind v2", false},
		"another agent": {func(s *server) {
			s.definition = writes(200, strings.Replace(document, "helper", "other", 1))
		}, "another agent", false},
		"alias instead of text": {func(s *server) { s.definition = writes(200, bomb) }, "description", false},
		"nested deeply": {func(s *server) {
			s.definition = writes(200, document+"extra: "+strings.Repeat("[", 9000)+strings.Repeat("]", 9000))
		}, "YAML", false},
		"POST 200":                 {func(s *server) { s.start = writes(200, "{}") }, "200", false},
		"POST 307":                 {func(s *server) { s.start = writes(307, "", "Location", "/agents/helper") }, "307 redirect", false},
		"POST 303 to another host": {func(s *server) { s.start = writes(303, "", "Location", elsewhere.URL+"/engagements/1") }, "another host", false},
		"POST 303 to http":         {func(s *server) { s.start = writes(303, "", "Location", "http://"+s.host()+"/e/1") }, "another host", false},
		"POST 303 to a user":       {func(s *server) { s.start = writes(303, "", "Location", "https://u:p@"+s.host()+"/e/1") }, "another host", false},
		"POST 303 to nothing":      {func(s *server) { s.start = writes(303, "") }, "Location", false},
		"POST refused":             {func(s *server) { s.start = writes(403, `{"detail":"No access.\u0007"}`) }, "403 No access.", false},
		"state redirects to itself": {
			func(s *server) { s.state = writes(303, "", "Location", "/engagements/1") },
			"redirects", true,
		},
		"state on another host": {
			func(s *server) { s.state = writes(303, "", "Location", elsewhere.URL+"/engagements/1") },
			"another host", true,
		},
		"state of 10 MB":       {func(s *server) { s.state = writes(200, `{"status":"complete","text":"`+big+`"}`) }, "larger", true},
		"state malformed":      {func(s *server) { s.state = writes(200, `{"status":"complete"`) }, "JSON", true},
		"state has two":        {func(s *server) { s.state = writes(200, `{"status":"complete","status":"error"}`) }, "JSON", true},
		"state is a list":      {func(s *server) { s.state = writes(200, `[]`) }, "JSON", true},
		"unknown status":       {func(s *server) { s.state = writes(200, `{"status":"tired"}`) }, "status tired", true},
		"state without text":   {func(s *server) { s.state = writes(200, `{"status":"complete","output":{"text":"Done."}}`) }, "text", true},
		"state disappears":     {func(s *server) { s.state = writes(404, "") }, "404", true},
		"server fails forever": {func(s *server) { s.state = writes(503, "") }, "503", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			test.change(s)
			_, _, err := s.client(t, nil).Run(t.Context(), &Call{Reference: s.reference(t)})
			if _, ok := errors.AsType[*Error](err); err == nil || !ok && !isPackageError(err) || !testkit.ContainsAll(err.Error(), test.want) {
				t.Fatalf("error %v, want %q", err, test.want)
			}
			if strings.Contains(err.Error(), "u:p@") || len(err.Error()) > 1000 {
				t.Errorf("error %q", err)
			}
			if canceled := len(s.seen(http.MethodDelete)) > 0; canceled != test.cancel {
				t.Errorf("canceled: %v", canceled)
			}
			if n := len(s.seen(http.MethodGet)); strings.Contains(test.want, "another host") && n > 2 {
				t.Errorf("%d GETs: a redirect is polled again", n)
			}
		})
	}
	if n := elsewhere.count(); n != 0 {
		t.Errorf("%d requests to the other host", n)
	}
}

func isPackageError(err error) bool {
	_, invalid := errors.AsType[*invalidError](err)
	_, status := errors.AsType[*statusError](err)
	return invalid || status
}

// bomb is a document whose aliases expand to billions of values.
const bomb = `kind: openagentspec:v1/agent
name: helper
a: &a [x, x, x, x, x, x, x, x, x, x]
b: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a, *a]
c: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b, *b]
d: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c, *c]
e: &e [*d, *d, *d, *d, *d, *d, *d, *d, *d, *d]
f: &f [*e, *e, *e, *e, *e, *e, *e, *e, *e, *e]
g: &g [*f, *f, *f, *f, *f, *f, *f, *f, *f, *f]
h: &h [*g, *g, *g, *g, *g, *g, *g, *g, *g, *g]
description: *h
`

// TestRun_endings checks Engagements that end without an answer.
func TestRun_endings(t *testing.T) {
	for name, test := range map[string]struct {
		state, want string
		cancel      bool
	}{
		"error":           {`{"status":"error","error":{"kind":"limit","message":"too many turns"}}`, `{"error":{"kind":"limit","message":"too many turns"}}`, false},
		"without reason":  {`{"status":"error","error":"x"}`, `{"error":{"message":"the agent failed without giving a reason"}}`, false},
		"asks a question": {`{"status":"awaiting-additional-input","questions":[{"id":"Q1","text":"Where to?"}]}`, "Where to?", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.state = writes(200, test.state)
			outputs, status, err := s.client(t, nil).Run(t.Context(), &Call{Reference: s.reference(t)})
			if err != nil || status != http.StatusBadGateway {
				t.Fatalf("got the status %d, want %d; error %v", status, http.StatusBadGateway, err)
			}
			if !strings.Contains(string(outputs), test.want) || !outputs.IsValid() {
				t.Fatalf("got %s, want valid JSON with %s", outputs, test.want)
			}
			if canceled := len(s.seen(http.MethodDelete)) > 0; canceled != test.cancel {
				t.Errorf("canceled: %v", canceled)
			}
		})
	}
}

// TestRun_transient checks that a poll is repeated after a passing failure, and a POST is not.
func TestRun_transient(t *testing.T) {
	s := newServer(t)
	works, polls := s.state, 0
	s.state = func(w http.ResponseWriter, r *http.Request) {
		if polls++; polls < maxFailures {
			writes(503, "", "Retry-After", "0")(w, r)
			return
		}
		works(w, r)
	}
	c := s.client(t, nil)
	if _, status, err := c.Run(t.Context(), &Call{Reference: s.reference(t)}); err != nil || status != 200 {
		t.Errorf("%d, %v", status, err)
	}
	s.start = writes(503, "")
	if _, _, err := c.Run(t.Context(), &Call{Reference: s.reference(t)}); err == nil || !testkit.ContainsAll(err.Error(), "503") {
		t.Errorf("error %v", err)
	}
	if n := len(s.seen(http.MethodPost)); n != 2 {
		t.Errorf("%d requests to start", n)
	}
}

// TestRun_cancel checks that an Engagement is canceled when the caller gives up, or when it takes
// too long.
func TestRun_cancel(t *testing.T) {
	for name, want := range map[string]string{"canceled": "canceled", "kept": "canceled", "slow": "in time"} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s.state = func(_ http.ResponseWriter, r *http.Request) {
				if name != "slow" {
					cancel()
				}
				<-r.Context().Done()
			}
			c := s.client(t, func(h *Host) {
				if name == "slow" {
					h.Timeout = 2 * time.Second // enough for the request that starts the Engagement
				}
			})
			_, _, err := c.Run(ctx, &Call{Reference: s.reference(t), Kept: func() bool { return name == "kept" }})
			if err == nil || !testkit.ContainsAll(err.Error(), want) {
				t.Errorf("error %v, want %q", err, want)
			}
			if n := len(s.seen(http.MethodDelete)); (n == 1) != (name != "kept") {
				t.Errorf("%d requests to cancel", n)
			}
		})
	}
}

// TestRun_goes_on checks that a call goes on with its Engagement after a question, and after its process has ended.
func TestRun_goes_on(t *testing.T) {
	s := newServer(t)
	works := s.state
	s.state = writes(200, `{"status":"awaiting-additional-input","questions":[{"id":"Q1","text":"Where to?"},{"id":"Q2","text":"When?"}]}`)
	c := s.client(t, nil)
	call := &Call{Reference: s.reference(t), MayAsk: true}
	_, _, err := c.Run(t.Context(), call)
	asked, ok := errors.AsType[*AskedError](err)
	if !ok || *asked != (AskedError{s.URL + "/engagements/1", "Q1", "Where to?"}) {
		t.Fatalf("got the error %v", err)
	}
	s.state = works
	s.start = writes(200, `{}`)
	call.Location, call.Question, call.Answer = asked.Location, asked.ID, "Bern"
	for range 2 { // the second time, the question is no longer open
		if _, status, err := c.Run(t.Context(), call); err != nil || status != 200 {
			t.Errorf("got the status %d and the error %v", status, err)
		}
		s.start = writes(409, `{"detail":"no open question"}`)
	}
	call.Answer = ""
	if _, status, err := c.Run(t.Context(), call); err != nil || status != 200 {
		t.Errorf("got the status %d and the error %v", status, err)
	}
	if n := len(s.seen(http.MethodDelete)); n > 0 {
		t.Errorf("%d requests to cancel", n)
	}
	if n := len(s.seen(http.MethodPost)); n != 3 {
		t.Errorf("%d POSTs, want one for the start and two for the answer", n)
	}
}

// TestRun_started checks that the caller learns the URL of an Engagement before it is polled. If the caller cannot store the URL, the Engagement is canceled.
func TestRun_started(t *testing.T) {
	for _, failed := range []error{nil, errors.New("not stored")} {
		s := newServer(t)
		polls, location := 0, ""
		call := &Call{Reference: s.reference(t), Started: func(url string) error {
			location, polls = url, len(s.seen(http.MethodGet))
			return failed
		}}
		c := s.client(t, nil)
		_, status, err := c.Run(t.Context(), call)
		if !errors.Is(err, failed) || failed == nil && status != 200 {
			t.Errorf("got the status %d and the error %v, want the error %v", status, err, failed)
		}
		if polls > 1 || location != s.URL+"/engagements/1" {
			t.Errorf("got %q after %d GETs, want %s after at most 1", location, polls, s.URL+"/engagements/1")
		}
		if canceled := s.seen(http.MethodDelete); (len(canceled) == 1) != (failed != nil) {
			t.Errorf("%d requests to cancel", len(canceled))
		}
	}
}

// TestRun_of_slow_definition checks that a definition that never ends does not hold a call.
func TestRun_of_slow_definition(t *testing.T) {
	s := newServer(t)
	s.definition = func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	c := s.client(t, func(h *Host) { h.Timeout = 100 * time.Millisecond })
	if _, _, err := c.Run(t.Context(), &Call{Reference: s.reference(t)}); err == nil || !testkit.ContainsAll(err.Error(), "time") {
		t.Errorf("error %v", err)
	}
}

// TestPrivateAddress checks that the address is checked after the name was resolved, and before
// anything is sent.
func TestPrivateAddress(t *testing.T) {
	s := newServer(t)
	_, port, _ := strings.Cut(s.host(), ":")
	for _, name := range []string{s.host(), "localhost:" + port} {
		c, err := New(Options{Hosts: []Host{{Name: name}}})
		if err != nil {
			t.Fatal(err)
		}
		reference, err := oagent.ParseReference("oagent://" + name + "/agents/helper")
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = c.Run(t.Context(), &Call{Reference: reference})
		if !errors.Is(err, fetch.ErrPrivateAddress) || strings.Contains(strings.ReplaceAll(err.Error(), reference.String(), ""), "127.0.0.1") {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if n := s.count(); n != 0 {
		t.Errorf("%d requests", n)
	}
}

// TestCredentials checks which credentials each request has.
func TestCredentials(t *testing.T) {
	caller := http.Header{"Authorization": {"Bearer caller"}, "Cookie": {"session=caller"}, "X-Api-Key": {"caller"}}
	operator := func(r *http.Request) error {
		r.Header.Set("Authorization", "Bearer operator")
		r.URL.RawQuery = "key=operator"
		return nil
	}
	static := func(r *http.Request) error { r.Header.Set("Authorization", "Bearer static"); return nil }
	for name, test := range map[string]struct {
		host HostOptions
		call Call
		want string // Authorization of the requests of the call
	}{
		"none":                      {HostOptions{}, Call{Caller: caller}, ""},
		"operator":                  {HostOptions{Authorize: operator}, Call{Caller: caller}, "Bearer operator"},
		"caller":                    {HostOptions{Authorize: operator, ForwardCaller: true}, Call{Caller: caller}, "Bearer caller"},
		"no identity of the caller": {HostOptions{ForwardCaller: true}, Call{}, ""},
		"static":                    {HostOptions{Authorize: operator, ForwardCaller: true}, Call{Caller: caller, Static: static}, "Bearer static"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.state = writes(200, `{"status":"awaiting-additional-input"}`) // so that there is a DELETE
			c := s.client(t, func(h *Host) {
				h.Authorize, h.ForwardCaller = test.host.Authorize, test.host.ForwardCaller
			})
			test.call.Reference = s.reference(t)
			if _, _, err := c.Run(t.Context(), &test.call); err != nil {
				t.Fatal(err)
			}
			if s.count() != 4 {
				t.Fatalf("%d requests", s.count())
			}
			for i, r := range s.requests {
				want := test.want
				if i == 0 { // the definition
					want = ""
					if test.host.Authorize != nil {
						want = "Bearer operator"
					}
				}
				if got := r.Header.Get("Authorization"); got != want || r.Header.Get("Cookie") != "" || r.Header.Get("X-Api-Key") != "" {
					t.Errorf("%s %s: %v", r.Method, r.URL, r.Header)
				}
			}
		})
	}
}

func TestCredentials_missing(t *testing.T) {
	s := newServer(t)
	secret := errors.New("file secret.txt is missing")
	c := s.client(t, func(h *Host) { h.Authorize = func(*http.Request) error { return secret } })
	_, _, err := c.Run(t.Context(), &Call{Reference: s.reference(t)})
	if !errors.Is(err, secret) || strings.Contains(err.Error(), "secret.txt") || s.count() != 0 {
		t.Errorf("error %v, %d requests", err, s.count())
	}
}

func TestDefinition_cache(t *testing.T) {
	s := newServer(t)
	fetched := make(chan string, 10)
	status := http.StatusOK
	s.definition = func(w http.ResponseWriter, r *http.Request) {
		defer func() { fetched <- r.Header.Get("If-None-Match") }()
		if status == http.StatusOK && r.Header.Get("If-None-Match") == `"1"` {
			status = http.StatusNotModified
		}
		writes(status, document, "Etag", `"1"`, "Cache-Control", "max-age=120")(w, r)
	}
	c := s.client(t, nil)
	reference := s.reference(t)
	get := func(want bool) {
		t.Helper()
		if d, err := c.Description(t.Context(), reference); (err == nil) != want || want && d != "Helps." {
			t.Fatalf("%+v, %v", d, err)
		}
	}
	// age moves the end of the current definition's freshness, and the time of its confirmation.
	age := func(freshness, confirmation time.Duration) {
		e := c.definitions[reference.String()]
		changed := *e.snapshot.Load()
		changed.until, changed.confirmed = time.Now().Add(-freshness), time.Now().Add(-confirmation)
		e.snapshot.Store(&changed)
	}
	expect := func(tag string) {
		t.Helper()
		select {
		case got := <-fetched:
			if got != tag {
				t.Errorf("If-None-Match: %q, want %q", got, tag)
			}
		case <-time.After(testkit.Patience):
			t.Fatal("no fetch")
		}
		c.refreshing.Wait()
	}
	get(true)
	expect("")
	get(true) // fresh: nothing is fetched
	age(time.Second, time.Hour)
	get(true)
	expect(`"1"`) // confirmed by 304
	status = http.StatusServiceUnavailable
	age(time.Second, time.Hour)
	get(true)
	expect(`"1"`)
	get(true) // the server fails: the definition stays, and is not fetched again at once
	age(time.Second, maxStale+time.Hour)
	get(false)
	expect(`"1"`)
	get(false) // the failure is remembered
	status = http.StatusOK
	age(time.Second, time.Hour)
	get(true)
	expect("")
	status = http.StatusNotFound
	age(time.Second, time.Hour)
	get(true) // in the background
	expect(`"1"`)
	get(false) // the agent is gone, however fresh its definition was
	if n := len(fetched); n != 0 {
		t.Errorf("%d more fetches", n)
	}
}

func TestFreshFor(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"": minFresh, "no-store": minFresh, "max-age=x": minFresh, "max-age=-5": minFresh, "max-age=1": minFresh,
		"public, Max-Age=300": 5 * time.Minute, "max-age=999999999999": maxFresh,
	} {
		if got := freshFor(http.Header{"Cache-Control": {value}}); got != want {
			t.Errorf("%q: %v", value, got)
		}
	}
}

func TestNew(t *testing.T) {
	for name, want := range map[string]bool{
		"a.example": true, "A.Example:443": true, "a.example:8443": true, "127.0.0.1": true,
		"": false, "https://a.example": false, "a.example/agents": false, "*.example": false, "a.example:x": false, "a b": false,
	} {
		if _, err := New(Options{Hosts: []Host{{Name: name}}}); (err == nil) != want {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := New(Options{Hosts: []Host{{Name: "a.example"}, {Name: "a.example:443"}}}); err == nil {
		t.Error("the same host twice")
	}
}

func TestCheck(t *testing.T) {
	c, err := New(Options{Hosts: []Host{{Name: "a.example"}}})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		"oagent://a.example/x": true, "oagent://a.example:443/agents/x": true,
		"oagent://a.example:8443/x": false, "oagent://b.example/x": false, "oagent://sub.a.example/x": false, "oagent://x": false, "x": false,
	} {
		reference, err := oagent.ParseReference(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Check(reference); (err == nil) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}
