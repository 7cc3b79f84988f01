package modelapi_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
)

func testStatus(t *testing.T, s subject) {
	for _, test := range []struct {
		name string
		step modelserver.Step
		want model.Error
	}{
		{"rate-limit", modelserver.Step{Status: 429, Header: http.Header{"Retry-After": {"7"}}}, model.Error{Kind: model.KindRateLimited, RetryAfter: 7}},
		{"rate-limit-without-time", modelserver.Step{Status: 429}, model.Error{Kind: model.KindRateLimited}},
		{"rate-limit-absurd", modelserver.Step{Status: 429, Header: http.Header{"Retry-After": {"99999999999999999999"}}}, model.Error{Kind: model.KindRateLimited, RetryAfter: 86400}},
		{"rate-limit-past-date", modelserver.Step{Status: 429, Header: http.Header{"Retry-After": {"Mon, 02 Jan 2006 15:04:05 GMT"}}}, model.Error{Kind: model.KindRateLimited}},
		{"quota", modelserver.Step{Status: 429, ErrorCode: "insufficient_quota"}, model.Error{Kind: model.KindCredentials}},
		{"failure", modelserver.Step{Status: 500, Error: "oops"}, model.Error{Kind: model.KindUnavailable}},
		{"overloaded", modelserver.Step{Status: 529, Header: http.Header{"Retry-After": {"2"}}}, model.Error{Kind: model.KindUnavailable, RetryAfter: 2}},
		{"html", modelserver.Step{Status: 502, Body: "<html>Bad Gateway</html>", Header: http.Header{"Content-Type": {"text/html"}}}, model.Error{Kind: model.KindUnavailable}},
		{"unauthorized", modelserver.Step{Status: 401}, model.Error{Kind: model.KindCredentials}},
		{"forbidden", modelserver.Step{Status: 403}, model.Error{Kind: model.KindCredentials}},
		{"bad-request", modelserver.Step{Status: 400, Error: "temperature is bad"}, model.Error{Kind: model.KindRejected}},
		{"not-found", modelserver.Step{Status: 404}, model.Error{Kind: model.KindRejected}},
		{"context-code", modelserver.Step{Status: 400, ErrorCode: "context_length_exceeded"}, model.Error{Kind: model.KindContextTooLong}},
		{"context-message", modelserver.Step{Status: 400, Error: "prompt is too long: 210000 tokens > 200000 maximum"}, model.Error{Kind: model.KindContextTooLong}},
		{"body-too-large", modelserver.Step{Status: 413}, model.Error{Kind: model.KindContextTooLong}},
		{"redirect", modelserver.Step{Status: 307, Header: http.Header{"Location": {"/v1/elsewhere"}}, Body: "{}"}, model.Error{Kind: model.KindRejected}},
	} {
		t.Run(test.name, func(t *testing.T) {
			both(t, func(t *testing.T, _ bool, generate generate) {
				server, m := s.api(t, nil, test.step, modelserver.Step{Text: "a second request"})
				_, err := generate(t.Context(), m, question())
				e, ok := errors.AsType[*model.Error](err)
				if !ok {
					t.Fatalf("got %#v, want a model.Error", err)
				}
				if got, want := [...]any{e.Kind, e.RetryAfter, e.Status}, [...]any{test.want.Kind, test.want.RetryAfter, test.step.Status}; got != want {
					t.Errorf("kind, time to wait and status: got %v, want %v", got, want)
				}
				if n := len(server.Requests()); n != 1 {
					t.Errorf("the server received %d requests, want 1: only WithRetries repeats requests", n)
				}
			})
		})
	}
}

// testRetryAfter has an API say until when to wait, in place of how long.
func testRetryAfter(t *testing.T, s subject) {
	date := http.Header{"Retry-After": {time.Now().Add(90 * time.Minute).UTC().Format(http.TimeFormat)}}
	_, m := s.api(t, nil, modelserver.Step{Status: 503, Header: date})
	_, err := m.Generate(t.Context(), question(), nil)
	if e, ok := errors.AsType[*model.Error](err); !ok || e.RetryAfter < 85*60 || e.RetryAfter > 90*60+1 {
		t.Errorf("got %#v", err)
	}
}

