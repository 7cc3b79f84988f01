package oagent

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/fairwayhq/fairway/caddymodule/oagent/agentset"
	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/ocp/match"
)

// maxHintSegments is the maximum number of path segments for which a hint is searched.
const maxHintSegments = 16

// maxHint is the maximum length of a path in a hint, in bytes.
const maxHint = 256

// operationReader finds the operation of a guarded request and its arguments. For a tool call,
// both are known; for a plain request they are read from the request.
type operationReader struct{ *guardedRequest }

// refuseUnmatched refuses a request that matches no operation, or several.
func (q operationReader) refuseUnmatched(err error) *refusalError {
	if ambiguous, ok := errors.AsType[*match.AmbiguousError](err); ok {
		return q.refuse(kindAmbiguous, 0, "", "the request was refused: "+ambiguous.Reason, err)
	}
	message := "the request was refused: it matches no operation of the API's document"
	if meant := q.withEncodedSlash(); meant != "" {
		message += fmt.Sprintf("; encode a slash in a parameter as %%2F, as in %s", text.Cut(meant, maxHint))
	}
	return q.refuse(kindUnknownOperation, 0, "", message, err)
}

// withEncodedSlash helps clients that forgot to encode a slash in a path parameter. It returns
// the path that matches an operation if consecutive slashes of the request's path are encoded,
// as few as possible. It returns "" if there is none.
func (q operationReader) withEncodedSlash() string {
	segments := strings.Split(q.r.URL.EscapedPath(), "/")
	if len(segments)-1 > maxHintSegments {
		return ""
	}
	for slashes := 1; slashes < len(segments)-1; slashes++ {
		for first := 1; first+slashes < len(segments); first++ {
			behind := first + slashes + 1
			joined := strings.Join(segments[first:behind], "%2F")
			path := strings.Join(append(append(segments[:first:first], joined), segments[behind:]...), "/")
			if q.agents.Routes.Tool(q.r.Method, path) != nil && q.matches(path) {
				return path
			}
		}
	}
	return ""
}

// matches reports whether the request would match one operation at this escaped path.
func (q operationReader) matches(path string) bool {
	plain, err := url.PathUnescape(path)
	if err != nil {
		return false
	}
	r, u := q.r.WithContext(q.r.Context()), *q.r.URL
	u.Path, u.RawPath = plain, path
	r.URL = &u
	_, err = q.agents.Routes.Match(r)
	return err == nil
}

// read finds the operation and its arguments.
func (q operationReader) read() *refusalError {
	if q.call != nil {
		return q.readCall()
	}
	if !q.agents.Loaded {
		return q.refuse(kindUnavailable, http.StatusServiceUnavailable, "",
			"the request was refused: the OpenAPI document of the API is not loaded yet; try again later", nil)
	}
	tool, err := q.agents.Routes.Match(q.r)
	if err != nil {
		return q.refuseUnmatched(err)
	}
	q.setOperation(q.agents.Operation(tool, ""))
	return q.readPlain()
}

func (q operationReader) setOperation(op *agentset.Operation) {
	q.operation, q.name = op, op.Name
	if q.capability = q.agent.Capabilities[op]; q.capability != nil {
		q.name = q.capability.Reference.Name
	}
}

// readCall gets the arguments of a tool call.
func (q operationReader) readCall() *refusalError {
	toolset := ""
	if q.repl != nil {
		toolset, _ = q.repl.GetString("http.tool.toolset")
	}
	op := q.agents.Operation(q.call.Tool, toolset)
	if op == nil {
		return q.refuse(kindUnknownOperation, 0, "", fmt.Sprintf("the call of %s was not made: its toolset is not available to the agents of this site", q.call.Tool.Name), nil)
	}
	q.setOperation(op)
	if refusal := q.checkBuilt(); refusal != nil {
		return refusal
	}
	if op.Overridable {
		// The caller's own headers and cookies are sent to the API with the arguments and
		// could override them, so the arguments are read back from the request.
		return q.readPlain()
	}
	if err := match.CheckNames(q.call); err != nil {
		return q.refuse(kindUnreadable, 0, "", fmt.Sprintf("the call of %s was not made: its arguments cannot be parsed: %s", q.name, err), err)
	}
	q.inputs = q.call.AppendArguments(nil)
	return nil
}

