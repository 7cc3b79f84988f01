package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/testkit"
)

const formRequest = `"method":"elicitation/create","params":{"message":"name?","requestedSchema":{"type":"object","properties":{}}}`

// asks returns a tool that sends a request to the client and returns the response as text.
func asks(request string) func(w http.ResponseWriter, q *received) {
	return func(w http.ResponseWriter, q *received) {
		events(w, `data: {"jsonrpc":"2.0","id":"ask",`+request+`}`)
		<-q.Context().Done()
	}
}

// An asking is a server of a revision before 2026-07-28 whose tool needs something of the client.
type asking struct {
	legacy
	responses chan string
}

func newAsking(request string) *asking {
	a := &asking{responses: make(chan string)}
	a.call = func(w http.ResponseWriter, q *received) {
		events(w, `data: {"jsonrpc":"2.0","id":"ask",`+request+`}`)
		select {
		case body := <-a.responses:
			text, _ := json.Marshal(body)
			events(w, fmt.Sprintf(`data: {"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%s}]}}`, q.ID, text))
		case <-q.Context().Done():
		}
	}
	return a
}

func (a *asking) respond(w http.ResponseWriter, q *received) {
	if q.Called == "" && len(q.body) > 0 {
		select {
		case a.responses <- q.body:
		case <-q.Context().Done():
		}
	}
	a.legacy.respond(w, q)
}

func (a *asking) begin(t *testing.T, s *Server, owner share.Owner, capabilities string) (jsontext.Value, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	result, err := s.Call(ctx, &Call{Owner: owner, Tool: "t", Arguments: jsontext.Value("{}"), Capabilities: jsontext.Value(capabilities)})
	if err != nil {
		t.Fatal(err)
	}
	return result, strictjson.Text(strictjson.MemberOf(result, "requestState"))
}

// TestParked_call_is_resumed by its owner, once.
func TestParked_call_is_resumed(t *testing.T) {
	a := newAsking(formRequest)
	s := serve(t, newFake(t, a.respond).URL)
	result, state := a.begin(t, s, "u:a", `{"elicitation":{}}`)
	if want := `{"resultType":"input_required","inputRequests":{"request":{` + formRequest + `}},"requestState":"` + state + `"}`; string(result) != want {
		t.Errorf("got  %s\nwant %s", result, want)
	}
	resume := func(owner share.Owner) (string, error) {
		r, err := s.Call(t.Context(), &Call{
			Owner: owner, Tool: "t", Arguments: jsontext.Value("{}"), State: state,
			Responses: jsontext.Value(`{"request":{"action":"accept","content":{}}}`),
		})
		return string(r), err
	}
	for _, other := range []share.Owner{"u:b", "n:127.0.0.1", ""} {
		if _, err := resume(other); !errors.Is(err, ErrNotParked) {
			t.Errorf("%q resumed the call: %v", other, err)
		}
	}
	if got, err := resume("u:a"); err != nil || !strings.Contains(got, `{\"jsonrpc\":\"2.0\",\"id\":\"ask\",\"result\":{\"action\":\"accept\",\"content\":{}}}`) {
		t.Errorf("got %s, %v", got, err)
	}
	if _, err := resume("u:a"); !errors.Is(err, ErrNotParked) {
		t.Errorf("the call was resumed twice: %v", err)
	}
}

// TestParked_is_refused_without_the_capability answers the server itself what the client of the call cannot.
func TestParked_is_refused_without_the_capability(t *testing.T) {
	for _, c := range []struct{ request, capabilities, reason string }{
		{formRequest, `{}`, "elicitation"},
		{formRequest, `{"elicitation":{"url":{}}}`, "elicitation"},
		{`"method":"elicitation/create","params":{"mode":"url","url":"https://a.example","elicitationId":"1","message":"m"}`, `{"elicitation":{}}`, "url"},
		{`"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}`, `{"elicitation":{}}`, "sampling"},
		{`"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1,"tools":[]}`, `{"sampling":{}}`, "tools"},
		{`"method":"roots/list"`, `{"elicitation":{}}`, "roots"},
		{`"method":"other/method"`, `{"elicitation":{},"roots":{},"sampling":{}}`, "other/method"},
	} {
		a := newAsking(c.request)
		s := serve(t, newFake(t, a.respond).URL)
		result, state := a.begin(t, s, "u:a", c.capabilities)
		if text := string(result); state != "" || !strings.Contains(text, `\"error\"`) || !strings.Contains(text, c.reason) {
			t.Errorf("%s with %s: %s", c.request, c.capabilities, result)
		}
	}
}

// TestParked_limit limits how many calls of one owner wait.
func TestParked_limit(t *testing.T) {
	a := newAsking(formRequest)
	s := serve(t, newFake(t, a.respond).URL)
	for range maxParkedOfOwner {
		if _, state := a.begin(t, s, "u:a", `{"elicitation":{}}`); state == "" {
			t.Fatal("the call does not wait")
		}
	}
	// The next one is refused. Its response may reach any of the waiting calls of the fake, so the call itself is ended.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		_, _ = s.Call(ctx, &Call{Owner: "u:a", Tool: "t", Arguments: jsontext.Value("{}"), Capabilities: jsontext.Value(`{"elicitation":{}}`)})
	}()
	testkit.Eventually(t, "the request is refused", func() bool { return s.sessionOf("u:a").calls == maxParkedOfOwner+1 })
	if n := s.parkedOf("u:a"); n != maxParkedOfOwner {
		t.Errorf("%d calls wait", n)
	}
	if _, state := a.begin(t, s, "u:b", `{"elicitation":{}}`); state == "" {
		t.Error("another user finds no room")
	}
}

func (s *Server) sessionOf(owner share.Owner) slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *s.sessions[owner]
}

func (s *Server) parkedOf(owner share.Owner) (n int) {
	s.parked.mu.Lock()
	defer s.parked.mu.Unlock()
	for _, e := range s.parked.calls {
		if e.owner == owner {
			n++
		}
	}
	return n
}

// TestParked_expires ends a call whose client does not respond.
func TestParked_expires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Name: "test", Endpoint: "http://a.example"}, zap.NewNop())
		released := false
		ctx, cancel := context.WithCancel(t.Context())
		e := &exchange{server: s, owner: "u:a", session: &session{modern: true, link: new(httpLink)}, cancel: cancel, release: func() { released = true }}
		state, err := e.park(message{})
		if err != nil || s.parkedOf("u:a") != 1 {
			t.Fatal(err)
		}
		time.Sleep(parkedTime + time.Second)
		synctest.Wait()
		if s.parkedOf("u:a") != 0 || !released || ctx.Err() == nil {
			t.Error("the call still waits")
		}
		if _, err := s.Call(t.Context(), &Call{Owner: "u:a", State: state}); !errors.Is(err, ErrNotParked) {
			t.Error(err)
		}
		s.Close()
	})
}
