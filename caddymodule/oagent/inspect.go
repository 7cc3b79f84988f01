package oagent

import (
	"errors"
	"net/http"

	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/tools/inspect"
	"github.com/fairwayhq/fairway/tools/logonly"
	"github.com/fairwayhq/fairway/tools/result"
)

// The inspectors of a toolset get the requests to its API that pass oagent. For tool calls, package route does most of it.
// This file is for plain requests, and for tool calls whose response another handler processes.

// inspectionOf returns the inspection of the request, nil if it is a tool call without one.
func inspectionOf(q request, c caller, op requestedOperation) *route.Inspection {
	if q.rec != nil {
		return q.rec.Inspection
	}
	return newInspection(q, c, op)
}

func newInspection(q request, c caller, op requestedOperation) *route.Inspection {
	return &route.Inspection{
		Chain: op.operation.Toolset.Inspect, Tool: op.operation.Tool, Toolset: op.operation.Toolset.Name, Protocol: q.protocol(),
		User: c.binding.User.ID, Limit: q.handler.MaxOutput, Logger: q.handler.logger, Agent: c.agent.Name,
		LogOnly: op.operation.Toolset.LogOnly.Inspect,
	}
}

// inspectArguments refuses a plain request with arguments that an inspector rejects, or would mask. Those of tool calls have
// passed the inspectors. If these required a review, they inspect the arguments once more, since those that the API gets can
// have defaults, and headers of the caller. The result is what the Guard must require; nil for nothing. would gets what inspectors in log
// only would have done to a plain request.
func inspectArguments(q request, c caller, op requestedOperation, would *logonly.Would) (*oagent.Inspected, *refusalError) {
	isReviewed := q.call != nil && route.ReviewOf(q.r.Context()) != nil
	toolset := op.operation.Toolset
	if !isReviewed && (q.call != nil || !toolset.Inspect.Has(inspect.Arguments) && !toolset.LogOnly.Inspect.Has(inspect.Arguments)) {
		return nil, nil
	}
	i := newInspection(q, c, op)
	err := i.CheckArguments(q.r.Context(), op.inputs)
	if q.call == nil {
		*would = i.Would
	}
	if required, ok := errors.AsType[*inspect.ReviewError](err); ok {
		return requireReview(q, op, required)
	}
	switch {
	case isReviewed && err == nil:
		return nil, refuseUnreviewable(q, op, "the second inspection of the same arguments requires none")
	case isReviewed:
		return nil, refuseUnreviewable(q, op, "the second inspection of the arguments does not pass: "+err.Error())
	case err == nil:
		return nil, nil
	}
	return nil, refuse(kindInspected, http.StatusForbidden, "", "the request of "+op.name+" was refused because of its arguments: "+err.Error(), nil)
}

// inspectHeld replaces the held response with what the inspectors pass. It returns why a response is withheld.
func (s *response) inspectHeld(a *heldResponse) error {
	i := s.inspection
	switch {
	case a.Sends():
		return errors.New("it has been sent before it was complete")
	case a.NoBody || a.Body == nil || len(a.Body.B) == 0:
		i.Headers(a.Headers)
		return nil
	case result.FormatOf(a.Headers.Get("Content-Type")) != 0:
		return errors.New("it is a stream, which cannot be inspected")
	}
	body, err := i.Response(s.d.request.r.Context(), a.Status, a.Headers, a.Body)
	a.Body = body
	if body != nil {
		a.Size = int64(len(body.B))
	}
	return err
}

// withholdInspected responds instead of a response that an inspector rejected.
func (s *response) withholdInspected(err error) error {
	s.ticket.Abort(s.d.request.r.Context(), "an inspector rejected the response")
	r := refuse(kindInspected, http.StatusBadGateway, "", s.inspection.Withheld(err), nil)
	r.Made = true
	return s.d.answer(r)
}
