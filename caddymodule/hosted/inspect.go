package hosted

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	inspectors "github.com/fairwayhq/fairway/caddymodule/inspect"
	guard "github.com/fairwayhq/fairway/caddymodule/oagent"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
	"github.com/fairwayhq/fairway/tools/inspect"
)

// inspectedModel is a model whose requests and responses pass inspectors. The conversation keeps the original of a request, and
// gets a response after its inspection.
type inspectedModel struct {
	model.Model
	chain  inspect.Chain
	logger *zap.Logger
}

// inspectedRequest is a request as inspectors get it.
type inspectedRequest struct {
	System   string             `json:"system"`
	Messages []inspectedMessage `json:"messages"`
	Tools    []model.Tool       `json:"tools,omitempty"`
}

// inspectedMessage is a message, or a response, as inspectors get it. It has no ids, which must not change.
type inspectedMessage struct {
	Role      model.Role       `json:"role"`
	Text      string           `json:"text,omitzero"`
	Calls     []inspectedCall  `json:"calls,omitempty"`
	Results   []string         `json:"results,omitempty"`
	Reasoning []jsontext.Value `json:"reasoning,omitempty"`
}

type inspectedCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// Generate implements model.Model. If responses are inspected, onText gets the text when it is complete and has passed.
func (i *inspectedModel) Generate(ctx context.Context, request *model.Request, onText func(string)) (*model.Response, error) {
	passed, err := i.request(ctx, request)
	if err != nil {
		return nil, err
	}
	if !i.chain.Has(inspect.Response) {
		return i.Model.Generate(ctx, passed, onText)
	}
	response, err := i.Model.Generate(ctx, passed, nil)
	if err != nil {
		return nil, err
	}
	response = i.response(ctx, request, response)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if onText != nil && response.Text != "" {
		onText(response.Text)
	}
	return response, nil
}

// request returns the request that the model gets.
func (i *inspectedModel) request(ctx context.Context, r *model.Request) (*model.Request, error) {
	if !i.chain.Has(inspect.Request) {
		return r, nil
	}
	view := inspectedRequest{System: r.System, Messages: make([]inspectedMessage, len(r.Messages)), Tools: r.Tools}
	for n := range r.Messages {
		view.Messages[n] = viewOf(&r.Messages[n])
	}
	var masked inspectedRequest
	size, changed, err := i.inspect(ctx, inspect.Request, r, &view, &masked)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil && size > inspect.MaxBody:
		return nil, model.Errorf(model.KindContextTooLong, "inspectors read at most %d bytes of a request, and this one has %d", inspect.MaxBody, size)
	case err != nil:
		return nil, model.Errorf(model.KindInspected, "the request to the model was not made: %v", err)
	case !changed:
		return r, nil
	}
	passed := *r
	passed.System, passed.Messages, passed.Tools = masked.System, slices.Clone(r.Messages), slices.Clone(r.Tools)
	if len(masked.Messages) != len(r.Messages) || len(masked.Tools) != len(r.Tools) {
		return nil, model.Errorf(model.KindInspected, "the request to the model was not made: %v", errOtherForm)
	}
	for n := range passed.Messages {
		if err := masked.Messages[n].applyTo(&passed.Messages[n]); err != nil {
			return nil, model.Errorf(model.KindInspected, "the request to the model was not made: %v", err)
		}
	}
	for n := range passed.Tools {
		passed.Tools[n].Description, passed.Tools[n].Schema = masked.Tools[n].Description, masked.Tools[n].Schema
	}
	return &passed, nil
}

// response returns the response as it passes, or one that says why it was rejected.
func (i *inspectedModel) response(ctx context.Context, request *model.Request, r *model.Response) *model.Response {
	message := r.Message()
	view := viewOf(&message)
	var masked inspectedMessage
	_, changed, err := i.inspect(ctx, inspect.Response, request, &view, &masked)
	if err == nil && changed {
		err = masked.applyTo(&message)
	}
	if err != nil {
		return &model.Response{Usage: r.Usage, Model: r.Model, Rejected: model.Errorf(model.KindInspected, "the response of the model was withheld: %v", err)}
	}
	r.Text, r.Calls, r.Reasoning = message.Text, message.Calls, message.Reasoning
	return r
}

