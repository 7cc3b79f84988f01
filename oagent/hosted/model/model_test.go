package model_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	json2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/oagent/hosted/model"
)

// TestJSON_round_trip encodes and decodes each type of the package, with both JSON packages that
// this repository uses.
func TestJSON_round_trip(t *testing.T) {
	calls := []model.ToolCall{{ID: "c1", Name: "find_train", Arguments: `{"n":`}, {ID: "c2", Name: "", Arguments: "\u2028<&>"}}
	reasoning := []jsontext.Value{jsontext.Value(`{"type":"thinking","signature":"c2ln"}`)}
	usage := model.Usage{InputTokens: 1 << 40, OutputTokens: 2, Estimated: true}
	for _, value := range []any{
		&model.Request{
			System: "s", MaxTokens: 9, Tools: []model.Tool{{Name: "n", Description: "d", Schema: jsontext.Value(`{"type":"object"}`)}, {Name: "m"}},
			Messages: []model.Message{
				{Role: model.RoleUser, Text: "Zürich\n\u0000"},
				{Role: model.RoleAssistant, Text: "t", Calls: calls, Reasoning: reasoning},
				{Role: model.RoleTool, Results: []model.ToolResult{{CallID: "c1", Content: "x", IsError: true}, {CallID: "c2"}}},
			},
		},
		&model.Response{Text: "t", Calls: calls, Reasoning: reasoning, Usage: usage, Stop: model.StopTools},
		&model.Response{},
		&model.Error{Kind: model.KindRateLimited, Status: 429, RetryAfter: 7, Message: "m"},
		&usage,
	} {
		for name, codec := range map[string]struct {
			marshal   func(any) ([]byte, error)
			unmarshal func([]byte, any) error
		}{
			"encoding/json":           {json.Marshal, json.Unmarshal},
			"go-json-experiment/json": {func(v any) ([]byte, error) { return json2.Marshal(v) }, func(b []byte, v any) error { return json2.Unmarshal(b, v) }},
		} {
			encoded, err := codec.marshal(value)
			if err != nil {
				t.Fatalf("%s: %T: %v", name, value, err)
			}
			decoded := reflect.New(reflect.TypeOf(value).Elem()).Interface()
			if err := codec.unmarshal(encoded, decoded); err != nil {
				t.Fatalf("%s: %T: %v", name, value, err)
			}
			if !reflect.DeepEqual(decoded, value) {
				t.Errorf("%s: got %+v\nwant %+v", name, decoded, value)
			}
		}
	}
}

func TestRequest_Check(t *testing.T) {
	user := model.Message{Role: model.RoleUser, Text: "?"}
	calls := func(ids ...string) model.Message {
		m := model.Message{Role: model.RoleAssistant}
		for _, id := range ids {
			m.Calls = append(m.Calls, model.ToolCall{ID: id, Name: "f"})
		}
		return m
	}
	results := func(ids ...string) model.Message {
		m := model.Message{Role: model.RoleTool}
		for _, id := range ids {
			m.Results = append(m.Results, model.ToolResult{CallID: id})
		}
		return m
	}
	for _, test := range []struct {
		name     string
		messages []model.Message
		valid    bool
	}{
		{"one", []model.Message{user}, true},
		{"results", []model.Message{user, calls("a", "b"), results("b", "a")}, true},
		{"same-ids-later", []model.Message{user, calls("a"), results("a"), calls("a"), results("a"), user}, true},
		{"empty-answer", []model.Message{user, calls(), user}, true},
		{"none", nil, false},
		{"result-missing", []model.Message{user, calls("a", "b"), results("a")}, false},
		{"no-results", []model.Message{user, calls("a"), user}, false},
		{"result-twice", []model.Message{user, calls("a"), results("a", "a")}, false},
		{"result-unknown", []model.Message{user, calls("a"), results("b")}, false},
		{"result-without-call", []model.Message{user, results("a")}, false},
		{"id-twice", []model.Message{user, calls("a", "a"), results("a")}, false},
		{"id-empty", []model.Message{user, calls(""), results("")}, false},
		{"ends-in-model", []model.Message{user, calls()}, false},
		{"user-with-calls", []model.Message{{Role: model.RoleUser, Calls: calls("a").Calls}, results("a")}, false},
		{"tool-with-text", []model.Message{user, calls("a"), {Role: model.RoleTool, Text: "t", Results: results("a").Results}}, false},
		{"unknown-role", []model.Message{{Role: "system", Text: "t"}}, false},
	} {
		r := &model.Request{Messages: test.messages}
		if err := r.Check(); (err == nil) != test.valid {
			t.Errorf("%s: got %v, want valid %t", test.name, err, test.valid)
		}
	}
}

func TestToolCall_Object(t *testing.T) {
	for arguments, want := range map[string]string{
		`{"a":1}`: `{"a":1}`,
		`{"a":`:   `{"invalid_arguments":"{\"a\":"}`,
		`[1]`:     `{"invalid_arguments":"[1]"}`,
		``:        `{"invalid_arguments":""}`,
		"\xff":    "{\"invalid_arguments\":\"\ufffd\"}",
	} {
		call := model.ToolCall{Arguments: arguments}
		if got := string(call.Object()); got != want {
			t.Errorf("%q: got %s, want %s", arguments, got, want)
		}
	}
}

// attempts is a model whose first tries fail.
type attempts struct {
	errs  []error
	text  string // reported before each error
	times []time.Time
}

