package mcpadapter

import (
	"bytes"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/mcpadapter/internal/content"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/tools"
)

// maxErrorBody is how many bytes of the API's error response are shown to the model.
const maxErrorBody = 16 << 10

// answerFailure writes the result of a failed call: the failure's message and, if it is text, the
// body of the API's response. It leaves out HTML, which is meant for browsers. It writes no
// structuredContent, because clients validate that against the tool's outputSchema, which describes
// successful results only.
func (s *scope) answerFailure(w *response, r callResult) {
	b := w.result("complete", failureMeta(s.site, r))
	b = append(b, `"content":[`...)
	b = content.AppendText(b, r.Failure.Message)
	if r := r.Result; r != nil && r.MediaType() != "text/html" {
		switch content.FormOf(r) {
		case content.JSONForm, content.TextForm:
			b = append(b, ',')
			b = content.AppendText(b, text.Cut(string(r.Body[:min(len(r.Body), maxErrorBody+4)]), maxErrorBody))
		}
	}
	w.end(append(appendNote(b, r.Result), `],"isError":true`...))
}

// maxSchemaHint is the size of an input schema, in bytes, up to which errors repeat it.
const maxSchemaHint = 8 << 10

// schemaHint returns the schema of a tool that lists omit, for the end of an error about its arguments:
// the client may not know the schema.
func schemaHint(t *tools.Tool) string {
	if len(t.Definition.InputSchema) > maxSchemaHint {
		return "\nThe schema of its arguments is long; get it with " + string(tools.DescribeTools) + "."
	}
	return "\nThe schema of its arguments: " + string(t.AppendVisibleSchema(nil))
}

// unknownTool returns the fault for a tool name that does not exist. It suggests the most similar
// name among the tools that the client can see.
func (s *scope) unknownTool(name string) *protocol.Fault {
	if s.tools.Brief() {
		return protocol.BadParams("%s", s.tools.Unknown(name, s.allowed).Message)
	}
	var names []string
	for _, tool := range s.catalog().Visible {
		names = append(names, tool.Name)
	}
	if near := text.Nearest(name, slices.Values(names)); near != "" {
		return protocol.BadParams("unknown tool %q; did you mean %q?", text.Cut(name, text.MaxQuoted), near)
	}
	return protocol.BadParams("unknown tool %q; list the tools for the available names", text.Cut(name, text.MaxQuoted))
}

// Members of a result's _meta.
const (
	// metaHTTP describes a failed call in a machine-readable form:
	//
	//	{"status":429,"retryable":true,"retryAfterMs":30000,"problem":{…}}
	//
	// status is the status of the API's response, retryAfterMs its Retry-After, and problem its
	// problem document (RFC 9457). reason says why a call with an idempotency key has no result.
	// Members without a value are omitted, except retryable.
	metaHTTP = "io.github.fairwayhq/http"

	// metaChallenges carries the WWW-Authenticate challenges for hosts of MCP Apps, which then ask
	// the user to log in. All challenges are joined into one string, as in one header line.
	metaChallenges = "mcp/www_authenticate"
)

const (
	maxProblem    = 16 << 10 // bytes of a problem document in _meta
	maxChallenges = 4        // challenges in _meta
	maxChallenge  = 2 << 10  // bytes of each challenge
)

// failureMeta returns the members of _meta for a failed call of the site.
func failureMeta(site *Site, r callResult) []byte {
	meta := strictjson.Comma(r.contextMeta())
	failure := r.Failure
	meta = append(meta, `"`+metaHTTP+`":{`...)
	if failure.Status != 0 {
		meta = append(strconv.AppendInt(append(meta, `"status":`...), int64(failure.Status), 10), ',')
	}
	meta = strconv.AppendBool(append(meta, `"retryable":`...), failure.Retryable(r.Tool))
	if failure.RetryAfter > 0 {
		meta = strconv.AppendInt(append(meta, `,"retryAfterMs":`...), failure.RetryAfter.Milliseconds(), 10)
	}
	if strings.HasPrefix(string(failure.Kind), "idempotency_") {
		meta = append(append(append(meta, `,"reason":"`...), failure.Kind...), '"')
	}
	if problem := problemOf(r.Result); problem != nil {
		meta = append(append(meta, `,"problem":`...), problem...)
	}
	meta = append(meta, '}')
	if needsLogin(failure, r.Result) {
		meta = appendChallenges(meta, site.Access, r.Result)
	}
	return meta
}

// needsLogin reports whether a login can fix the failure: the caller is not authenticated, or the
// token has too few scopes (RFC 6750, section 3.1).
func needsLogin(failure *tools.Failure, r *tools.Result) bool {
	if failure.Kind == tools.Unauthorized {
		return true
	}
	switch failure.Status {
	case http.StatusUnauthorized:
		return !failure.Renewed
	case http.StatusForbidden:
		return r != nil && len(r.Header["Www-Authenticate"]) > 0
	}
	return false
}

// problemOf returns the response body if it is a problem document, otherwise nil.
func problemOf(r *tools.Result) []byte {
	if r == nil || r.MediaType() != "application/problem+json" || len(r.Body) > maxProblem {
		return nil
	}
	problem := bytes.TrimSpace(r.Body)
	if len(problem) == 0 || problem[0] != '{' || strictjson.Check(problem) != nil {
		return nil
	}
	return problem
}

// appendChallenges appends the challenges of the API's response. If the API sent none, it appends a
// challenge that points to the authorization servers of this site, if the site has any.
func appendChallenges(meta []byte, access *Access, r *tools.Result) []byte {
	var challenges []string
	if r != nil {
		challenges = r.Header["Www-Authenticate"]
	}
	if len(challenges) == 0 {
		if access == nil || access.Metadata == "" {
			return meta
		}
		challenges = []string{`Bearer error="invalid_token", resource_metadata=` + strconv.QuoteToASCII(access.Metadata)}
	}
	shown := make([]string, min(len(challenges), maxChallenges))
	for i := range shown {
		shown[i] = text.Cut(strings.TrimSpace(challenges[i]), maxChallenge)
	}
	meta = append(meta, `,"`+metaChallenges+`":`...)
	return strictjson.AppendString(meta, strings.Join(shown, ", "))
}
