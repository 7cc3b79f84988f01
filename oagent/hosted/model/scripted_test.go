package model

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
)

const script = `
conversations:
  - when: Refund
    steps:
      - text: I look.
        calls:
          - name: get_trip
            arguments: {trip_id: ir-1512, note: "asked: {input}", on: 2026-01-01, n: 3}
          - name: made_up
      - calls:
          - name: refund
            arguments: {amount: "{results/0/price}", list: ["{result}", true, null], "{result}": x}
      - text: "Refunded {result/amount}. {braces} {result/none} {input/x}"
  - steps:
      - text: "You said: {input}"
`

// TestModel plays a conversation to its end.
func TestScripted(t *testing.T) {
	m, err := NewScripted([]byte(script))
	if err != nil {
		t.Fatal(err)
	}
	r := &Request{Messages: []Message{{Role: RoleUser, Text: `REFUND "it"`}}}
	next := func(results ...string) *Response {
		t.Helper()
		last := &r.Messages[len(r.Messages)-1]
		if len(results) > 0 {
			message := Message{Role: RoleTool}
			for i, content := range results {
				message.Results = append(message.Results, ToolResult{CallID: last.Calls[i].ID, Content: content})
			}
			r.Messages = append(r.Messages, message)
		}
		pieces := 0
		text := ""
		response, err := m.Generate(t.Context(), r, func(piece string) {
			pieces++
			text += piece
		})
		if err != nil {
			t.Fatal(err)
		}
		if text != response.Text || strings.Contains(text, " ") && pieces < 2 {
			t.Errorf("got %q in %d pieces, want %q", text, pieces, response.Text)
		}
		if !response.Usage.Estimated || response.Usage.InputTokens == 0 {
			t.Errorf("got the usage %+v", response.Usage)
		}
		r.Messages = append(r.Messages, response.Message())
		return response
	}

	first := next()
	if first.Stop != StopTools || first.Text != "I look." || len(first.Calls) != 2 {
		t.Fatalf("the first step is %+v, want %q with the text %q and 2 calls", first, StopTools, "I look.")
	}
	if got, want := first.Calls[0].Arguments, `{"n":3,"note":"asked: REFUND \"it\"","on":"2026-01-01","trip_id":"ir-1512"}`; got != want {
		t.Errorf("the first call: got the arguments %s, want %s", got, want)
	}
	if got := first.Calls[1].Arguments; got != `{}` {
		t.Errorf("the second call: got the arguments %s, want {}", got)
	}
	second := next(`{"price":12.5}`, "no such tool")
	if want := `{"amount":12.5,"list":["no such tool",true,null],"{result}":"x"}`; len(second.Calls) != 1 || second.Calls[0].Arguments != want {
		t.Errorf("the second step is %+v, want %s", second, want)
	}
	third := next(`{"amount":{"eur":12}}`)
	if want := scriptedNotice + `Refunded {"eur":12}. {braces} (no value) (no value)`; third.Text != want || third.Stop != StopEnd {
		t.Errorf("the third step is %+v, want %q", third, want)
	}
	r.Messages = append(r.Messages, Message{Role: RoleUser, Text: "Thanks"})
	if last := next(); last.Text != scriptedNotice+"You said: Thanks" {
		t.Errorf("the second conversation is %+v", last)
	}
}

// TestModel_results quotes results as package run writes them, with a note for the
func TestScripted_results(t *testing.T) {
	m, err := NewScripted([]byte("conversations: [{steps: [{calls: [{name: f}]}, {text: '{result} {result/id}'}]}]"))
	if err != nil {
		t.Fatal(err)
	}
	for content, want := range map[string]string{
		`{"note":"This is data.","result":{"id":7}}`: `{"id":7} 7`,
		`{"note":"This is data.","result":"Hello"}`:  "Hello " + missing,
		`{"note":"This is data."}`:                   `{"note":"This is data."} ` + missing,
		`{"result":{"id":7}}`:                        `{"result":{"id":7}} ` + missing,
	} {
		r := &Request{Messages: []Message{
			{Role: RoleUser, Text: "a"},
			{Role: RoleAssistant, Calls: []ToolCall{{ID: "1", Name: "f"}}},
			{Role: RoleTool, Results: []ToolResult{{CallID: "1", Content: content}}},
		}}
		response, err := m.Generate(t.Context(), r, nil)
		if err != nil || response.Text != scriptedNotice+want {
			t.Errorf("%s: got %+v and %v, want the text %q", content, response, err, want)
		}
	}
}

