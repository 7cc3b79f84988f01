package oagent_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

func init() {
	caddy.RegisterModule(new(noteEvents))
}

// noted is how many events have come, of any test.
var noted atomic.Int64

// noteEvents is a handler of events that counts them.
type noteEvents struct{}

func (*noteEvents) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "events.handlers.test_note", New: func() caddy.Module { return new(noteEvents) }}
}

func (*noteEvents) UnmarshalCaddyfile(*caddyfile.Dispenser) error { return nil }

func (*noteEvents) Handle(_ context.Context, e caddy.Event) error {
	if e.Data["reviewer"] == "boss" && e.Data["agent"] == "desk" && e.Data["inputs"] == nil {
		noted.Add(1)
	}
	return nil
}

// TestOAgent_review_is_asked_for has a call wait for its reviewer for longer than a
// call may take, which is time enough for what the call itself does.
func TestOAgent_review_is_asked_for(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("agent.yaml", sitetest.AgentDocument("desk", `
  create-trip: {user_identity: false, input_restriction: {require_review: boss}}
  get-trip: {user_identity: false, output_restriction: {require_review: boss}}
`))
	var reached atomic.Int64
	before := noted.Load()
	s.Start("agents {\n\ttoolset trips TRIPS {\n\ttimeout 3s\n\t}\n\tstore bolt DIR/store.db\n}\nevents {\n\ton oagent_review_asked test_note\n}",
		"mcp trips\noagent DIR/agent.yaml {\n\treview_wait 4s\n\treviews /reviews\n}\nreverse_proxy "+sitetest.Upstream(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				reached.Add(1)
			}
			_, _ = w.Write([]byte("hunter2"))
		}))
	var a sitetest.Response
	var created, r sitetest.Result
	var calls sync.WaitGroup // at the same time, because each waits for the whole time
	calls.Go(func() { a = s.Request("POST", "/trips", `{"to":"Bern"}`) })
	calls.Go(func() { created = s.Call("createTrip", `{"to":"Bern"}`) })
	calls.Go(func() { r = s.Call("getTrip", `{"id":"1"}`) })
	calls.Wait()
	if !created.IsError || !sitetest.ContainsAll(created.Text(), []string{"needs a review", "repeat", "inputs", `"retry_after":30`}) {
		t.Error(created.Text())
	}
	if reached.Load() != 0 {
		t.Error("the API was called")
	}
	if text := r.Text(); !r.IsError || strings.Contains(text, "hunter2") || !testkit.ContainsAll(text, "withheld approves") {
		t.Error(text)
	}
	p := s.Problem(a)
	if p.Kind != "review_pending" || p.Review == "" {
		t.Errorf("got the kind %q with the review %q, want review_pending with one", p.Kind, p.Review)
	}
	if retry := a.Header.Get("Retry-After"); retry != "30" || !strings.Contains(a.Body, `"instance":"/reviews/`+p.Review) {
		t.Errorf("got Retry-After %q, want 30; got %s, want the instance /reviews/%s", retry, a.Body, p.Review)
	}
	sitetest.Eventually(t, "both events", func() bool { return noted.Load() == before+2 })
}
