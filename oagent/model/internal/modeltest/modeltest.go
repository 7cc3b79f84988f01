// Package modeltest is the conformance test of Models that call an HTTP API. Each runs it
// against package modelserver, so that all behave alike.
package modeltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/modelserver"
	"github.com/fairwayhq/fairway/oagent/model"
)

// key is the API key. No error may contain it.
const key = "sk-very-secret-0123456789"

// maxResponse is the limit of responses in these tests, in bytes.
const maxResponse = 256 << 10

// Subject is the Model under test.
type Subject struct {
	// New returns the Model.
	New func(model.APIOptions) (model.Model, error)

	// RawArguments reports that the format without streaming carries arguments that are not JSON.
	RawArguments bool

	// Stops are the reasons of the wire format to stop.
	Stops map[string]model.Stop
}

// Run runs all tests.
func Run(t *testing.T, s Subject) {
	for name, test := range map[string]func(*testing.T, Subject){
		"text":          testText,
		"calls":         testCalls,
		"history":       testHistory,
		"names":         testNames,
		"stop":          testStop,
		"usage":         testUsage,
		"status":        testStatus,
		"error-event":   testErrorEvent,
		"timeout":       testTimeout,
		"canceled":      testCanceled,
		"cut":           testCut,
		"malformed":     testMalformed,
		"too-large":     testTooLarge,
		"secrets":       testSecrets,
		"key":           testKey,
		"no-connection": testNoConnection,
		"requests":      testRequests,
		"no-stream":     testNoStream,
	} {
		t.Run(name, func(t *testing.T) { test(t, s) })
	}
}

// api starts a server, and returns it and the Model that calls it.
func (s Subject) api(t *testing.T, change func(*model.APIOptions), steps ...modelserver.Step) (*modelserver.Server, model.Model) {
	t.Helper()
	server := &modelserver.Server{Respond: modelserver.Sequence(steps...), Key: key}
	listening := httptest.NewServer(server)
	t.Cleanup(listening.Close)
	transport := model.NewTransport()
	t.Cleanup(transport.CloseIdleConnections)
	options := model.APIOptions{
		BaseURL: listening.URL + "/v1", Key: func() (string, error) { return key + "\n", nil }, Model: "model-1", MaxTokens: 100,
		MaxResponse: maxResponse, Timeout: time.Minute, Transport: transport,
	}
	if change != nil {
		change(&options)
	}
	m, err := s.New(options)
	if err != nil {
		t.Fatal(err)
	}
	return server, m
}

