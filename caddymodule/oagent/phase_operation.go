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
	"time"

	"github.com/dustin/go-humanize"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/caddymodule/internal/agentset"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/respond"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/tools/match"
	"github.com/fairwayhq/fairway/tools/plainrequest"
)

// requestedOperation is what a request asks for: the operation of the API, and its arguments.
type requestedOperation struct {
	operation  *agentset.Operation // nil if the request was refused before it was found
	capability *oagent.Capability  // nil if the agent may not call the operation
	name       string              // the operation's name in agent documents
	inputs     jsontext.Value
	release    func() // returns the memory of the body; nil if it does not count
}

// readOperation is the third phase: it finds the operation of a request and its arguments. For a tool call,
// both are known; for a plain request they are read from the request.
func readOperation(q request, c caller) (requestedOperation, *refusalError) {
	p := operationReader{request: q, caller: c}
	refusal := p.read()
	return p.found, refusal
}

// operationReader reads the operation of a request.
type operationReader struct {
	request request
	caller  caller
	found   requestedOperation
}

// maxHintSegments is the maximum number of path segments for which a hint is searched.
const maxHintSegments = 16

// maxHint is the maximum length of a path in a hint, in bytes.
const maxHint = 256

// refuseUnmatched refuses a request that matches no operation, or several.
func (p *operationReader) refuseUnmatched(err error) *refusalError {
	if ambiguous, ok := errors.AsType[*match.AmbiguousError](err); ok {
		return refuse(kindAmbiguous, 0, "", "the request was refused: "+ambiguous.Reason, err)
	}
	message := "the request was refused: it matches no operation of the API's document"
	if meant := p.withEncodedSlash(); meant != "" {
		message += fmt.Sprintf("; encode a slash in a parameter as %%2F, as in %s", text.Cut(meant, maxHint))
	}
	return refuse(kindUnknownOperation, 0, "", message, err)
}

// withEncodedSlash helps clients that forgot to encode a slash in a path parameter. It returns
// the path that matches an operation if consecutive slashes of the request's path are encoded,
// as few as possible. It returns "" if there is none.
func (p *operationReader) withEncodedSlash() string {
	segments := strings.Split(p.request.r.URL.EscapedPath(), "/")
	if len(segments)-1 > maxHintSegments {
		return ""
	}
	for slashes := 1; slashes < len(segments)-1; slashes++ {
		for first := 1; first+slashes < len(segments); first++ {
			behind := first + slashes + 1
			joined := strings.Join(segments[first:behind], "%2F")
			path := strings.Join(append(append(segments[:first:first], joined), segments[behind:]...), "/")
			if p.caller.agents.Routes.Tool(p.request.r.Method, path) != nil && p.matches(path) {
				return path
			}
		}
	}
	return ""
}

// matches reports whether the request would match one operation at this escaped path.
func (p *operationReader) matches(path string) bool {
	plain, err := url.PathUnescape(path)
	if err != nil {
		return false
	}
	r, u := p.request.r.WithContext(p.request.r.Context()), *p.request.r.URL
	u.Path, u.RawPath = plain, path
	r.URL = &u
	_, err = p.caller.agents.Routes.Match(r)
	return err == nil
}

// read finds the operation and its arguments.
func (p *operationReader) read() *refusalError {
	if p.request.call != nil {
		return p.readCall()
	}
	if !p.caller.agents.Loaded {
		return refuse(kindUnavailable, http.StatusServiceUnavailable, "",
			"the request was refused: the OpenAPI document of the API is not loaded yet; try again later", nil)
	}
	tool, err := p.caller.agents.Routes.Match(p.request.r)
	if err != nil {
		return p.refuseUnmatched(err)
	}
	p.setOperation(p.caller.agents.Operation(tool, ""))
	return p.readPlain()
}

func (p *operationReader) setOperation(op *agentset.Operation) {
	p.found.operation, p.found.name = op, op.Name
	if p.found.capability = p.caller.agent.Capabilities[op]; p.found.capability != nil {
		p.found.name = p.found.capability.Reference.Name
	}
}

// readCall gets the arguments of a tool call.
func (p *operationReader) readCall() *refusalError {
	toolset := ""
	if p.request.repl != nil {
		toolset, _ = p.request.repl.GetString("http.tool.toolset")
	}
	op := p.caller.agents.Operation(p.request.call.Tool, toolset)
	if op == nil {
		return refuse(kindUnknownOperation, 0, "", fmt.Sprintf("the call of %s was not made: its toolset is not available to the agents of this site", p.request.call.Tool.Name), nil)
	}
	p.setOperation(op)
	if refusal := p.checkBuilt(); refusal != nil {
		return refusal
	}
	// The contents of uploaded files must not become inputs. A call with files has no headers of the caller that could override arguments.
	files := p.request.call.Files != nil
	if files && p.request.call.Undeclared() && p.request.handler.Undeclared != undeclaredAllow {
		return refuse(kindUndeclared, 0, "", fmt.Sprintf("the call of %s was not made: beside an uploaded file, it takes only properties that the document names", p.found.name), nil)
	}
	if !files && (op.Overridable || p.request.call.Undeclared()) {
		// The caller's own headers and cookies are sent to the API with the arguments and
		// could override them, so the arguments are read back from the request. Properties that
		// the document does not name are decided about as in a plain request.
		return p.readPlain()
	}
	if err := p.caller.agents.Routes.CheckNames(p.request.call); err != nil {
		return refuse(kindUnreadable, 0, "", fmt.Sprintf("the call of %s was not made: its arguments cannot be parsed: %s", p.found.name, err), err)
	}
	p.found.inputs = p.request.call.AppendArguments(nil)
	return nil
}