// inspect applies the inspectors to a value. If they change it, it reads the value that passes into masked.
func (i *inspectedModel) inspect(ctx context.Context, phase inspect.Phase, r *model.Request, value, masked any) (size int, changed bool, err error) {
	body, err := json.Marshal(value, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return 0, false, errOtherForm
	}
	passed, labels, err := i.chain.Inspect(ctx, inspect.Message{Phase: phase, Body: body, JSON: true, Protocol: guard.ProtocolHosted, Agent: r.Agent, User: r.User})
	fields := []zap.Field{zap.String("agent", r.Agent), zap.String("phase", string(phase))}
	if rejection, ok := errors.AsType[*inspect.RejectedError](err); ok {
		i.logger.Warn("an inspector rejected what a model gets or generates", append(fields, zap.String("inspector", rejection.Inspector),
			zap.Strings("found", rejection.Labels), zap.String("reason", rejection.Reason))...)
	} else if len(labels) > 0 {
		i.logger.Info("an inspector masked what a model gets or generates", append(fields, zap.Strings("found", labels))...)
	}
	if err != nil || bytes.Equal(passed, body) {
		return len(body), false, err
	}
	if json.Unmarshal(passed, masked) != nil {
		err = errOtherForm
	}
	return len(body), true, err
}

// errOtherForm means that a message which an inspector has masked is not the same message any more.
var errOtherForm = errors.New("an inspector returned a message of another form")

func viewOf(m *model.Message) inspectedMessage {
	view := inspectedMessage{Role: m.Role, Text: m.Text, Reasoning: m.Reasoning}
	for n := range m.Calls {
		view.Calls = append(view.Calls, inspectedCall{m.Calls[n].Name, m.Calls[n].Arguments})
	}
	for n := range m.Results {
		view.Results = append(view.Results, m.Results[n].Content)
	}
	return view
}

// applyTo replaces the texts of a message with the masked ones. Reasoning that was masked is removed: APIs accept it only unchanged.
func (v *inspectedMessage) applyTo(m *model.Message) error {
	if len(v.Calls) != len(m.Calls) || len(v.Results) != len(m.Results) {
		return errOtherForm
	}
	m.Text, m.Calls, m.Results = v.Text, slices.Clone(m.Calls), slices.Clone(m.Results)
	for n := range m.Calls {
		c, masked := &m.Calls[n], &v.Calls[n]
		if jsontext.Value(c.Arguments).IsValid() && !jsontext.Value(masked.Arguments).IsValid() {
			return errOtherForm
		}
		c.Name, c.Arguments = masked.Name, masked.Arguments
	}
	for n := range m.Results {
		m.Results[n].Content = v.Results[n]
	}
	if !slices.EqualFunc(v.Reasoning, m.Reasoning, isSame) {
		m.Reasoning = nil
	}
	return nil
}

// isSame reports whether two values are the same, in whatever form they are written.
func isSame(a, b jsontext.Value) bool {
	a, b = a.Clone(), b.Clone()
	return a.Canonicalize() == nil && b.Canonicalize() == nil && bytes.Equal(a, b)
}

// readInspectors reads the options inspect of a block of tokens. It returns the block without them.
func (m *Model) readInspectors(block []caddyfile.Token) ([]caddyfile.Token, error) {
	if len(block) == 0 {
		return nil, nil
	}
	b := directive.NewBlock(caddyfile.NewDispenser(block))
	left := []caddyfile.Token{block[0]}
	for b.NextBlock(0) {
		if b.Val() != "inspect" {
			left = append(left, b.NextSegment()...)
		} else if err := inspectors.Read(b, &m.Inspectors); err != nil {
			return nil, err
		}
	}
	return append(left, block[len(block)-1]), nil
}
