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
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/caddymodule/internal/agentset"
	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/tools/match"
)

// requestedOperation is what a request asks for: the operation of the API, and its arguments.
type requestedOperation struct {
	operation  *agentset.Operation // nil until it is found
	capability *oagent.Capability  // nil if the agent may not call the operation
	name       string              // the operation's name in agent documents
	inputs     jsontext.Value
}

// maxHintSegments is the maximum number of path segments for which a hint is searched.
const maxHintSegments = 16

// maxHint is the maximum length of a path in a hint, in bytes.
const maxHint = 256

// operationReader is the second phase: it finds the operation of a request and its arguments. For a tool call,
// both are known; for a plain request they are read from the request.
type operationReader struct{ d *decision }

// refuseUnmatched refuses a request that matches no operation, or several.
func (q operationReader) refuseUnmatched(err error) *refusalError {
	if ambiguous, ok := errors.AsType[*match.AmbiguousError](err); ok {
		return q.d.refuse(kindAmbiguous, 0, "", "the request was refused: "+ambiguous.Reason, err)
	}
	message := "the request was refused: it matches no operation of the API's document"
	if meant := q.withEncodedSlash(); meant != "" {
		message += fmt.Sprintf("; encode a slash in a parameter as %%2F, as in %s", text.Cut(meant, maxHint))
	}
	return q.d.refuse(kindUnknownOperation, 0, "", message, err)
}