// checkBuilt refuses a call whose request matches another operation than the one that was
// called. For example, get-trip with the id "latest" has the path of latest-trip, if there is
// such an operation.
func (q operationReader) checkBuilt() *refusalError {
	tool, err := q.agents.Routes.MatchCall(q.r, q.call.Tool)
	if err != nil {
		if errors.Is(err, match.ErrNoOperation) && !slices.Contains(q.handler.toolsets, q.operation.Toolset) {
			return nil // plain requests are not matched to the operations of this toolset
		}
		return q.refuseUnmatched(err)
	}
	other := q.agents.Operation(tool, "")
	if other == q.operation || tool.Method == q.call.Tool.Method && tool.Path == q.call.Tool.Path {
		return nil
	}
	return q.refuse(kindAmbiguous, 0, "", fmt.Sprintf(
		"the call of %s was not made: with these arguments, its request matches operation %s; call that operation instead", q.name, other.Name), nil)
}

// readPlain parses the arguments from the request, and restores the body.
func (q operationReader) readPlain() *refusalError {
	body, refusal := q.readBody()
	if refusal != nil {
		return refusal
	}
	tool := q.operation.Tool
	if q.call != nil {
		tool = q.call.Tool
	}
	read := match.ReadDeclared
	if q.handler.Undeclared == undeclaredAllow {
		read = match.ReadRequest
	}
	inputs, err := read(tool, q.withoutInjected(), body, q.operation.CredentialQueries...)
	if e, ok := errors.AsType[*match.RequestError](err); ok && e.Kind == match.UndeclaredName {
		return q.refuse(kindUndeclared, 0, "", fmt.Sprintf("the call of %s was not made: %s", q.name, e.Message), err)
	}
	if err != nil {
		return q.refuse(kindUnreadable, 0, "", fmt.Sprintf("the call of %s was not made: the request cannot be parsed: %s", q.name, err), err)
	}
	q.inputs = inputs
	return nil
}

// readBody reads the whole body and restores it.
func (q operationReader) readBody() ([]byte, *refusalError) {
	if q.r.Body == nil || q.r.Body == http.NoBody {
		return nil, nil
	}
	tooLarge := func() *refusalError {
		return q.refuse(kindTooLarge, http.StatusRequestEntityTooLarge, "", fmt.Sprintf(
			"the request was refused: its body is larger than %s; the operator can raise max_input",
			humanize.IBytes(uint64(q.handler.MaxInput))), nil)
	}
	if q.r.ContentLength > q.handler.MaxInput {
		return nil, tooLarge()
	}
	var content buffer.Buffer
	if q.r.ContentLength > 0 {
		content.B = make([]byte, 0, q.r.ContentLength+1)
	}
	var err error
	if q.r.ContentLength != 0 { // otherwise the next handlers get http.NoBody
		err = content.ReadAll(q.r.Body, q.handler.MaxInput)
	}
	_ = q.r.Body.Close()
	switch {
	case errors.Is(err, buffer.ErrTooLarge):
		return nil, tooLarge()
	case err != nil:
		return nil, q.refuse(engagement.KindInvalid, http.StatusBadRequest, "", "the request was refused: its body is incomplete", err)
	}
	q.r.ContentLength, q.r.TransferEncoding, q.r.Trailer = int64(len(content.B)), nil, nil
	delete(q.r.Header, "Trailer")
	if q.r.Body = http.NoBody; len(content.B) > 0 {
		q.r.Body = io.NopCloser(bytes.NewReader(content.B))
		q.r.Header["Content-Length"] = []string{strconv.Itoa(len(content.B))}
	}
	return content.B, nil
}

// withoutInjected returns the request for checks and for the record: without the credentials and
// headers that the gateway injected for the toolset. They are not inputs, and the caller's
// values that they replaced do not reach the API.
func (q operationReader) withoutInjected() *http.Request {
	if q.rec == nil || q.rec.ToolsetCredentials == nil {
		return q.r
	}
	r, target := *q.r, *q.r.URL
	r.URL, r.Header = &target, q.r.Header.Clone()
	q.rec.ToolsetCredentials.Remove(&r)
	return &r
}
