package oagent

import (
	"errors"
	"fmt"
	"maps"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/caddymodule/internal/agentset"
	modelchat "github.com/fairwayhq/fairway/caddymodule/oagent/internal/chat"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/chat"
	"github.com/fairwayhq/fairway/oagent/engagement"
)

// modelRequest is a request to a model API. Package chat applies the guardrails of the agent;
// modelRequest gives it the agent and the Engagement, and records the decision.
type modelRequest struct{ d *decision }

// serveModel handles the request if it goes to the model API. It reports whether it did.
func serveModel(o *Handler, w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) (handled bool, err error) {
	if o.Chat.FormatOf(r) == 0 {
		return false, nil
	}
	m := modelRequest{newDecision(o, w, r, next)}
	refusal := m.d.identify()
	if m.d.call != nil {
		if refusal != nil || m.d.agent.Input == nil && m.d.agent.Output == nil {
			return false, nil //nolint:nilerr // it is checked like any other call, and refused there
		}
		return true, m.refuseCall()
	}
	if refusal != nil {
		err = refusal
	}
	return true, o.Chat.Serve(w, r, next, m, err)
}

// refuseCall refuses a tool call to a model API that has guardrails, because the call would
// bypass them.
func (m modelRequest) refuseCall() error {
	m.d.name = oagent.KebabName(m.d.call.Tool.Name)
	return m.d.answer(m.d.refuse(kindUnreadable, 0, "", fmt.Sprintf(
		"the call of %s was not made: it calls a model, and the guardrails of agent %s check only requests to %s; send the request there",
		m.d.name, m.d.agent.Name, m.d.r.URL.Path), nil))
}

// Binding implements chat.Request.
func (m modelRequest) Binding() oagent.Binding { return m.d.binding }

// Names implements chat.Request.
func (m modelRequest) Names() *agentset.Names { return m.d.agents.Names }

// Guard implements chat.Request.
func (m modelRequest) Guard() (*oagent.Guard, error) { return m.d.handler.guard(m.d.r.Context()) }

// Allow implements chat.Request.
func (m modelRequest) Allow(status int) {
	m.d.status = status
	m.d.setPlaceholders(allowed)
	m.d.log(m.d.r.Context(), nil, "")
}

// Refuse implements chat.Request.
func (m modelRequest) Refuse(err error, called bool) *modelchat.Refusal {
	refusal := m.refusalFor(err)
	m.d.status, refusal.Made = refusal.status, refusal.Made || called
	m.d.adviseRenewal(refusal)
	m.d.recordRefusal(refusal)
	m.d.setPlaceholders(string(refusal.Kind))
	m.d.log(m.d.r.Context(), refusal, "")
	return &modelchat.Refusal{Status: refusal.status, Kind: string(refusal.Kind), Message: refusal.Message, RetryAfter: refusal.RetryAfter}
}

// refusalFor returns the refusal for an error.
func (m modelRequest) refusalFor(err error) *refusalError {
	refusal := &refusalError{}
	if errors.As(err, &refusal) {
		return refusal
	}
	if _, ok := engagement.AsRefusal(err); ok {
		return asRefusalError(err)
	}
	if fault, ok := chat.AsFault(err); ok {
		return m.d.refuse(engagement.Kind(fault.Code), fault.Status, "", fault.Message, nil)
	}
	return m.d.refuse(kindUnreadable, http.StatusInternalServerError, "", "the gateway failed; see its log for the reason", err)
}

// ExposingWriter implements chat.Request.
func (m modelRequest) ExposingWriter(w http.ResponseWriter) http.ResponseWriter {
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
var _ modelchat.Request = modelRequest{}
