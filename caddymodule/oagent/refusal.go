package oagent

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/ocp"
)

// Kinds of refusals beside those of package oagent: of requests about which there
// is nothing to decide.
const (
	kindUnknownOperation oagent.Kind = "unknown_operation" // the request is no operation of the documents
	kindAmbiguous        oagent.Kind = "ambiguous"         // some servers would take it for another one
	kindUnreadable       oagent.Kind = "unreadable"        // its arguments cannot be told
	kindUndeclared       oagent.Kind = "undeclared"        // it has a parameter or property that the document does not declare
	kindTooLarge         oagent.Kind = "too_large"         // its body is larger than max_input
	kindIdentity         oagent.Kind = "identity"          // there are no credentials to make it with
	kindUnavailable      oagent.Kind = "unavailable"       // the document of the API is not loaded
)

// titles say in few words what a refusal is.
func title(kind oagent.Kind) string {
	switch kind {
	case oagent.KindUnknownAgent:
		return "No agent governs this request"
	case oagent.KindInvalid:
		return "The call is malformed"
	case oagent.KindNotAllowed:
		return "The agent may not use this"
	case oagent.KindInputRestriction:
		return "An input restriction of the agent does not allow this call"
	case oagent.KindOutputRestriction:
		return "An output restriction of the agent withholds this result"
	case oagent.KindShortCircuit:
		return "The agent repeats itself, and was ended"
	case oagent.KindReviewPending:
		return "This must be confirmed first"
	case oagent.KindReviewDenied:
		return "The reviewer has denied this"
	case oagent.KindGuardrail:
		return "A guardrail has ended the Engagement"
	case oagent.KindUnchecked:
		return "This cannot be checked just now"
	case oagent.KindEnded:
		return "The Engagement has ended"
	case oagent.KindStore:
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

// refused is a refusal with the status that goes with it.
type refused struct {
	*oagent.Refusal
	status int
	cause  error // for the log; nil if the refusal has it
}

// refusedBy returns what a guard's error says, nil if there is none.
func refusedBy(err error) *refused {
	if err == nil {
		return nil
	}
	r, ok := oagent.AsRefusal(err)
	if !ok {
		r = &oagent.Refusal{Kind: oagent.KindStore, Message: "the call could not be judged; the operator finds the reason in the log"}
	}
	return &refused{Refusal: r, status: r.Status(), cause: err}
}

// retryUnavailable is when to try again if the gateway is not ready.
const retryUnavailable = 2 * time.Second

// refuse returns a refusal of what no guard has been asked about. A status of 0 is
// that of the kind.
func (p *passage) refuse(kind oagent.Kind, status int, rule, message string, cause error) *refused {
	r := &oagent.Refusal{Kind: kind, Rule: rule, Message: message, Name: p.name, Engagement: p.binding.Engagement}
	if p.agent != nil {
		r.Agent = p.agent.Name
	}
	if status == 0 {
		status = r.Status()
	}
	if status == http.StatusServiceUnavailable {
		r.RetryAfter = retryUnavailable
	}
	return &refused{Refusal: r, status: status, cause: cause}
}

// answerRefusal answers with a refusal, in place of an answer that has not begun.
func (p *passage) answerRefusal(r *refused) error {
	p.status = r.status
	p.adviseRenewal(r)
	p.recordRefusal(r)
	p.decided(string(r.Kind))
	p.tell(string(r.Kind), r, "")
	if p.rec != nil {
		p.rec.Refused = restricted(r)
	}
	p.writeRefusal(p.w, r)
	return nil
}

// adviseRenewal adds to the refusal of an Engagement that has ended how to go on.
func (p *passage) adviseRenewal(r *refused) {
	if !r.Ends() || r.Rule == "" {
		return
	}
	advice := "to begin another, ask an auditor of this gateway, or wait until this one expires"
	if p.Engagements != "" && p.binding.User.ID != "" && p.binding.Reviewed == "" {
		advice = "to begin another, its user sends DELETE " + strings.TrimRight(p.Engagements, "/") + "/" + p.engagementKey()
	}
	if p.Engagement != "" {
		advice += ", or use another id for the Engagement"
	}
	r.Message += "; " + advice
}

// docs is where a kind of refusal is explained.
const docs = "https://github.com/fairwayhq/fairway/blob/main/docs/oagent.md#"

// writeRefusal answers with a problem document (RFC 9457) that no cache keeps.
func (p *passage) writeRefusal(w http.ResponseWriter, r *refused) {
	body := append([]byte(nil), `{"type":`...)
	body = wire.AppendString(body, docs+string(r.Kind))
	add := func(name, value string) {
		if value != "" {
			body = append(append(append(body, ',', '"'), name...), `":`...)
			body = wire.AppendString(body, value)
		}
	}
	add("title", title(r.Kind))
	body = append(body, `,"status":`...)
	body = strconv.AppendInt(body, int64(r.status), 10)
	add("detail", r.Message)
	header := w.Header()
	if r.Review != "" {
		add("review", r.Review)
		if p.Reviews != "" {
			add("instance", strings.TrimRight(p.Reviews, "/")+"/"+r.Review)
		}
		if p.Engagements != "" && p.binding.User.ID != "" { // the review is its reviewer's to see
			add("location", strings.TrimRight(p.Engagements, "/")+"/"+p.engagementKey())
		}
	}
	add("kind", string(r.Kind))
	add("agent", r.Agent)
	add("engagement", p.engagementKey())
	add("engagement_id", text.Cut(r.Engagement, oagent.MaxEngagementID))
	add("rule", r.Rule)
	add("tool", r.Name)
	if r.RetryAfter > 0 {
		wait := int64(math.Ceil(r.RetryAfter.Seconds()))
		header.Set("Retry-After", strconv.FormatInt(wait, 10))
		body = append(body, `,"retry_after":`...)
		body = strconv.AppendInt(body, wait, 10)
	}
	body = append(body, `,"made":`...)
	body = append(strconv.AppendBool(body, r.Made), '}')

	header.Set("Content-Type", "application/problem+json")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	header.Set("Cache-Control", "no-store")
	w.WriteHeader(r.status)
	_, _ = w.Write(body) // the client may be gone
}

// restricted is how a tool call ends that a guard has refused.
func restricted(r *refused) *ocp.Failure {
	return &ocp.Failure{
		Kind: ocp.Restricted, Status: r.status, RetryAfter: r.RetryAfter, Message: r.Message,
		Made: r.Made && r.Kind != oagent.KindReviewPending,
	}
}

// causeOf returns what a refusal says to the log, nil if that is no more than its
// message.
func (r *refused) causeOf() error {
	if r.cause == nil {
		return nil
	}
	if inner := errors.Unwrap(r.Refusal); inner != nil {
		return inner
	}
	if _, ok := oagent.AsRefusal(r.cause); ok {
		return nil
	}
	return r.cause
}
