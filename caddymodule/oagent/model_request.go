package oagent

import (
	"errors"
	"fmt"
	"maps"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/caddymodule/internal/agentset"
	modelchat "github.com/fairwayhq/fairway/caddymodule/oagent/internal/chat"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/chat"
	"github.com/fairwayhq/fairway/oagent/engagement"
)

// modelRequest is a request to a model API. Package chat applies the guardrails of the agent;
// modelRequest gives it the agent and the Engagement, and records the decision.
type modelRequest struct{ d decision }

// serveModel handles the request if it goes to the model API. It reports whether it did.
func serveModel(o *Handler, w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) (handled bool, err error) {
	if o.Chat.FormatOf(r) == 0 {
		return false, nil
	}
	q := newRequest(o, w, r)
	c, refusal := identify(q, o.agents.CurrentFor(r, next))
	if q.call != nil {
		if refusal != nil || c.agent.Input == nil && c.agent.Output == nil {
			return false, nil //nolint:nilerr // it is checked like any other call, and refused there
		}
		return true, refuseModelCall(q, c)
	}
	if refusal != nil {
		err = refusal
	} else if c.agent.Input != nil || c.agent.Output != nil {
		if release := route.BoundBody(o.app, r); release != nil {
			defer release()
		}
	}
	return true, o.Chat.Serve(w, r, next, &modelRequest{decision{request: q, caller: c}}, err)
}

// refuseModelCall refuses a tool call to a model API that has guardrails, because the call would
// bypass them.
func refuseModelCall(q request, c caller) error {
	d := decision{request: q, caller: c, op: requestedOperation{name: oagent.KebabName(q.call.Tool.Name)}}
	return d.answer(refuse(kindUnreadable, 0, "", fmt.Sprintf(
		"the call of %s was not made: it calls a model, and the guardrails of agent %s check only requests to %s; send the request there",
		d.op.name, c.agent.Name, q.r.URL.Path), nil))
}

// Binding implements chat.Request.
func (m *modelRequest) Binding() oagent.Binding { return m.d.caller.binding }

// Names implements chat.Request.
func (m *modelRequest) Names() *agentset.Names { return m.d.caller.agents.Names }

// Guard implements chat.Request.
func (m *modelRequest) Guard() (*oagent.Guard, error) {
	return m.d.request.handler.guard(m.d.request.r.Context())
}

// Allow implements chat.Request.
func (m *modelRequest) Allow(status int) {
	m.d.setPlaceholders(allowed)
	m.d.log(outcome{status: status})
}

// Refuse implements chat.Request.
func (m *modelRequest) Refuse(err error, called bool) *modelchat.Refusal {
	refusal := refusalFor(err)
	refusal.Made = refusal.Made || called
	m.d.complete(refusal)
	m.d.adviseRenewal(refusal)
	m.d.recordRefusal(refusal)
	m.d.setPlaceholders(string(refusal.Kind))
	m.d.log(outcome{refusal: refusal, status: refusal.status})
	return &modelchat.Refusal{Status: refusal.status, Kind: string(refusal.Kind), Message: refusal.Message, RetryAfter: refusal.RetryAfter}
}

// refusalFor returns the refusal for an error.
func refusalFor(err error) *refusalError {
	refusal := &refusalError{}
	if errors.As(err, &refusal) {
		return refusal
	}
	if _, ok := engagement.AsRefusal(err); ok {
		return asRefusalError(err)
	}
	if fault, ok := chat.AsFault(err); ok {
		return refuse(engagement.Kind(fault.Code), fault.Status, "", fault.Message, nil)
	}
	return refuse(kindUnreadable, http.StatusInternalServerError, "", "the gateway failed; see its log for the reason", err)
}

// ExposingWriter implements chat.Request.
func (m *modelRequest) ExposingWriter(w http.ResponseWriter) http.ResponseWriter {
	e := &exposingWriter{ResponseWriterWrapper: caddyhttp.ResponseWriterWrapper{ResponseWriter: w}, exposed: make(http.Header)}
	m.d.expose(e.exposed)
	return e
}

// exposingWriter is an http.ResponseWriter that sets the header of exposed values. An API
// cannot forge this header.
type exposingWriter struct {
	caddyhttp.ResponseWriterWrapper
	exposed http.Header
}

// WriteHeader replaces the API's value of the header by the values that the agent exposes.
func (w *exposingWriter) WriteHeader(status int) {
	delete(w.Header(), headerExposes)
	maps.Copy(w.Header(), w.exposed)
	w.ResponseWriterWrapper.WriteHeader(status)
}

// Interface guard
var _ modelchat.Request = (*modelRequest)(nil)
