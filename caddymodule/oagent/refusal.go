package oagent

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/fairwayhq/fairway/internal/problem"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// Kinds of refusals that the handler adds to those of package oagent. They are for requests
// that the Guard does not see.
const (
	kindUnknownOperation engagement.Kind = "unknown_operation" // the request matches no operation of the documents
	kindAmbiguous        engagement.Kind = "ambiguous"         // some servers could parse the request as another one
	kindUnreadable       engagement.Kind = "unreadable"        // its arguments cannot be parsed
	kindUndeclared       engagement.Kind = "undeclared"        // it has a parameter or property that the document does not declare
	kindTooLarge         engagement.Kind = "too_large"         // its body is larger than max_input
	kindIdentity         engagement.Kind = "identity"          // there are no credentials for it
	kindUnavailable      engagement.Kind = "unavailable"       // the API's document is not loaded
)

// title returns the title of a refusal's problem document.
func title(kind engagement.Kind) string {
	switch kind {
	case engagement.KindUnknownAgent:
		return "No agent governs this request"
	case engagement.KindInvalid:
		return "The call is malformed"
	case engagement.KindNotAllowed:
		return "The agent may not call this operation"
	case engagement.KindInputRestriction:
		return "An input restriction of the agent forbids this call"
	case engagement.KindOutputRestriction:
		return "An output restriction of the agent withholds this result"
	case engagement.KindShortCircuit:
		return "The Engagement has ended because the agent repeated calls"
	case engagement.KindReviewPending:
		return "A review is pending"
	case engagement.KindReviewDenied:
		return "The reviewer has denied this call"
	case engagement.KindGuardrail:
		return "A guardrail has ended the Engagement"
	case engagement.KindUnchecked:
		return "The check is temporarily unavailable"
	case engagement.KindEnded:
		return "The Engagement has ended"
	case engagement.KindStore:
		return "The record is temporarily unavailable"
	case kindUnknownOperation:
		return "The request matches no operation of the API"
	case kindAmbiguous:
		return "The request is ambiguous"
	case kindUnreadable:
		return "The request cannot be parsed"
	case kindUndeclared:
		return "The request has undeclared parameters"
	case kindTooLarge:
		return "The request is too large"
	case kindIdentity:
		return "There are no credentials for this call"
	case kindUnavailable:
		return "The API's document is not loaded yet"
	}
	return "Refused"
}

// refusalError is a refusal with its HTTP status.
type refusalError struct {
	*engagement.Refusal
	status int
	cause  error // for the log; nil if the Refusal has it
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
// status of the kind.
func (g *governedRequest) refuse(kind engagement.Kind, status int, rule, message string, cause error) *refusalError {
	r := &engagement.Refusal{Kind: kind, Rule: rule, Message: message, Name: g.name, Engagement: g.binding.Engagement}
	if g.agent != nil {
		r.Agent = g.agent.Name
	}
	if status == 0 {
		status = r.Status()
	}
	if status == http.StatusServiceUnavailable {
		r.RetryAfter = retryUnavailable
	}
	return &refusalError{Refusal: r, status: status, cause: cause}
}

// sendRefusal responds with a refusal. The response must not have begun.
func (g *governedRequest) sendRefusal(r *refusalError) error {
	g.status = r.status
	if g.hosted != nil {
		g.hosted.Refusal = r.Refusal
	} else {
		g.adviseRenewal(r)
	}
	g.recordRefusal(r)
	g.setPlaceholders(string(r.Kind))
	g.logDecision(string(r.Kind), r, "")
	if g.rec != nil {
		g.rec.Refusal = toolFailure(r)
	}
	g.writeRefusal(g.w, r)
	return nil
}

// adviseRenewal adds instructions to renew the Engagement to the refusal of one that has
// ended.
func (g *governedRequest) adviseRenewal(r *refusalError) {
	if !r.Ends() || r.Rule == "" {
		return
	}
	advice := "to begin a new one, ask an auditor of this gateway, or wait until this one expires"
	if g.handler.Engagements != "" && g.binding.User.ID != "" && g.binding.Reviewed == "" {
		advice = "to begin a new one, its user sends DELETE " + strings.TrimRight(g.handler.Engagements, "/") + "/" + g.engagementKey()
	}
	if g.handler.Engagement != "" {
		advice += ", or use another id for the Engagement"
	}
	r.Message += "; " + advice
}

// docsURL is the URL of the documentation of the kinds of refusals.
const docsURL = "https://github.com/fairwayhq/fairway/blob/main/docs/oagent.md#"

// writeRefusal responds with a problem document (RFC 9457) that must not be cached.
func (g *governedRequest) writeRefusal(w http.ResponseWriter, r *refusalError) {
	d := problem.New(docsURL+string(r.Kind), title(r.Kind), r.status, r.Message)
	if r.Review != "" {
		d.AddString("review", r.Review)
		if g.handler.Reviews != "" {
			d.AddString("instance", strings.TrimRight(g.handler.Reviews, "/")+"/"+r.Review)
		}
		if g.handler.Engagements != "" && g.binding.User.ID != "" { // the review itself is visible only to its reviewer
			d.AddString("location", strings.TrimRight(g.handler.Engagements, "/")+"/"+g.engagementKey())
		}
	}
	d.AddString("kind", string(r.Kind))
	d.AddString("agent", r.Agent)
	d.AddString("engagement", g.engagementKey())
	d.AddString("engagement_id", text.Cut(r.Engagement, engagement.MaxID))
	d.AddString("rule", r.Rule)
	d.AddString("tool", r.Name)
	if r.RetryAfter > 0 {
		wait := int64(math.Ceil(r.RetryAfter.Seconds()))
		w.Header().Set("Retry-After", strconv.FormatInt(wait, 10))
		d.AddInt("retry_after", wait)
	}
	d.AddBool("made", r.Made)
	d.Write(w)
}

// askForReview is the interval at which an adapter polls for the decision of a reviewer. The suggested
// delay for clients is longer, since each attempt of a model costs tokens.
const askForReview = 2 * time.Second

// toolFailure returns the failure of a tool call that was refused.
func toolFailure(r *refusalError) *tool.Failure {
	f := &tool.Failure{Kind: tool.Restricted, Status: r.status, RetryAfter: r.RetryAfter, Message: r.Message}
	if r.Kind == engagement.KindReviewPending {
		f.Pending = &tool.Pending{After: askForReview, Message: r.Message}
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