// testErrorEvent fails after the response has begun with status 200.
func testErrorEvent(t *testing.T, s subject) {
	for code, want := range map[string]model.Kind{
		"overloaded_error": model.KindUnavailable, "rate_limit_error": model.KindRateLimited, "something_new": model.KindUnavailable,
		"invalid_request_error": model.KindRejected,
	} {
		_, m := s.api(t, nil, modelserver.Step{Text: "I am", FailMidStream: true, Error: "sorry", ErrorCode: code})
		_, err := m.Generate(t.Context(), question(), func(string) {})
		wantKind(t, err, want)
	}
}

func testTimeout(t *testing.T, s subject) {
	both(t, func(t *testing.T, stream bool, generate generate) {
		step := modelserver.Step{Text: "too late", Wait: make(chan struct{})}
		if stream {
			step.Wait, step.WaitMidStream = nil, make(chan struct{})
		}
		_, m := s.api(t, func(o *model.APIOptions) { o.Timeout = 50 * time.Millisecond }, step)
		_, err := generate(t.Context(), m, question())
		wantKind(t, err, model.KindTimeout)
	})
}

func testCanceled(t *testing.T, s subject) {
	_, m := s.api(t, nil, modelserver.Step{Text: "I am", WaitMidStream: make(chan struct{})})
	ctx, cancel := context.WithCancel(t.Context())
	_, err := m.Generate(ctx, question(), func(string) { cancel() })
	if !errors.Is(err, context.Canceled) || model.KindOf(err) != "" {
		t.Errorf("got %v, want the error of the context", err)
	}
	if _, err := m.Generate(ctx, question(), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the error of the context", err)
	}
}

// testCut cuts the connection at many points of a response.
func testCut(t *testing.T, s subject) {
	whole := modelserver.Step{Text: "In Zürich.", Calls: []modelserver.Call{{ID: "c1", Name: "now", Arguments: `{"a":1}`}}}
	both(t, func(t *testing.T, _ bool, generate generate) {
		complete := 0
		for at := 1; at < 4000; at += 29 {
			step := whole
			step.CutAfter = at
			_, m := s.api(t, nil, step)
			response, err := generate(t.Context(), m, question())
			if err == nil {
				// The cut was behind everything that matters.
				if complete++; response.Text != whole.Text || len(response.Calls) != 1 || response.Calls[0].Arguments != `{"a":1}` {
					t.Fatalf("cut after %d bytes: got %+v without an error", at, response)
				}
				if complete > 3 {
					return
				}
				continue
			}
			wantKind(t, err, model.KindConnection)
		}
	})
}

func testMalformed(t *testing.T, s subject) {
	events, html := http.Header{"Content-Type": {"text/event-stream"}}, http.Header{"Content-Type": {"text/html"}}
	for name, step := range map[string]modelserver.Step{
		"not-json":     {Body: `{"id":`},
		"empty-object": {Body: `{}`},
		"other-types":  {Body: `{"choices":7,"content":7}`},
		"html":         {Body: "<p>hello</p>", Header: html},
		"bad-event":    {Body: "event: message_start\ndata: {\"type\"\n\n", Header: events},
	} {
		both(t, func(t *testing.T, _ bool, generate generate) {
			_, m := s.api(t, nil, step)
			_, err := generate(t.Context(), m, question())
			if kind := model.KindOf(err); kind != model.KindMalformed {
				t.Errorf("%s: got %v of kind %q, want %q", name, err, kind, model.KindMalformed)
			}
		})
	}
}

// testTooLarge sends 100 MB.
func testTooLarge(t *testing.T, s subject) {
	both(t, func(t *testing.T, _ bool, generate generate) {
		_, m := s.api(t, nil, modelserver.Step{Padding: 100 << 20})
		_, err := generate(t.Context(), m, question())
		wantKind(t, err, model.KindTooLarge)
	})
	t.Run("one-line", func(t *testing.T) {
		line := "data: " + strings.Repeat("x", 2*maxResponse)
		_, m := s.api(t, nil, modelserver.Step{Body: line, Header: http.Header{"Content-Type": {"text/event-stream"}}})
		_, err := m.Generate(t.Context(), question(), func(string) {})
		wantKind(t, err, model.KindTooLarge)
	})
	t.Run("error", func(t *testing.T) {
		_, m := s.api(t, nil, modelserver.Step{Status: 500, Body: strings.Repeat("x", 2*maxResponse)})
		_, err := m.Generate(t.Context(), question(), nil)
		wantKind(t, err, model.KindTooLarge)
	})
	t.Run("message", func(t *testing.T) {
		_, m := s.api(t, nil, modelserver.Step{Status: 500, Body: strings.Repeat("x", maxResponse/2)})
		if _, err := m.Generate(t.Context(), question(), nil); err == nil || len(err.Error()) > 1000 {
			t.Errorf("got %v, want a short error", err)
		}
	})
}

