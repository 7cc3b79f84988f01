package detect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/internal/webhook"
	"github.com/fairwayhq/fairway/tools/inspect"
)

// Webhook is the inspector that sends each message to a server, which decides. The request is a POST with a signature (Standard
// Webhooks) and this JSON:
//
//	{"version":1,"phase":"result","protocol":"mcp","tool":{"name":"get_customer","toolset":"crm"},
//	 "user":{"id":"ada"},"agent":"","content":{"id":7,"email":"ada@example.com"}}
//
// The content is JSON, or a string with text. The server responds with a decision:
//
//	{"decision":"pass"}
//	{"decision":"mask","content":{"id":7,"email":"***"},"labels":["email"]}
//	{"decision":"reject","message":"for the model","reason":"for the log","labels":["…"]}
//	{"decision":"review","content":{"id":7,"email":"***"},"labels":["email"]}
//
// The content of a review is what the reviewer sees. Without it, the reviewer sees the original.
type Webhook struct {
	Client      *webhook.Client
	PassOnError bool // lets messages pass if the server does not decide
}

const (
	maxEnvelope = 8 << 10 // bytes of a decision without its content
	maxMessage  = 500     // bytes of the message of a decision
)

type webhookRequest struct {
	Version  int             `json:"version"`
	Phase    inspect.Phase   `json:"phase"`
	Protocol string          `json:"protocol"`
	Tool     webhookTool     `json:"tool"`
	User     webhookUser     `json:"user"`
	Agent    string          `json:"agent"`
	Content  json.RawMessage `json:"content"`
}

type webhookTool struct {
	Name    string `json:"name"`
	Toolset string `json:"toolset"`
}

type webhookUser struct {
	ID string `json:"id"`
}

type webhookDecision struct {
	Decision string          `json:"decision"`
	Message  string          `json:"message"`
	Reason   string          `json:"reason"`
	Labels   []string        `json:"labels"`
	Content  json.RawMessage `json:"content"`
}

// Inspect implements Inspector.
func (w *Webhook) Inspect(ctx context.Context, m *inspect.Message) (inspect.Verdict, error) {
	return unlessError(ctx, w.PassOnError, func() (inspect.Verdict, error) { return w.ask(ctx, m) })
}

// unlessError returns the decision of a server. If there is an error, the message passes if pass is set.
func unlessError(ctx context.Context, pass bool, decide func() (inspect.Verdict, error)) (inspect.Verdict, error) {
	verdict, err := decide()
	if err != nil && pass && ctx.Err() == nil {
		return inspect.Verdict{}, nil
	}
	return verdict, err
}

func (w *Webhook) ask(ctx context.Context, m *inspect.Message) (inspect.Verdict, error) {
	isJSON := m.JSON && strictjson.Valid(m.Body)
	content := m.Body
	if !isJSON {
		content = strictjson.AppendString(nil, m.Body)
	}
	body, err := json.Marshal(webhookRequest{1, m.Phase, m.Protocol, webhookTool{m.Tool, m.Toolset}, webhookUser{m.User}, m.Agent, content})
	if err != nil {
		return inspect.Verdict{}, err
	}
	_, response, err := w.Client.Ask(ctx, "application/json", body, inspect.MaxBody+maxEnvelope)
	if err != nil {
		return inspect.Verdict{}, err
	}
	if err := strictjson.Check(response); err != nil {
		return inspect.Verdict{}, errors.New("the response of the webhook is not JSON")
	}
	var d webhookDecision
	if err := json.Unmarshal(response, &d); err != nil {
		return inspect.Verdict{}, errors.New("the response of the webhook is not a decision")
	}
	d.Labels = d.Labels[:min(len(d.Labels), maxLabels)]
	for i := range d.Labels {
		d.Labels[i] = text.Cut(d.Labels[i], maxMessage/10)
	}
	review := d.Decision == "review"
	switch d.Decision {
	case "pass":
		return inspect.Verdict{}, nil
	case "reject":
		return inspect.Verdict{Rejected: true, Labels: d.Labels, Message: text.Cut(d.Message, maxMessage), Reason: text.Cut(d.Reason, maxMessage)}, nil
	case "mask", "review":
		if isJSON && len(d.Content) > 0 || review && len(d.Content) == 0 {
			return inspect.Verdict{Review: review, Body: d.Content, Labels: d.Labels}, nil
		}
		var masked *string
		if err := json.Unmarshal(d.Content, &masked); err != nil || masked == nil {
			return inspect.Verdict{}, errors.New(`the webhook masks, but its response has no "content" of the kind that it was sent`)
		}
		return inspect.Verdict{Review: review, Body: []byte(*masked), Labels: d.Labels}, nil
	}
	return inspect.Verdict{}, fmt.Errorf("the webhook responds with the decision %.20q; use pass, mask, reject or review", d.Decision)
}
