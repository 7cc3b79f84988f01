package oagent

import (
	"errors"
	"net/http"

	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/tools/inspect"
	"github.com/fairwayhq/fairway/tools/result"
)

// The inspectors of a toolset get the requests to its API that pass oagent. For tool calls, package route does most of it.
// This file is for plain requests, and for tool calls whose response another handler processes.

// inspection returns the inspection of the request, nil if it is a tool call without one.
func (d *decision) inspection() *route.Inspection {
	if d.rec != nil {
		return d.rec.Inspection
	}
	return d.newInspection()
}

func (d *decision) newInspection() *route.Inspection {
	i := &route.Inspection{
		Chain: d.operation.Toolset.Inspect, Tool: d.operation.Tool, Toolset: d.operation.Toolset.Name, Protocol: d.protocolName(),
		User: d.binding.User.ID, Limit: d.handler.MaxOutput, Logger: d.handler.logger,
	}
	if d.agent != nil {
		i.Agent = d.agent.Name
	}
	return i
}

// inspectArguments refuses a plain request with arguments that an inspector rejects, or would mask. Those of tool calls have
// passed the inspectors, which may have required a review.
func (d *decision) inspectArguments() *refusalError {
	switch {
	case d.call != nil && route.ReviewOf(d.r.Context()) != nil:
		return d.inspectReviewed()
	case d.call != nil, !d.operation.Toolset.Inspect.Has(inspect.Arguments):
		return nil
	}
	err := d.newInspection().CheckArguments(d.r.Context(), d.inputs)
	if required, ok := errors.AsType[*inspect.ReviewError](err); ok {
		return d.requireReview(required)
	}
	if err == nil {
		return nil
	}
	d.inputs = nil // the record must not have them
	return d.refuse(kindInspected, http.StatusForbidden, "", "the request of "+d.name+" was refused because of its arguments: "+err.Error(), nil)
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
	body, err := i.Response(s.d.r.Context(), a.Status, a.Headers, a.Body)
	if a.Body = body; body != nil {
		a.Size = int64(len(body.B))
	}
	return err
}

// withholdInspected responds instead of a response that an inspector rejected.
func (s *response) withholdInspected(err error) error {
	s.d.ticket.Abort(s.d.r.Context(), "an inspector rejected the response")
	r := s.d.refuse(kindInspected, http.StatusBadGateway, "", s.inspection.Withheld(err), nil)
	r.Made = true
	return s.d.answer(r)
}