// withEncodedSlash helps clients that forgot to encode a slash in a path parameter. It returns
// the path that matches an operation if consecutive slashes of the request's path are encoded,
// as few as possible. It returns "" if there is none.
func (q operationReader) withEncodedSlash() string {
	segments := strings.Split(q.d.r.URL.EscapedPath(), "/")
	if len(segments)-1 > maxHintSegments {
		return ""
	}
	for slashes := 1; slashes < len(segments)-1; slashes++ {
		for first := 1; first+slashes < len(segments); first++ {
			behind := first + slashes + 1
			joined := strings.Join(segments[first:behind], "%2F")
			path := strings.Join(append(append(segments[:first:first], joined), segments[behind:]...), "/")
			if q.d.agents.Routes.Tool(q.d.r.Method, path) != nil && q.matches(path) {
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
	r, u := q.d.r.WithContext(q.d.r.Context()), *q.d.r.URL
	u.Path, u.RawPath = plain, path
	r.URL = &u
	_, err = q.d.agents.Routes.Match(r)
	return err == nil
}

// read finds the operation and its arguments.
func (q operationReader) read() *refusalError {
	if q.d.call != nil {
		return q.readCall()
	}
	if !q.d.agents.Loaded {
		return q.d.refuse(kindUnavailable, http.StatusServiceUnavailable, "",
			"the request was refused: the OpenAPI document of the API is not loaded yet; try again later", nil)
	}
	tool, err := q.d.agents.Routes.Match(q.d.r)
	if err != nil {
		return q.refuseUnmatched(err)
	}
	q.setOperation(q.d.agents.Operation(tool, ""))
	return q.readPlain()
}

func (q operationReader) setOperation(op *agentset.Operation) {
	q.d.operation, q.d.name = op, op.Name
	if q.d.capability = q.d.agent.Capabilities[op]; q.d.capability != nil {
		q.d.name = q.d.capability.Reference.Name
	}
}

// readCall gets the arguments of a tool call.
func (q operationReader) readCall() *refusalError {
	toolset := ""
	if q.d.repl != nil {
		toolset, _ = q.d.repl.GetString("http.tool.toolset")
	}
	op := q.d.agents.Operation(q.d.call.Tool, toolset)
	if op == nil {
		return q.d.refuse(kindUnknownOperation, 0, "", fmt.Sprintf("the call of %s was not made: its toolset is not available to the agents of this site", q.d.call.Tool.Name), nil)
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
	if err := q.d.agents.Routes.CheckNames(q.d.call); err != nil {
		return q.d.refuse(kindUnreadable, 0, "", fmt.Sprintf("the call of %s was not made: its arguments cannot be parsed: %s", q.d.name, err), err)
	}
	q.d.inputs = q.d.call.AppendArguments(nil)
	return nil
}

// checkBuilt refuses a call whose request matches another operation than the one that was
// called. For example, get-trip with the id "latest" has the path of latest-trip, if there is
// such an operation.
func (q operationReader) checkBuilt() *refusalError {
	tool, err := q.d.agents.Routes.MatchCall(q.d.r, q.d.call.Tool)
	if err != nil {
		if errors.Is(err, match.ErrNoOperation) && !slices.Contains(q.d.handler.toolsets, q.d.operation.Toolset) {
			return nil // plain requests are not matched to the operations of this toolset
		}
		return q.refuseUnmatched(err)
	}
	other := q.d.agents.Operation(tool, "")
	if other == q.d.operation || tool.Plan.Method == q.d.call.Tool.Plan.Method && tool.Plan.Path == q.d.call.Tool.Plan.Path {
		return nil
	}
	return q.d.refuse(kindAmbiguous, 0, "", fmt.Sprintf(
		"the call of %s was not made: with these arguments, its request matches operation %s; call that operation instead", q.d.name, other.Name), nil)
}

// readPlain parses the arguments from the request, and sets the body to forward.
func (q operationReader) readPlain() *refusalError {
	body, refusal := q.readBody()
	if refusal != nil {
		return refusal
	}
	tool := q.d.operation.Tool
	if q.d.call != nil {
		tool = q.d.call.Tool
	}
	read := q.d.agents.Routes.ReadDeclared
	if q.d.handler.Undeclared == undeclaredAllow {
		read = q.d.agents.Routes.ReadRequest
	}
	var inputs jsontext.Value
	body, err := match.Rewrite(tool, q.d.r, body)
	if err == nil {
		q.setBody(body)
		inputs, err = read(tool, q.withoutInjected(), body, q.d.operation.CredentialQueries...)
	}
	if e, ok := errors.AsType[*match.RequestError](err); ok && e.Kind == match.UndeclaredName {
		return q.d.refuse(kindUndeclared, 0, "", fmt.Sprintf("the call of %s was not made: %s", q.d.name, e.Message), err)
	}
	if err != nil {
		return q.d.refuse(kindUnreadable, 0, "", fmt.Sprintf("the call of %s was not made: the request cannot be parsed: %s", q.d.name, err), err)
	}
	q.d.inputs = inputs
	return nil
}

// readBody reads the whole body.
func (q operationReader) readBody() ([]byte, *refusalError) {
	if q.d.r.Body == nil || q.d.r.Body == http.NoBody {
		return nil, nil
	}
	tooLarge := func() *refusalError {
		return q.d.refuse(kindTooLarge, http.StatusRequestEntityTooLarge, "", fmt.Sprintf(
			"the request was refused: its body is larger than %s; the operator can raise max_input",
			humanize.IBytes(uint64(q.d.handler.MaxInput))), nil)
	}
	if q.d.r.ContentLength > q.d.handler.MaxInput {
		return nil, tooLarge()
	}
	var content buffer.Buffer
	if q.d.r.ContentLength > 0 {
		content.B = make([]byte, 0, q.d.r.ContentLength+1)
	}
	var err error
	if q.d.r.ContentLength != 0 { // otherwise the next handlers get http.NoBody
		err = content.ReadAll(q.d.r.Body, q.d.handler.MaxInput)
	}
	_ = q.d.r.Body.Close()
	switch {
	case errors.Is(err, buffer.ErrTooLarge):
		return nil, tooLarge()
	case err != nil:
		return nil, q.d.refuse(engagement.KindInvalid, http.StatusBadRequest, "", "the request was refused: its body is incomplete", err)
	}
	return content.B, nil
}

// setBody sets the body to forward.
func (q operationReader) setBody(content []byte) {
	q.d.r.ContentLength, q.d.r.TransferEncoding, q.d.r.Trailer = int64(len(content)), nil, nil
	delete(q.d.r.Header, "Trailer")
	if q.d.r.Body = http.NoBody; len(content) > 0 {
		q.d.r.Body = io.NopCloser(bytes.NewReader(content))
		q.d.r.Header["Content-Length"] = []string{strconv.Itoa(len(content))}
	}
}

// withoutInjected returns the request for checks and for the record: without the credentials and
// headers that the gateway injected for the toolset. They are not inputs, and the caller's
// values that they replaced do not reach the API.
func (q operationReader) withoutInjected() *http.Request {
	if q.d.rec == nil || q.d.rec.ToolsetCredentials == nil {
		return q.d.r
	}
	r, target := *q.d.r, *q.d.r.URL
	r.URL, r.Header = &target, q.d.r.Header.Clone()
	q.d.rec.ToolsetCredentials.Remove(&r)
	return &r
}