// question returns a request.
func question() *model.Request {
	return &model.Request{
		System:   "Be brief.",
		Messages: []model.Message{{Role: model.RoleUser, Text: "Where is train 7?"}},
		Tools: []model.Tool{
			{Name: "find_train", Description: "Finds a train.", Schema: jsontext.Value(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}`)},
			{Name: "now"},
		},
	}
}

// both runs a test without and with streaming. generate also checks that the pieces of text are
// those of the response.
func both(t *testing.T, test func(t *testing.T, stream bool, generate func(context.Context, model.Model, *model.Request) (*model.Response, error))) {
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprintf("stream=%t", stream), func(t *testing.T) {
			test(t, stream, func(ctx context.Context, m model.Model, r *model.Request) (*model.Response, error) {
				if !stream {
					return m.Generate(ctx, r, nil)
				}
				var pieces strings.Builder
				response, err := m.Generate(ctx, r, func(text string) { pieces.WriteString(text) })
				if err == nil && pieces.String() != response.Text {
					t.Errorf("the pieces are %q, want %q", pieces.String(), response.Text)
				}
				return response, err
			})
		})
	}
}

type generate = func(context.Context, model.Model, *model.Request) (*model.Response, error)

func testText(t *testing.T, s Subject) {
	both(t, func(t *testing.T, stream bool, generate generate) {
		server, m := s.api(t, nil, modelserver.Step{Text: "In Zürich – on time.", InputTokens: 21, OutputTokens: 9})
		response, err := generate(t.Context(), m, question())
		if err != nil {
			t.Fatal(err)
		}
		want := model.Response{Text: "In Zürich – on time.", Usage: model.Usage{InputTokens: 21, OutputTokens: 9}, Stop: model.StopEnd}
		equal(t, "response", response, &want)
		r := server.Requests()[0]
		if r.Model != "model-1" || r.MaxTokens != 100 || r.System != "Be brief." || r.Stream != stream || len(r.Messages) != 1 ||
			r.Messages[0].Role != "user" || r.Messages[0].Text != "Where is train 7?" {
			t.Errorf("the server received %s", r.Body)
		}
		if len(r.Tools) != 2 || r.Tools[0].Description != "Finds a train." || string(r.Tools[0].Schema) != string(question().Tools[0].Schema) {
			t.Errorf("the server received the tools %+v", r.Tools)
		}
		if len(r.Tools) == 2 && !strings.Contains(string(r.Tools[1].Schema), `"object"`) {
			t.Errorf("the schema of a tool without arguments is %s", r.Tools[1].Schema)
		}
	})
}

func testCalls(t *testing.T, s Subject) {
	both(t, func(t *testing.T, stream bool, generate generate) {
		calls := []modelserver.Call{
			{ID: "c1", Name: "find_train", Arguments: `{"n":7}`},
			{ID: "c2", Name: "find_train", Arguments: `{"n":"not a number","more":[1,2]}`},
			{ID: "c3", Name: "drop_database", Arguments: `{}`},
		}
		if stream || s.RawArguments {
			calls = append(calls, modelserver.Call{ID: "c4", Name: "now", Arguments: `{"n": 7`})
		}
		_, m := s.api(t, nil, modelserver.Step{Text: "I look.", Calls: calls})
		response, err := generate(t.Context(), m, question())
		if err != nil {
			t.Fatal(err)
		}
		if response.Text != "I look." || response.Stop != model.StopTools || len(response.Calls) != len(calls) {
			t.Fatalf("got %+v", response)
		}
		for i, call := range response.Calls {
			if call != model.ToolCall(calls[i]) {
				t.Errorf("call %d is %+v, want %+v", i, call, calls[i])
			}
		}
	})
	t.Run("without-ids", func(t *testing.T) {
		_, m := s.api(t, nil, modelserver.Step{Calls: []modelserver.Call{{Name: "now", Arguments: "{}"}, {Name: "now", Arguments: "{}"}}})
		response, err := m.Generate(t.Context(), question(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(response.Calls) != 2 || response.Calls[0].ID == "" || response.Calls[0].ID == response.Calls[1].ID {
			t.Errorf("got the calls %+v, want two different ids", response.Calls)
		}
	})
	t.Run("too-many", func(t *testing.T) {
		both(t, func(t *testing.T, _ bool, generate generate) {
			calls := make([]modelserver.Call, model.MaxCalls+1)
			for i := range calls {
				calls[i] = modelserver.Call{ID: fmt.Sprint("c", i), Name: "now", Arguments: "{}"}
			}
			_, m := s.api(t, nil, modelserver.Step{Calls: calls})
			_, err := generate(t.Context(), m, question())
			wantKind(t, err, model.KindTooLarge)
		})
	})
}

// testHistory sends what a model has said and what tools have returned.
func testHistory(t *testing.T, s Subject) {
	server, m := s.api(t, nil, modelserver.Step{Text: "Done."})
	r := question()
	r.Messages = append(r.Messages,
		model.Message{Role: model.RoleAssistant, Text: "I look.", Calls: []model.ToolCall{
			{ID: "c1", Name: "find_train", Arguments: `{"n":7}`}, {ID: "c2", Name: "made up!", Arguments: `{"n":`},
		}},
		model.Message{Role: model.RoleTool, Results: []model.ToolResult{
			{CallID: "c1", Content: `{"at":"Zürich"}`}, {CallID: "c2", Content: "there is no such tool", IsError: true},
		}},
		model.Message{Role: model.RoleUser, Text: "Hurry."},
	)
	if _, err := m.Generate(t.Context(), r, nil); err != nil {
		t.Fatal(err)
	}
	got := server.Requests()[0].Messages
	if len(got) != 5 {
		t.Fatalf("the server received %s", server.Requests()[0].Body)
	}
	if said := got[1]; said.Role != "assistant" || said.Text != "I look." || len(said.Calls) != 2 ||
		said.Calls[0] != (modelserver.Call{ID: "c1", Name: "find_train", Arguments: `{"n":7}`}) ||
		said.Calls[1] != (modelserver.Call{ID: "c2", Name: "made_up_", Arguments: `{"invalid_arguments":"{\"n\":"}`}) {
		t.Errorf("the message with calls is %+v", said)
	}
	if result := got[2]; result.Role != "tool" || result.CallID != "c1" || result.Text != `{"at":"Zürich"}` || result.IsError {
		t.Errorf("the first result is %+v", result)
	}
	if result := got[3]; result.CallID != "c2" || !strings.HasSuffix(result.Text, "there is no such tool") || !result.IsError && !strings.HasPrefix(result.Text, "Error") {
		t.Errorf("the result with an error is %+v", result)
	}
	if got[4].Text != "Hurry." {
		t.Errorf("the last message is %+v", got[4])
	}
}

// testNames calls tools whose names the API does not allow.
func testNames(t *testing.T, s Subject) {
	names := []string{"trips.get", "trips-get", "trips_get", strings.Repeat("long.", 50) + "a", strings.Repeat("long.", 50) + "b"}
	r := &model.Request{Messages: []model.Message{{Role: model.RoleUser, Text: "Go."}}}
	for _, name := range names {
		r.Tools = append(r.Tools, model.Tool{Name: name})
	}
	server, m := s.api(t, nil)
	server.Respond = func(r *modelserver.Request) (step modelserver.Step) {
		for i, tool := range r.Tools {
			step.Calls = append(step.Calls, modelserver.Call{ID: fmt.Sprint("c", i), Name: tool.Name, Arguments: "{}"})
		}
		return step
	}
	response, err := m.Generate(t.Context(), r, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, tool := range server.Requests()[0].Tools {
		if len(tool.Name) > 64 || strings.Trim(tool.Name, "abcdefghijklmnopqrstuvwxyz0123456789_-") != "" {
			t.Errorf("the API does not allow the name %q", tool.Name)
		}
		if response.Calls[i].Name != names[i] {
			t.Errorf("the call of %q is one of %q", tool.Name, response.Calls[i].Name)
		}
	}
}

func testStop(t *testing.T, s Subject) {
	for wire, want := range s.Stops {
		both(t, func(t *testing.T, _ bool, generate generate) {
			_, m := s.api(t, nil, modelserver.Step{Text: "Once upon", Stop: wire})
			response, err := generate(t.Context(), m, question())
			if err != nil {
				t.Fatal(err)
			}
			if response.Stop != want {
				t.Errorf("%s: got %q, want %q", wire, response.Stop, want)
			}
		})
	}
}

func testUsage(t *testing.T, s Subject) {
	both(t, func(t *testing.T, _ bool, generate generate) {
		_, m := s.api(t, nil, modelserver.Step{Text: strings.Repeat("word ", 100), NoUsage: true})
		response, err := generate(t.Context(), m, question())
		if err != nil {
			t.Fatal(err)
		}
		if u := response.Usage; !u.Estimated || u.InputTokens < 10 || u.OutputTokens < 100 {
			t.Errorf("got the usage %+v, want an estimate", u)
		}
	})
	t.Run("max-tokens", func(t *testing.T) {
		server, m := s.api(t, nil, modelserver.Step{}, modelserver.Step{})
		for _, limit := range []int{7, 1000} {
			r := question()
			r.MaxTokens = limit
			if _, err := m.Generate(t.Context(), r, nil); err != nil {
				t.Fatal(err)
			}
		}
		if got := server.Requests(); got[0].MaxTokens != 7 || got[1].MaxTokens != 100 {
			t.Errorf("the limits are %d and %d, want 7 and that of the model", got[0].MaxTokens, got[1].MaxTokens)
		}
	})
}

func testStatus(t *testing.T, s Subject) {
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
				if !ok || e.Kind != test.want.Kind || e.RetryAfter != test.want.RetryAfter || e.Status != test.step.Status {
					t.Errorf("got %#v, want %s with status %d and %d s", err, test.want.Kind, test.step.Status, test.want.RetryAfter)
				}
				if n := len(server.Requests()); n != 1 {
					t.Errorf("the server received %d requests, want 1: only WithRetries repeats requests", n)
				}
			})
		})
	}
}

// testErrorEvent fails after the response has begun with status 200.
func testErrorEvent(t *testing.T, s Subject) {
	for code, want := range map[string]model.Kind{
		"overloaded_error": model.KindUnavailable, "rate_limit_error": model.KindRateLimited, "something_new": model.KindUnavailable,
		"invalid_request_error": model.KindRejected,
	} {
		_, m := s.api(t, nil, modelserver.Step{Text: "I am", FailMidStream: true, Error: "sorry", ErrorCode: code})
		_, err := m.Generate(t.Context(), question(), func(string) {})
		wantKind(t, err, want)
	}
}

func testTimeout(t *testing.T, s Subject) {
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

func testCanceled(t *testing.T, s Subject) {
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
func testCut(t *testing.T, s Subject) {
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

func testMalformed(t *testing.T, s Subject) {
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
func testTooLarge(t *testing.T, s Subject) {
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
func testSecrets(t *testing.T, s Subject) {
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
			for _, text := range []string{fmt.Sprint(err), fmt.Sprintf("%+v", err), fmt.Sprintf("%#v", errors.Unwrap(err)), encode(t, err)} {
				if strings.Contains(text, key) {
					t.Errorf("%s: the error has the key: %s", name, text)
				}
			}
		})
	}
}

func testKey(t *testing.T, s Subject) {
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

func testNoConnection(t *testing.T, s Subject) {
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	_, m := s.api(t, func(o *model.APIOptions) { o.BaseURL = closed.URL })
	_, err := m.Generate(t.Context(), question(), nil)
	wantKind(t, err, model.KindConnection)
}

func testRequests(t *testing.T, s Subject) {
	server, m := s.api(t, nil)
	for name, change := range map[string]func(*model.Request){
		"no-messages":    func(r *model.Request) { r.Messages = nil },
		"ends-in-model":  func(r *model.Request) { r.Messages[0].Role = model.RoleAssistant },
		"same-tools":     func(r *model.Request) { r.Tools[1].Name = r.Tools[0].Name },
		"invalid-schema": func(r *model.Request) { r.Tools[0].Schema = jsontext.Value("{") },
		"unknown-role":   func(r *model.Request) { r.Messages[0].Role = "root" },
	} {
		r := question()
		change(r)
		_, err := m.Generate(t.Context(), r, nil)
		if kind := model.KindOf(err); kind != model.KindRequest {
			t.Errorf("%s: got %v of kind %q, want %q", name, err, kind, model.KindRequest)
		}
	}
	if n := len(server.Requests()); n != 0 {
		t.Errorf("%d invalid requests were sent", n)
	}
}

// testNoStream has a server ignore that the response should be streamed.
func testNoStream(t *testing.T, s Subject) {
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

// equal compares two values by their JSON.
func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if a, b := encode(t, got), encode(t, want); a != b {
		t.Errorf("%s\n got %s\nwant %s", what, a, b)
	}
}

func encode(t *testing.T, value any) string {
	t.Helper()
	encoded, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(encoded)
}
