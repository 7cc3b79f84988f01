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
	"github.com/fairwayhq/fairway/ocp"
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
		return "The agent may not use this"
	case engagement.KindInputRestriction:
		return "An input restriction of the agent does not allow this call"
	case engagement.KindOutputRestriction:
		return "An output restriction of the agent withholds this result"
	case engagement.KindShortCircuit:
		return "The agent repeats itself, and was ended"
	case engagement.KindReviewPending:
		return "This must be confirmed first"
	case engagement.KindReviewDenied:
		return "The reviewer has denied this"
	case engagement.KindGuardrail:
		return "A guardrail has ended the Engagement"
	case engagement.KindUnchecked:
		return "This cannot be checked just now"
	case engagement.KindEnded:
		return "The Engagement has ended"
	case engagement.KindStore:
		return "The record cannot be kept just now"
	case kindUnknownOperation:
		return "This is no operation of the API"
	case kindAmbiguous:
		return "This may be another request than it seems"
	case kindUnreadable:
		return "This request cannot be judged"
	case kindUndeclared:
		return "The API's document does not declare this"
	case kindTooLarge:
		return "The request is too large to be judged"
	case kindIdentity:
		return "There are no credentials for this call"
	case kindUnavailable:
		return "The API's document is not loaded yet"
	}
	return "Refused"
}

// httpRefusal is a refusal with its HTTP status.
type httpRefusal struct {
	*engagement.Refusal
	status int
	cause  error // for the log; nil if the Refusal has it
}

// asHTTPRefusal converts an error of the Guard; nil if there is none.
func asHTTPRefusal(err error) *httpRefusal {
	if err == nil {
		return nil
	}
	r, ok := engagement.AsRefusal(err)
	if !ok {
		r = &engagement.Refusal{Kind: engagement.KindStore, Message: "the call could not be judged; the operator finds the reason in the log"}
	}
	return &httpRefusal{Refusal: r, status: r.Status(), cause: err}
}

// retryUnavailable is the retry delay while the gateway is not ready.
const retryUnavailable = 2 * time.Second

// refuse returns a refusal that the handler itself decides. A status of 0 selects the default
// status of the kind.
func (g *governedRequest) refuse(kind engagement.Kind, status int, rule, message string, cause error) *httpRefusal {
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
	return &httpRefusal{Refusal: r, status: status, cause: cause}
}

// sendRefusal responds with a refusal. The response must not have begun.
func (g *governedRequest) sendRefusal(r *httpRefusal) error {
	g.status = r.status
	g.adviseRenewal(r)
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
func (g *governedRequest) adviseRenewal(r *httpRefusal) {
	if !r.Ends() || r.Rule == "" {
		return
	}
	advice := "to begin another, ask an auditor of this gateway, or wait until this one expires"
	if g.handler.Engagements != "" && g.binding.User.ID != "" && g.binding.Reviewed == "" {
		advice = "to begin another, its user sends DELETE " + strings.TrimRight(g.handler.Engagements, "/") + "/" + g.engagementKey()
	}
	if g.handler.Engagement != "" {
		advice += ", or use another id for the Engagement"
	}
	r.Message += "; " + advice
}

// docsURL is the URL of the documentation of the kinds of refusals.
const docsURL = "https://github.com/fairwayhq/fairway/blob/main/docs/oagent.md#"

// writeRefusal responds with a problem document (RFC 9457) that must not be cached.
func (g *governedRequest) writeRefusal(w http.ResponseWriter, r *httpRefusal) {
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

// toolFailure returns the failure of a tool call that was refused.
func toolFailure(r *httpRefusal) *ocp.Failure {
	return &ocp.Failure{
		Kind: ocp.Restricted, Status: r.status, RetryAfter: r.RetryAfter, Message: r.Message,
		Made: r.Made && r.Kind != engagement.KindReviewPending,
	}
}

// loggedCause returns the cause for the log, or nil if it says no more than the message.
func (r *httpRefusal) loggedCause() error {
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