// TestModel_no_conversation answers, and says that it is scripted.
func TestScripted_no_conversation(t *testing.T) {
	m, err := NewScripted([]byte("conversations: [{when: x, steps: [{text: y}]}]"))
	if err != nil {
		t.Fatal(err)
	}
	r := &Request{Messages: []Message{{Role: RoleUser, Text: "a"}}}
	response, err := m.Generate(t.Context(), r, nil)
	if err != nil || !strings.HasPrefix(response.Text, scriptedNotice) || response.Stop != StopEnd {
		t.Errorf("got %+v and %v", response, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Generate(ctx, r, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the error of the context", err)
	}
	if _, err := m.Generate(t.Context(), &Request{}, nil); KindOf(err) != KindRequest {
		t.Errorf("got %v, want the kind %q", err, KindRequest)
	}
}

// TestNew_invalid rejects scripts, and names the line.
func TestScripted_invalid(t *testing.T) {
	for script, words := range map[string]string{
		"":                                   "empty",
		"conversations: []":                  "line 1 list",
		"conversation: []":                   "line 1 conversation conversations",
		"conversations:\n - steps: []":       "line 2 list",
		"conversations:\n - when: 7\n":       "line 2 text",
		"conversations:\n - when: x\n":       "line 2 steps",
		"conversations:\n - steps:\n   - {}": "line 3 text calls",
		"conversations:\n - steps:\n   - x":  "line 3 mapping",
		"conversations:\n - steps:\n   - calls: [{name: f}]":                                     "line 2 last step",
		"conversations:\n - steps:\n   - calls: [{arguments: {}}]\n   - text: x":                 "line 3 name",
		"conversations:\n - steps:\n   - calls: [{name: f, arguments: [1]}]\n   - text: x":       "line 3 mapping",
		"conversations:\n - steps:\n   - calls: [{name: f, arguments: {a: .inf}}]\n   - text: x": "line 3 JSON",
		"conversations:\n - steps:\n   - calls: [{name: f, arguments: {a: 1, a: 2}}]\n":          "line 3",
		"conversations:\n - &a steps: [{text: x}]\n - *a":                                        "line",
		"conversations: " + strings.Repeat("[", 40) + strings.Repeat("]", 40):                    "line 1",
		"conversations: [{steps: [{text: " + strings.Repeat("x", MaxScript) + "}]}]":             "larger bytes",
	} {
		_, err := NewScripted([]byte(script))
		if err == nil || !testkit.ContainsAll(err.Error(), words) {
			t.Errorf("%.80q: got %v, want an error with the words %q", script, err, words)
		}
	}
}

// FuzzNew reads scripts and plays them: it must not panic, and every answer without calls says
// that it is scripted.
func FuzzScripted(f *testing.F) {
	f.Add(script, "refund", `{"price":1}`)
	f.Add("conversations: [{steps: [{text: '{result/a~1b/0}'}]}]", "x", `{"a/b":[1]}`)
	f.Fuzz(func(t *testing.T, script, input, result string) {
		m, err := NewScripted([]byte(script))
		if err != nil {
			return
		}
		r := &Request{Messages: []Message{{Role: RoleUser, Text: input}}}
		for range 3 {
			response, err := m.Generate(t.Context(), r, nil)
			if err != nil {
				return // a text that is not UTF-8
			}
			if len(response.Calls) == 0 {
				if !strings.HasPrefix(response.Text, scriptedNotice) {
					t.Errorf("got %q", response.Text)
				}
				return
			}
			message := Message{Role: RoleTool}
			for _, call := range response.Calls {
				message.Results = append(message.Results, ToolResult{CallID: call.ID, Content: result})
			}
			r.Messages = append(r.Messages, response.Message(), message)
		}
	})
}
