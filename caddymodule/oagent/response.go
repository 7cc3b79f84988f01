package oagent

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/dustin/go-humanize"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/caddymodule/toolcall"
	"github.com/fairwayhq/fairway/internal/conceal"
	"github.com/fairwayhq/fairway/internal/headerkind"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/ocp/security"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// response is the last phase of a guarded request: it runs the next handlers, checks their response,
// and releases or withholds it.
type response struct {
	*guardedRequest
	injected toolcall.InjectedCredentials // the credentials that the API gets instead of the caller's
}

// setInjected records the credentials that the API gets: those of the toolset, and those of with,
// which may be nil.
func (s *response) setInjected(with *security.Supplement) {
	if s.rec != nil {
		s.injected = s.rec.Injected
	}
	if with != nil {
		s.injected = append(s.injected, with)
	}
	if s.rec != nil {
		s.rec.Injected = s.injected
	}
}

// repeatsCredentials reports whether outputs contain a credential that was sent to the API:
// one that the gateway injected, or one of the caller. The record must not store such outputs.
func (s *response) repeatsCredentials(outputs jsontext.Value) bool {
	if len(outputs) == 0 {
		return false
	}
	var secrets conceal.Secrets
	s.injected.AddTo(&secrets)
	for _, value := range s.r.Header["Authorization"] {
		secrets.AddHeader(value)
	}
	for _, name := range s.agents.Credentials.Headers {
		for _, value := range s.r.Header[name] {
			secrets.Add(value)
		}
	}
	further, _ := s.agents.Credentials.In(s.r)
	for i := 1; i < len(further); i += 2 {
		secrets.Add(further[i])
	}
	return !secrets.IsEmpty() && secrets.Contains(string(outputs))
}

// isChecked reports whether the response must be checked before it is sent.
func (s *response) isChecked() bool { return s.ticket.Capability.Output != nil }

// isRecorded reports whether the response is read for the record or for a check.
func (s *response) isRecorded() bool { return s.isChecked() || s.ticket.Capability.CollectResults }

// finish passes the result of the call to the Guard.
func (s *response) finish(outputs jsontext.Value, status int) *refusalError {
	s.status = status
	if output := s.ticket.Capability.Output; output != nil {
		if output.RequireReview != "" {
			defer s.pauseTimeout()()
		}
		if output.Assertion != nil && isDescription(outputs) && !readsDescription(output.Assertion.Expression) {
			outputs = omitDescription(outputs)
		}
	}
	if s.repeatsCredentials(outputs) {
		s.ticket.Unrecorded = engagement.OmittedCredentials
	}
	if err := s.ticket.Finish(s.r.Context(), outputs, status); err != nil {
		return asRefusalError(err)
	}
	return nil
}

// abort records that the call has no result.
func (s *response) abort(reason string) {
	s.ticket.Abort(s.r.Context(), reason)
	s.logDecision(allowed, nil, reason)
}

// abortFor is abort for an error of a handler. The record gets the kind of the error, not its
// message.
func (s *response) abortFor(err error) {
	if handlerError, ok := errors.AsType[caddyhttp.HandlerError](err); ok && handlerError.StatusCode > 0 {
		s.status = handlerError.StatusCode
		if failure := toolcall.UpstreamFailure("", s.status); failure != nil {
			s.failed = failure.Kind
		}
		s.abort("calling the API failed: status " + strconv.Itoa(handlerError.StatusCode))
		return
	}
	s.failed = tool.Internal
	s.abort("a handler of the gateway failed")
}

// isSafe reports whether requests with this method change nothing. Conditions can be removed
// from such requests.
func isSafe(method string) bool {
	return method == http.MethodGet || method == http.MethodHead
}

// conditions are the headers that make a request conditional (RFC 9110, section 13.1).
var conditions = [...]string{"If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "If-Range"}

// deleteConditions removes the conditions, including names that some servers treat as equal
// (see headerkind.Canonical).
func deleteConditions(header http.Header) {
	for name := range header {
		if slices.Contains(conditions[:], headerkind.Canonical(name)) {
			delete(header, name)
		}
	}
}

// isConditional reports whether the header has a condition.
func isConditional(header http.Header) bool {
	for name := range header {
		if slices.Contains(conditions[:], headerkind.Canonical(name)) {
			return true
		}
	}
	return false
}

// refuseTooLarge refuses a response that is too large to check.
func (s *response) refuseTooLarge() *refusalError {
	r := s.refuse(engagement.KindOutputRestriction, 0, s.ticket.Capability.Rule()+".output_restriction", fmt.Sprintf(
		"the call of %s was made, but its result is withheld: it is larger than %s, the limit for checks; request less",
		s.name, humanize.IBytes(uint64(s.handler.MaxOutput))), nil)
	r.Made = true
	return r
}