// checkBuilt refuses a call whose request matches another operation than the one that was
// called. For example, get-trip with the id "latest" has the path of latest-trip, if there is
// such an operation.
func (p *operationReader) checkBuilt() *refusalError {
	tool, err := p.caller.agents.Routes.MatchCall(p.request.r, p.request.call.Tool)
	if err != nil {
		if errors.Is(err, match.ErrNoOperation) && !slices.Contains(p.request.handler.Matched, p.found.operation.Toolset) {
			return nil // plain requests are not matched to the operations of this toolset
		}
		return p.refuseUnmatched(err)
	}
	other := p.caller.agents.Operation(tool, "")
	if other == p.found.operation || tool.Plan.Method == p.request.call.Tool.Plan.Method && tool.Plan.Path == p.request.call.Tool.Plan.Path {
		return nil
	}
	return refuse(kindAmbiguous, 0, "", fmt.Sprintf(
		"the call of %s was not made: with these arguments, its request matches operation %s; call that operation instead", p.found.name, other.Name), nil)
}

// readPlain parses the arguments from the request, and sets the body to forward.
func (p *operationReader) readPlain() *refusalError {
	body, refusal := p.readBody()
	if refusal != nil {
		return refusal
	}
	tool := p.found.operation.Tool
	if p.request.call != nil {
		tool = p.request.call.Tool
	}
	read := p.caller.agents.Routes.ReadDeclared
	if p.request.handler.Undeclared == undeclaredAllow {
		read = p.caller.agents.Routes.ReadRequest
	}
	var inputs jsontext.Value
	body, err := plainrequest.Rewrite(tool, p.request.r, body)
	if err == nil {
		p.setBody(body)
		inputs, err = read(tool, p.withoutInjected(), body, p.found.operation.CredentialQueries...)
	}
	if e, ok := errors.AsType[*match.RequestError](err); ok && e.Kind == plainrequest.UndeclaredName {
		return refuse(kindUndeclared, 0, "", fmt.Sprintf("the call of %s was not made: %s", p.found.name, e.Message), err)
	}
	if err != nil {
		return refuse(kindUnreadable, 0, "", fmt.Sprintf("the call of %s was not made: the request cannot be parsed: %s", p.found.name, err), err)
	}
	p.found.inputs = inputs
	return nil
}

// readBody reads the whole body.
func (p *operationReader) readBody() ([]byte, *refusalError) {
	r, limit := p.request.r, p.request.handler.MaxInput
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	if p.request.call == nil { // the body of a tool call is a part of a body that counts
		p.found.release = route.BoundBody(p.request.handler.app, r)
	}
	tooLarge := func() *refusalError {
		return refuse(kindTooLarge, http.StatusRequestEntityTooLarge, "", fmt.Sprintf(
			"the request was refused: its body is larger than %s; the operator can raise max_input",
			humanize.IBytes(uint64(limit))), nil)
	}
	if r.ContentLength > limit {
		return nil, tooLarge()
	}
	var content buffer.Buffer
	if r.ContentLength > 0 {
		content.B = make([]byte, 0, r.ContentLength+1)
	}
	var err error
	if r.ContentLength != 0 { // an empty body is not read: setBody replaces it
		err = content.ReadAll(r.Body, limit)
	}
	if err == nil { // the server takes a closed body for one that was read, and would read the rest as the next request
		_ = r.Body.Close()
	}
	switch {
	case errors.Is(err, buffer.ErrTooLarge):
		return nil, tooLarge()
	case err != nil:
		if status, message := respond.BodyFailure(err); status != 0 {
			refusal := refuse(kindBody, status, "", "the request was refused: "+message, err)
			refusal.RetryAfter = time.Second
			return nil, refusal
		}
		return nil, refuse(engagement.KindInvalid, http.StatusBadRequest, "", "the request was refused: its body is incomplete", err)
	}
	return content.B, nil
}

// setBody sets the body to forward.
func (p *operationReader) setBody(content []byte) {
	r := p.request.r
	r.ContentLength, r.TransferEncoding, r.Trailer = int64(len(content)), nil, nil
	delete(r.Header, "Trailer")
	r.Body = http.NoBody
	if len(content) > 0 {
		r.Body = io.NopCloser(bytes.NewReader(content))
		r.Header["Content-Length"] = []string{strconv.Itoa(len(content))}
	}
}

// withoutInjected returns the request for checks and for the record: without the credentials and
// headers that the gateway injected for the toolset. They are not inputs, and the caller's
// values that they replaced do not reach the API.
func (p *operationReader) withoutInjected() *http.Request {
	if p.request.rec == nil || p.request.rec.ToolsetCredentials == nil {
		return p.request.r
	}
	r, target := *p.request.r, *p.request.r.URL
	r.URL, r.Header = &target, p.request.r.Header.Clone()
	p.request.rec.ToolsetCredentials.Remove(&r)
	return &r
}
