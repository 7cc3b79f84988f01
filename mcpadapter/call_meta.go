package mcpadapter

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp"
)

// The members of a result's _meta.
const (
	// metaHTTP is the failure of a call in a form for programs:
	//
	//	{"status":429,"retryable":true,"retryAfterMs":30000,"problem":{…}}
	//
	// status is the API's and retryAfterMs what it asked for, if it did; problem
	// is its problem document (RFC 9457), if it sent one.
	metaHTTP = "io.github.fairwayhq/http"

	// metaChallenges is for hosts of MCP Apps: the challenges with which a user
	// is asked to log in, as one WWW-Authenticate has them, in one text.
	metaChallenges = "mcp/www_authenticate"
)

const (
	maxProblem    = 16 << 10 // bytes of a problem document in _meta
	maxChallenges = 4        // in _meta
	maxChallenge  = 2 << 10  // bytes of each
)

// completeHead is what the kept head of results in 2026-07-28 begins with.
const completeHead = `"resultType":"complete",`

// appendResultHead appends the members that a result begins with, and a comma. Meta
// is members of its _meta, separated by commas, or nil.
func (x *exchange) appendResultHead(dst []byte, resultType string, meta []byte) []byte {
	meta = x.appendLocale(meta)
	if !x.version.selfDescribing() {
		if len(meta) == 0 {
			return dst
		}
		dst = append(append(dst, `"_meta":{`...), meta...)
		return append(dst, "},"...)
	}
	complete := x.wholeCatalog().complete
	if resultType != "complete" {
		dst = append(append(append(dst, `"resultType":"`...), resultType...), `",`...)
		complete = bytes.TrimPrefix(complete, []byte(completeHead))
	}
	dst = append(dst, complete...)
	if len(meta) > 0 {
		dst = append(append(dst[:len(dst)-1], ','), meta...) // before the brace that ends _meta
		dst = append(dst, '}')
	}
	return append(dst, ',')
}

// failureMeta returns what _meta says of a failure.
func (x *exchange) failureMeta(r reply) []byte {
	meta := r.contextMeta()
	if len(meta) > 0 {
		meta = append(meta, ',')
	}
	failure := r.Failure
	meta = append(meta, `"`+metaHTTP+`":{`...)
	if failure.Status != 0 {
		meta = append(strconv.AppendInt(append(meta, `"status":`...), int64(failure.Status), 10), ',')
	}
	meta = strconv.AppendBool(append(meta, `"retryable":`...), failure.Retryable(r.Tool))
	if failure.RetryAfter > 0 {
		meta = strconv.AppendInt(append(meta, `,"retryAfterMs":`...), failure.RetryAfter.Milliseconds(), 10)
	}
	if problem := problemOf(r.Result); problem != nil {
		meta = append(append(meta, `,"problem":`...), problem...)
	}
	meta = append(meta, '}')
	if needsLogin(failure, r.Result) {
		meta = x.appendChallenges(meta, r.Result)
	}
	return meta
}

// needsLogin reports whether a failure is one that a login mends: nobody is logged
// in, or with less than is needed (RFC 6750, section 3.1).
func needsLogin(failure *ocp.Failure, r *ocp.Result) bool {
	switch failure.Status {
	case http.StatusUnauthorized:
		return true
	case http.StatusForbidden:
		return r != nil && len(r.Header["Www-Authenticate"]) > 0
	}
	return false
}

// problemOf returns the answer if it is a problem document.
func problemOf(r *ocp.Result) []byte {
	if r == nil || r.MediaType() != "application/problem+json" || len(r.Body) > maxProblem {
		return nil
	}
	problem := bytes.TrimSpace(r.Body)
	if len(problem) == 0 || problem[0] != '{' || wire.Check(problem) != nil {
		return nil
	}
	return problem
}

// appendChallenges appends how to log in: as the API asks, or else to the
// authorization servers of this one.
func (x *exchange) appendChallenges(meta []byte, r *ocp.Result) []byte {
	var challenges []string
	if r != nil {
		challenges = r.Header["Www-Authenticate"]
	}
	if len(challenges) == 0 {
		if x.site.Access == nil || x.site.Access.Metadata == "" {
			return meta
		}
		challenges = []string{`Bearer error="invalid_token", resource_metadata=` + strconv.QuoteToASCII(x.site.Access.Metadata)}
	}
	shown := make([]string, min(len(challenges), maxChallenges))
	for i := range shown {
		shown[i] = clip(strings.TrimSpace(challenges[i]), maxChallenge)
	}
	meta = append(meta, `,"`+metaChallenges+`":`...)
	return wire.AppendString(meta, strings.Join(shown, ", "))
}