// testSecrets has an API repeat the key wherever it can.
func testSecrets(t *testing.T, s subject) {
	for name, step := range map[string]modelserver.Step{
		"message":   {Status: 401, Error: "the key " + key + " is wrong"},
		"body":      {Status: 400, Body: "Bearer " + key, Header: http.Header{"Content-Type": {"text/plain"}}},
		"success":   {Body: `{"` + key + `":`},
		"type":      {Body: `{"choices":"` + key + `","content":"` + key + `"}`},
		"mediatype": {Body: "x", Header: http.Header{"Content-Type": {key + "/x"}}},
		"location":  {Status: 302, Body: "x", Header: http.Header{"Location": {"http://" + key + "/"}}},
		"event":     {Text: "x", FailMidStream: true, Error: key, ErrorCode: key},
		"cut":       {Body: `{"` + key, CutAfter: 12},
	} {
		both(t, func(t *testing.T, stream bool, generate generate) {
			_, m := s.api(t, nil, step)
			_, err := generate(t.Context(), m, question())
			if err == nil && (stream || name != "event") {
				t.Fatalf("%s: no error", name)
			}
			for _, text := range []string{fmt.Sprint(err), fmt.Sprintf("%+v", err), fmt.Sprintf("%#v", errors.Unwrap(err)), encodeEvent(t, err)} {
				if strings.Contains(text, key) {
					t.Errorf("%s: the error has the key: %s", name, text)
				}
			}
		})
	}
}

func testKey(t *testing.T, s subject) {
	t.Setenv("OPENAI_API_KEY", key)
	t.Setenv("ANTHROPIC_API_KEY", key)
	t.Setenv("ANTHROPIC_AUTH_TOKEN", key)
	for name, get := range map[string]func() (string, error){
		"wrong":       func() (string, error) { return "sk-other", nil },
		"none":        nil,
		"empty":       func() (string, error) { return " ", nil },
		"error":       func() (string, error) { return key, errors.New("no such file") },
		"not-allowed": func() (string, error) { return key + "\nX-Other: 1", nil },
	} {
		_, m := s.api(t, func(o *model.APIOptions) { o.Key = get }, modelserver.Step{Text: "x"})
		_, err := m.Generate(t.Context(), question(), nil)
		if wantKind(t, err, model.KindCredentials); err != nil && strings.Contains(err.Error(), key) {
			t.Errorf("%s: the error has the key: %v", name, err)
		}
	}
}

func testNoConnection(t *testing.T, s subject) {
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	_, m := s.api(t, func(o *model.APIOptions) { o.BaseURL = closed.URL })
	_, err := m.Generate(t.Context(), question(), nil)
	wantKind(t, err, model.KindConnection)
}

// testNoStream has a server ignore that the response should be streamed.
func testNoStream(t *testing.T, s subject) {
	server, m := s.api(t, nil, modelserver.Step{Text: "all at once"})
	respond := server.Respond
	server.Respond = func(r *modelserver.Request) modelserver.Step {
		r.Stream = false
		return respond(r)
	}
	got := ""
	response, err := m.Generate(t.Context(), question(), func(text string) { got += text })
	if err != nil || response.Text != "all at once" || got != response.Text {
		t.Errorf("got %+v, %q and %v", response, got, err)
	}
}

// wantKind checks the kind of an error.
func wantKind(t *testing.T, err error, want model.Kind) {
	t.Helper()
	if got := model.KindOf(err); got != want {
		t.Errorf("got %v of kind %q, want %q", err, got, want)
	}
}