func (a *attempts) Generate(_ context.Context, _ *model.Request, onText func(string)) (*model.Response, error) {
	a.times = append(a.times, time.Now())
	if onText != nil && a.text != "" {
		onText(a.text)
	}
	if n := len(a.times); n <= len(a.errs) {
		return nil, a.errs[n-1]
	}
	return &model.Response{Text: "ok"}, nil
}

func TestWithRetries(t *testing.T) {
	failure, fatal := model.Errorf(model.KindUnavailable, "500"), model.Errorf(model.KindCredentials, "401")
	wait := func(seconds int) error {
		return &model.Error{Kind: model.KindRateLimited, RetryAfter: seconds}
	}
	for _, test := range []struct {
		name      string
		errs      []error
		tries     int
		err       error
		from, to  time.Duration // of all waits together
		text      string
		streaming bool
		restarts  int
		once      bool
	}{
		{name: "none", tries: 1},
		{name: "temporary", errs: []error{failure, failure}, tries: 3, from: 750 * time.Millisecond, to: 1500 * time.Millisecond},
		{name: "exhausted", errs: []error{failure, failure, failure, failure}, tries: 3, err: failure, from: 750 * time.Millisecond, to: 1500 * time.Millisecond},
		{name: "retry-after", errs: []error{wait(4)}, tries: 2, from: 4 * time.Second, to: 4 * time.Second},
		{name: "retry-after-too-long", errs: []error{wait(6)}, tries: 1, err: wait(6)},
		{name: "fatal", errs: []error{fatal}, tries: 1, err: fatal},
		{name: "other-error", errs: []error{context.Canceled}, tries: 1, err: context.Canceled},
		{name: "begun", errs: []error{failure}, tries: 1, err: failure, text: "I am", streaming: true},
		{name: "begun-again", errs: []error{failure}, tries: 2, text: "I am", streaming: true, restarts: 1, from: 250 * time.Millisecond, to: 500 * time.Millisecond},
		{name: "once", errs: []error{failure}, tries: 1, err: failure, once: true},
		{name: "not-begun", errs: []error{failure}, tries: 2, streaming: true, from: 250 * time.Millisecond, to: 500 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &attempts{errs: test.errs, text: test.text}
				var onText func(string)
				if test.streaming {
					onText = func(string) {}
				}
				request, restarts := &model.Request{Once: test.once}, 0
				if test.restarts > 0 {
					request.OnRestart = func() { restarts++ }
				}
				_, err := model.WithRetries(a, 2).Generate(t.Context(), request, onText)
				if restarts != test.restarts {
					t.Errorf("%d restarts, want %d", restarts, test.restarts)
				}
				if !reflect.DeepEqual(err, test.err) {
					t.Errorf("got %v, want %v", err, test.err)
				}
				if len(a.times) != test.tries {
					t.Fatalf("got %d tries, want %d", len(a.times), test.tries)
				}
				if waited := a.times[len(a.times)-1].Sub(a.times[0]); waited < test.from || waited > test.to {
					t.Errorf("waited %v, want %v to %v", waited, test.from, test.to)
				}
			})
		})
	}
}

// TestWithRetries_none checks that a request without retries is made once, and that it is not repeated later either.
func TestWithRetries_none(t *testing.T) {
	a := &attempts{errs: []error{model.Errorf(model.KindUnavailable, "500")}, text: "I am"}
	_, err := model.WithRetries(a, 0).Generate(t.Context(), &model.Request{OnRestart: func() { t.Error("the message begins again") }}, func(string) {})
	if e, ok := errors.AsType[*model.Error](err); !ok || !e.Final || !e.Temporary() {
		t.Errorf("got %#v, want a final error of a temporary fault", err)
	}
	if got := len(a.times); got != 1 {
		t.Errorf("got %d tries, want 1", got)
	}
}

// TestWithRetries_canceled cancels the context between two tries.
func TestWithRetries_canceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		a := &attempts{errs: []error{model.Errorf(model.KindUnavailable, "500")}}
		if _, err := model.WithRetries(a, 2).Generate(ctx, &model.Request{}, nil); !errors.Is(err, context.DeadlineExceeded) || len(a.times) != 1 {
			t.Errorf("got %v after %d tries, want the error of the context", err, len(a.times))
		}
	})
}

func TestUsage_Add(t *testing.T) {
	got := model.Usage{InputTokens: 1, OutputTokens: 2}.Add(model.Usage{InputTokens: 10, OutputTokens: 20, Estimated: true})
	if want := (model.Usage{InputTokens: 11, OutputTokens: 22, Estimated: true}); got != want || got.Total() != 33 {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestAPIOptions_WithDefaults rejects options without repeating what may be a secret.
func TestAPIOptions_WithDefaults(t *testing.T) {
	for _, baseURL := range []string{
		"https://user:secret@example.com", "https://example.com/?key=secret", "ftp://secret", "secret", "https://", "http://secret\x7f",
		"https://example.com/#secret",
	} {
		if _, err := (model.APIOptions{BaseURL: baseURL, Model: "m"}).WithDefaults(""); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: got %v", baseURL, err)
		}
	}
	if _, err := (model.APIOptions{}).WithDefaults("https://example.com"); err == nil {
		t.Error("options without a model are valid")
	}
	if _, err := (model.APIOptions{Model: "m", MaxTokens: -1}).WithDefaults("https://example.com"); err == nil {
		t.Error("a negative limit is valid")
	}
}
