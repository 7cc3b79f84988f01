package oagent

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/internal/respond"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/callid"
)

// Kinds of refusals that the handler adds to those of package oagent. They are for requests
// that the Guard does not see.
const (
	kindUnknownOperation engagement.Kind = "unknown_operation" // the request matches no operation of the documents
	kindAmbiguous        engagement.Kind = "ambiguous"         // some servers could parse the request as another one
	kindUnreadable       engagement.Kind = "unreadable"        // its arguments cannot be parsed
	kindUndeclared       engagement.Kind = "undeclared"        // it has a parameter or property that the document does not declare
	kindTooLarge         engagement.Kind = "too_large"         // its body is larger than max_input
	kindBody             engagement.Kind = "body"              // its body arrives too slowly, or there is no memory for it
	KindIdentity         engagement.Kind = "identity"          // there are no credentials for it
	kindInspected        engagement.Kind = "inspected"         // an inspector of the toolset rejects its arguments or its response
	kindUncheckedContent engagement.Kind = "unchecked_content" // a guardrail on model traffic cannot check it, see chat.CodeUnchecked
	kindUnavailable      engagement.Kind = "unavailable"       // the API's document is not loaded
)

// title returns the title of a refusal's problem document.
func title(kind engagement.Kind) string {
	if title := titles[kind]; title != "" {
		return title
	}
	return "Refused"
}

var titles = map[engagement.Kind]string{
	engagement.KindUnknownAgent:      "No agent governs this request",
	engagement.KindInvalid:           "The call is malformed",
	engagement.KindNotAllowed:        "The agent may not call this operation",
	engagement.KindInputRestriction:  "An input restriction of the agent forbids this call",
	engagement.KindOutputRestriction: "An output restriction of the agent withholds this result",
	engagement.KindShortCircuit:      "The Engagement has ended because the agent repeated calls",
	engagement.KindReviewPending:     "A review is pending",
	engagement.KindReviewDenied:      "The reviewer has denied this call",
	engagement.KindGuardrail:         "A guardrail has ended the Engagement",
	engagement.KindUnchecked:         "The check is temporarily unavailable",
	engagement.KindEnded:             "The Engagement has ended",
	engagement.KindStore:             "The record is temporarily unavailable",
	engagement.KindShare:             "The caller's share is used up",
	kindUnknownOperation:             "The request matches no operation of the API",
	kindAmbiguous:                    "The request is ambiguous",
	kindUnreadable:                   "The request cannot be parsed",
	kindUndeclared:                   "The request has undeclared parameters",
	kindTooLarge:                     "The request is too large",
	kindBody:                         "The body cannot be read now",
	KindIdentity:                     "There are no credentials for this call",
	kindUnavailable:                  "The API's document is not loaded yet",
}

// refusalError is a refusal with its HTTP status.
type refusalError struct {
	*engagement.Refusal
	status int
	cause  error // for the log; nil if the Refusal has it
	own    bool  // the handler decided it, not the Guard

	edit *oagent.Edit // the call must be made with the inputs of a reviewer; then there is no Refusal
}

// asRefusalError converts an error of the Guard; nil if there is none.
func asRefusalError(err error) *refusalError {
	if err == nil {
		return nil
	}
	r, ok := engagement.AsRefusal(err)
	if !ok {
		r = &engagement.Refusal{Kind: engagement.KindStore, Message: "the call was not made: checking it failed; the operator finds the reason in the log"}
	}
	return &refusalError{Refusal: r, status: r.Status(), cause: err}
}

// retryUnavailable is the retry delay while the gateway is not ready.
const retryUnavailable = 2 * time.Second

// refuse returns a refusal that the handler itself decides. A status of 0 selects the default
// status of the kind. decision.complete adds whose call it refuses.
func refuse(kind engagement.Kind, status int, rule, message string, cause error) *refusalError {
	r := &engagement.Refusal{Kind: kind, Rule: rule, Message: message}
	if status == 0 {
		status = r.Status()
	}
	if status == http.StatusServiceUnavailable {
		r.RetryAfter = retryUnavailable
	}
	return &refusalError{Refusal: r, status: status, cause: cause, own: true}
}

// complete adds the agent, the Engagement and the operation to a refusal that the handler decided. Those of the Guard have them.
func (d *decision) complete(r *refusalError) {
	if r.own {
		r.Agent, r.Engagement, r.Name = d.agentName(), d.caller.binding.Engagement, d.op.name
	}
}

// answer responds with a refusal. The response must not have begun.
func (d *decision) answer(r *refusalError) error {
	d.complete(r)
	q := d.request
	if q.hosted != nil {
		q.hosted.Refusal = r.Refusal
	} else {
		d.adviseRenewal(r)
	}
	d.recordRefusal(r)
	d.setPlaceholders(string(r.Kind))
	d.log(outcome{refusal: r, status: r.status})
	if q.rec != nil {
		q.rec.Refusal = toolFailure(r)
		if q.rec.Review != nil {
			q.rec.Refusal.Message = r.loggedReason() // the log of calls has it, and others quote arguments
		}
	}
	if r.status >= http.StatusInternalServerError {
		r.Message += callid.ForOperator(q.id) // the failure of a tool call gets it from package route, after it was recorded
	}
	d.writeRefusal(q.w, r)
	return nil
}

