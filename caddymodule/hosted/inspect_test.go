package hosted

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/oagent/hosted/model"
	"github.com/fairwayhq/fairway/tools/inspect"
	"github.com/fairwayhq/fairway/tools/inspect/detect"
)

// modelFunc is a model that notes the request.
type modelFunc func(*model.Request) *model.Response

func (f modelFunc) Generate(_ context.Context, r *model.Request, onText func(string)) (*model.Response, error) {
	response := f(r)
	if onText != nil {
		onText(response.Text)
	}
	return response, nil
}

const mail = "ada.lovelace@example.com"

// inspected returns a model that masks e-mail addresses in both directions.
func inspected(t *testing.T, m model.Model) model.Model {
	t.Helper()
	pii, err := detect.PII(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	step := inspect.Step{Name: "pii", Inspector: detect.Detect(pii, false), Phases: []inspect.Phase{inspect.Request, inspect.Response}}
	return &inspectedModel{Model: m, chain: inspect.Chain{step}, logger: zap.NewNop()}
}

// conversation returns a request with a planted value in each of its parts.
func conversation() *model.Request {
	return &model.Request{
		System: "Help " + mail, Agent: "desk", User: "ann", MaxTokens: 7,
		Messages: []model.Message{
			{Role: model.RoleUser, Text: "I am " + mail},
			{
				Role: model.RoleAssistant, Calls: []model.ToolCall{{ID: "c-1", Name: "find", Arguments: `{"by": "` + mail + `", "card": 4111111111111111}`}},
				Reasoning: []jsontext.Value{jsontext.Value(`{"type": "thinking", "signature": "abc"}`)},
			},
			{Role: model.RoleTool, Results: []model.ToolResult{{CallID: "c-1", Content: "by " + mail}}},
		},
		Tools: []model.Tool{{Name: "find", Description: "Ask " + mail, Schema: jsontext.Value(`{"type":"object","description":"` + mail + `"}`)}},
	}
}

// TestInspectedModel_masks_a_copy_of_the_request wants the provider to get the masked texts with the ids of the request, and the
// conversation to stay as it is.
func TestInspectedModel_masks_a_copy_of_the_request(t *testing.T) {
	var got *model.Request
	request := conversation()
	_, err := inspected(t, modelFunc(func(r *model.Request) *model.Response {
		got = r
		return &model.Response{Text: "ok"}
	})).Generate(t.Context(), request, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := got.Check(); err != nil || got.MaxTokens != 7 {
		t.Errorf("the provider got %+v, want at most 7 tokens; error %v", got, err)
	}
	if name, n := got.Tools[0].Name, len(got.Messages[1].Reasoning); name != "find" || n != 1 {
		t.Errorf("the provider got the tool %s and %d blocks of reasoning, want find and 1", name, n)
	}
	if all := dump(got); strings.Contains(all, mail) || !strings.Contains(all, `c-1 find {"by": "masked@email.invalid", "card": 0}`) || !strings.Contains(all, "by [email]") {
		t.Errorf("the provider got %s", all)
	}
	if before, after := dump(conversation()), dump(request); before != after {
		t.Errorf("the conversation is now %s", after)
	}
}

// dump returns the texts of a request.
func dump(r *model.Request) string {
	var b strings.Builder
	b.WriteString(r.System + "\n")
	for _, m := range r.Messages {
		b.WriteString(m.Text + "\n")
		for _, c := range m.Calls {
			b.WriteString(c.ID + " " + c.Name + " " + c.Arguments + "\n")
		}
		for _, result := range m.Results {
			b.WriteString(result.CallID + " " + result.Content + "\n")
		}
	}
	for _, tool := range r.Tools {
		b.WriteString(tool.Description + string(tool.Schema) + "\n")
	}
	return b.String()
}

// TestInspectedModel_holds_back_responses wants no text before the response has passed, and no reasoning with something to mask.
func TestInspectedModel_holds_back_responses(t *testing.T) {
	var pieces []string
	response, err := inspected(t, modelFunc(func(*model.Request) *model.Response {
		return &model.Response{
			Text: "By " + mail, Calls: []model.ToolCall{{ID: "c-2", Name: "find", Arguments: `{"n":1}`}},
			Reasoning: []jsontext.Value{jsontext.Value(`{"thinking":"` + mail + `"}`)}, Usage: model.Usage{OutputTokens: 3},
		}
	})).Generate(t.Context(), conversation(), func(piece string) { pieces = append(pieces, piece) })
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"By [email]"}; !slices.Equal(pieces, want) {
		t.Errorf("got the pieces %q, want %q", pieces, want)
	}
	if response.Text != "By [email]" || response.Reasoning != nil || response.Usage.OutputTokens != 3 {
		t.Errorf("got %+v, want By [email] with 3 tokens, without reasoning", response)
	}
	if got, want := response.Calls[0], (model.ToolCall{ID: "c-2", Name: "find", Arguments: `{"n":1}`}); got != want {
		t.Errorf("got the call %+v, want %+v", got, want)
	}
}

// TestInspectedModel_limits_what_it_reads wants a request that is too large to be shortened, as one that the model rejects.
func TestInspectedModel_limits_what_it_reads(t *testing.T) {
	request := conversation()
	request.Messages[0].Text = strings.Repeat("x", inspect.MaxBody)
	_, err := inspected(t, modelFunc(func(*model.Request) *model.Response {
		t.Error("the provider got the request")
		return new(model.Response)
	})).Generate(t.Context(), request, nil)
	if model.KindOf(err) != model.KindContextTooLong {
		t.Errorf("got %v", err)
	}
}
