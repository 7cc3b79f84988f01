package modelapi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
)

func testText(t *testing.T, s subject) {
	both(t, func(t *testing.T, stream bool, generate generate) {
		server, m := s.api(t, nil, modelserver.Step{Text: "In Zürich – on time.", InputTokens: 21, OutputTokens: 9})
		response, err := generate(t.Context(), m, question())
		if err != nil {
			t.Fatal(err)
		}
		want := model.Response{Text: "In Zürich – on time.", Usage: model.Usage{InputTokens: 21, OutputTokens: 9, CachedTokens: 10}, Stop: model.StopEnd, Model: "model-1"}
		equal(t, "response", response, &want)
		r := server.Requests()[0]
		got := modelserver.Request{Model: r.Model, MaxTokens: r.MaxTokens, System: r.System, Stream: r.Stream}
		equal(t, "request", got, modelserver.Request{Model: "model-1", MaxTokens: 100, System: "Be brief.", Stream: stream})
		if len(r.Messages) != 1 {
			t.Fatalf("got %d messages, want 1: %s", len(r.Messages), r.Body)
		}
		if m := r.Messages[0]; m.Role != "user" || m.Text != "Where is train 7?" {
			t.Errorf("got the message %+v, want the question of the user", m)
		}
		if len(r.Tools) != 2 || r.Tools[0].Description != "Finds a train." || string(r.Tools[0].Schema) != string(question().Tools[0].Schema) {
			t.Errorf("the server received the tools %+v", r.Tools)
		}
		if len(r.Tools) == 2 && !strings.Contains(string(r.Tools[1].Schema), `"object"`) {
			t.Errorf("the schema of a tool without arguments is %s", r.Tools[1].Schema)
		}
	})
}

func testCalls(t *testing.T, s subject) {
	both(t, func(t *testing.T, stream bool, generate generate) {
		calls := []modelserver.Call{
			{ID: "c1", Name: "find_train", Arguments: `{"n":7}`},
			{ID: "c2", Name: "find_train", Arguments: `{"n":"not a number","more":[1,2]}`},
			{ID: "c3", Name: "drop_database", Arguments: `{}`},
		}
		if stream || s.rawArguments {
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
			if call != calls[i] {
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
func testHistory(t *testing.T, s subject) {
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
	equal(t, "message with calls", got[1], modelserver.Message{Role: "assistant", Text: "I look.", Calls: []modelserver.Call{
		{ID: "c1", Name: "find_train", Arguments: `{"n":7}`}, {ID: "c2", Name: "made_up_", Arguments: `{"invalid_arguments":"{\"n\":"}`},
	}})
	equal(t, "first result", got[2], modelserver.Message{Role: "tool", CallID: "c1", Text: `{"at":"Zürich"}`})
	if result := got[3]; result.CallID != "c2" || !strings.HasSuffix(result.Text, "there is no such tool") || !result.IsError && !strings.HasPrefix(result.Text, "Error") {
		t.Errorf("the result with an error is %+v", result)
	}
	if got[4].Text != "Hurry." {
		t.Errorf("the last message is %+v", got[4])
	}
}

// testNames calls tools whose names the API does not allow.
func testNames(t *testing.T, s subject) {
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

func testStop(t *testing.T, s subject) {
	for wire, want := range s.stops {
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

func testUsage(t *testing.T, s subject) {
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

func testRequests(t *testing.T, s subject) {
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
