package oagent

import (
	"errors"
	"fmt"
	"maps"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/caddymodule/internal/agentset"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
)

// chat applies guardrails to requests to a model API. Package chat implements it.
type chat interface {
	// IsFor reports whether a request is for a model API.
	IsFor(r *http.Request) bool
	// Serve passes the request on if the guardrails allow it. Refusal is the reason to refuse it without calling a guardrail; nil if
	// there is none.
	Serve(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler, m *ModelRequest, refusal error) error
	// Guardrails returns the caller of the guardrails' tools.
	Guardrails() *agentset.GuardrailCaller
}

// ModelRequest is a request to a model API. Package chat applies the guardrails of the agent;
// ModelRequest gives it the agent and the Engagement, and records the decision.
type ModelRequest struct{ d decision }

// serveModel handles the request if it goes to the model API. It reports whether it did.
func serveModel(o *Handler, w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) (handled bool, err error) {
	if !o.Chat.IsFor(r) {
		return false, nil
	}
	q := newRequest(o, w, r)
	c, refusal := identify(q, o.Loader.CurrentFor(r, next))
	if q.call != nil {
		if refusal != nil || c.agent.GuardrailsLogOnly || c.agent.Input == nil && c.agent.Output == nil {
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
	return true, o.Chat.Serve(w, r, next, &ModelRequest{decision{request: q, caller: c}}, err)
}

// refuseModelCall refuses a tool call to a model API that has guardrails, because the call would
// bypass them.
func refuseModelCall(q request, c caller) error {
	d := decision{request: q, caller: c, op: requestedOperation{name: oagent.KebabName(q.call.Tool.Name)}}
	return d.answer(refuse(kindUnreadable, 0, "", fmt.Sprintf(
		"the call of %s was not made: it calls a model, and the guardrails of agent %s check only requests to %s; send the request there",
		d.op.name, c.agent.Name, q.r.URL.Path), nil))
}

// Binding returns the agent and its Engagement.
func (m *ModelRequest) Binding() oagent.Binding { return m.d.caller.binding }

// Names returns the tools that the agents' documents may name.
func (m *ModelRequest) Names() *agentset.Names { return m.d.caller.agents.Names }

// Guard returns the Guard that records the Engagement.
func (m *ModelRequest) Guard() (*oagent.Guard, error) {
	return m.d.request.handler.OpenGuard(m.d.request.r.Context())
}

// Allow logs and counts that the request passed. Status is that of the response, 0 if it is not known yet.
func (m *ModelRequest) Allow(status int) {
	m.d.setPlaceholders(allowed)
	m.d.log(outcome{status: status})
}

// Refuse records, logs and counts a refusal, and returns it with the status of the response. The error is an *engagement.Refusal,
// one of RefusalOf, or that with which Chat.Serve was called. Called reports whether the model was called.
func (m *ModelRequest) Refuse(err error, called bool) (*engagement.Refusal, int) {
	refusal := refusalFor(err)
	refusal.Made = refusal.Made || called
	m.d.complete(refusal)
	m.d.adviseRenewal(refusal)
	m.d.recordRefusal(refusal)
	m.d.setPlaceholders(string(refusal.Kind))
	m.d.log(outcome{refusal: refusal, status: refusal.status})
	return refusal.Refusal, refusal.status
}

// RefusalOf returns the error for a request that guardrails cannot check.
func RefusalOf(kind engagement.Kind, status int, message string) error {
	return refuse(kind, status, "", message, nil)
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
	return refuse(kindUnreadable, http.StatusInternalServerError, "", "the gateway failed; see its log for the reason", err)
}

// ExposingWriter returns a writer that adds the values that the agent exposes to the header of the response, and removes those that
// the API has set.
func (m *ModelRequest) ExposingWriter(w http.ResponseWriter) http.ResponseWriter {
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