// adviseRenewal adds instructions to renew the Engagement to the refusal of one that has
// ended.
func (d *decision) adviseRenewal(r *refusalError) {
	if !r.Ends() || r.Rule == "" {
		return
	}
	advice := "to begin a new one, ask an auditor of this gateway, or wait until this one expires"
	if d.request.handler.Engagements != "" && d.caller.binding.User.ID != "" && d.caller.binding.Reviewed == "" {
		advice = "to begin a new one, its user sends DELETE " + strings.TrimRight(d.request.handler.Engagements, "/") + "/" + d.engagementKey()
	}
	if d.request.handler.Engagement != "" {
		advice += ", or use another id for the Engagement"
	}
	r.Message += "; " + advice
}

// docsURL is the URL of the documentation of the kinds of refusals.
const docsURL = "https://github.com/fairwayhq/fairway/blob/main/docs/oagent.md#"

// writeRefusal responds with a problem document (RFC 9457) that must not be cached.
func (d *decision) writeRefusal(w http.ResponseWriter, r *refusalError) {
	w.Header().Set(callid.Header, d.request.id.String())
	p := respond.NewProblem(docsURL+string(r.Kind), title(r.Kind), r.status, r.Message)
	if r.Review != "" {
		p.AddString("review", r.Review)
		if d.request.handler.Reviews != "" {
			p.AddString("instance", strings.TrimRight(d.request.handler.Reviews, "/")+"/"+r.Review)
		}
		if d.request.handler.Engagements != "" && d.caller.binding.User.ID != "" { // the review itself is visible only to its reviewer
			p.AddString("location", strings.TrimRight(d.request.handler.Engagements, "/")+"/"+d.engagementKey())
		}
	}
	p.AddString("kind", string(r.Kind))
	p.AddString("agent", r.Agent)
	p.AddString("engagement", d.engagementKey())
	p.AddString("engagement_id", text.Cut(r.Engagement, engagement.MaxID))
	p.AddString("rule", r.Rule)
	p.AddString("tool", r.Name)
	if r.RetryAfter > 0 {
		wait := int64(math.Ceil(r.RetryAfter.Seconds()))
		w.Header().Set("Retry-After", strconv.FormatInt(wait, 10))
		p.AddInt("retry_after", wait)
	}
	p.AddBool("made", r.Made)
	p.Write(w)
}

// askForReview is the interval at which an adapter polls for the decision of a reviewer. The suggested
// delay for clients is longer, since each attempt of a model costs tokens.
const askForReview = 2 * time.Second

// toolFailure returns the failure of a tool call that was refused.
func toolFailure(r *refusalError) *tools.Failure {
	f := &tools.Failure{Kind: tools.Restricted, Status: r.status, RetryAfter: r.RetryAfter, Message: r.Message}
	if r.Kind == engagement.KindReviewPending {
		f.Pending = &tools.Pending{After: askForReview, Message: r.Message}
	} else {
		f.Made = r.Made
	}
	return f
}

// loggedCause returns the cause for the log, or nil if it says no more than the message.
func (r *refusalError) loggedCause() error {
	if r.cause == nil {
		return nil
	}
	if inner := errors.Unwrap(r.Refusal); inner != nil {
		return inner
	}
	if _, ok := engagement.AsRefusal(r.cause); ok {
		return nil
	}
	return r.cause
}

// recordRefusal records a refusal that the handler itself decided. Refusals by the Guard are
// already in the record. Refusals without a decision, such as errors of the gateway, are not
// recorded.
func (d *decision) recordRefusal(r *refusalError) {
	if d.caller.agent == nil || !isDecided(r) {
		return
	}
	guard, err := d.request.handler.OpenGuard(d.request.r.Context())
	if err == nil {
		err = guard.Refuse(d.request.r.Context(), d.caller.binding, r.Refusal, d.admission.inputs, d.recordedReason(r))
	}
	if err != nil {
		d.request.handler.logger.Warn("recording a refusal failed", zap.String("agent", d.caller.agent.Name),
			zap.String("engagement", d.engagementKey()), zap.String("kind", string(r.Kind)), zap.Error(err))
	}
}

// isDecided reports whether a refusal is the handler's decision about the operation or the
// identity of a request.
func isDecided(r *refusalError) bool {
	switch r.Kind {
	case KindIdentity:
		return true
	case kindUnknownOperation, kindAmbiguous, kindUnreadable, kindUndeclared, kindTooLarge:
		return r.status < http.StatusInternalServerError
	}
	return r.Kind == kindUncheckedContent
}

// recordedReason returns the reason for the record. If the request matches no operation, the
// reason describes the request without its query, which may contain credentials.
func (d *decision) recordedReason(r *refusalError) string {
	switch {
	case d.request.rec != nil && d.request.rec.Review != nil:
		return r.loggedReason()
	case d.op.operation != nil:
		return r.Message
	}
	return text.Cut(d.request.r.Method, maxLoggedID) + " " + text.Cut(d.request.r.URL.Path, maxLoggedInput) + ": " + r.Message
}
