package mcpadapter

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/nearest"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/mcpadapter/elicit"
	"github.com/fairwayhq/fairway/mcpadapter/internal/catalog"
	"github.com/fairwayhq/fairway/mcpadapter/internal/content"
	"github.com/fairwayhq/fairway/mcpadapter/internal/jsonrpc"
	"github.com/fairwayhq/fairway/mcpadapter/internal/negotiation"
	"github.com/fairwayhq/fairway/mcpadapter/internal/outputschema"
	"github.com/fairwayhq/fairway/mcpadapter/library"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// maxErrorBody is how many bytes of the API's error response are shown to the model.
const maxErrorBody = 16 << 10

// A toolRequest is a request of tools/call.
type toolRequest struct{ *message }

// callTool serves tools/call. A failed call is a result with isError, not a JSON-RPC error, so that
// the model can read the reason and try again (MCP, Tools, Error Handling). This includes invalid
// arguments, in every revision. JSON-RPC errors are used only for the following:
//
//   - params of the wrong type, or an invalid requestState
//   - an unknown tool
//   - a header that contradicts an argument
//   - a scope that the access token lacks, or a capability that the client lacks (2026-07-28)
//   - an error that the API returns as a native MCP result
func (q toolRequest) callTool() *jsonrpc.Fault {
	if q.params.name.Kind() != '"' {
		tool.RecordCall(q.caller, nil, string(tool.InvalidArguments))
		return jsonrpc.BadParams("params.name must be a string that names a tool, not %s", wire.KindName(q.params.name.Kind()))
	}
	switch q.params.arguments.Kind() {
	case 0, 'n', '{':
	default:
		tool.RecordCall(q.caller, nil, string(tool.InvalidArguments))
		return jsonrpc.BadParams("params.arguments must be an object, not %s", wire.KindName(q.params.arguments.Kind()))
	}
	c, name := q.wholeCatalog().CallableNamed(q.params.name)
	arguments := q.params.arguments
	resolved := c != nil && c.Stands
	if resolved {
		var failure *tool.Failure
		if c, arguments, failure = q.resolve(c); failure != nil {
			q.answerFailure(reply{Reply: elicit.Reply{Outcome: tool.Outcome{Failure: failure}}})
			return nil
		}
		name = c.Tool.Name
	}
	if c != nil && c.Hidden {
		tool.RecordCall(q.caller, nil, string(tool.UnknownTool))
		return q.unknownTool(name)
	}
	if c != nil && len(c.Headers) > 0 && q.version.Stateless() && q.header != nil {
		headers := c.Headers
		if resolved {
			headers = negotiation.SentHeaders(headers, q.header)
		}
		if f := negotiation.CheckArguments(headers, q.header, arguments); f != nil {
			tool.RecordCall(q.caller, c.Tool, string(tool.InvalidArguments))
			return f
		}
	}
	// Clone copies the arguments out of the pooled body: parts of the inner request may refer to
	// them after the call is over.
	i := invocation{method: "tools/call", target: name, name: name, callable: c, arguments: arguments.Clone()}
	if q.server.tasks != nil {
		if served, f := q.callAsTask(i); served {
			return f
		}
	}
	r, f := q.invoke(i)
	if f != nil {
		return f
	}
	defer r.Release()
	return q.answer(c, name, r)
}

// answer writes the result of a call.
func (q toolRequest) answer(c *catalog.Callable, name string, r reply) *jsonrpc.Fault {
	switch {
	case r.InputRequired != nil:
		q.writeInputRequired(r)
	case r.Failure != nil && r.Failure.Kind == tool.UnknownTool:
		return q.unknownTool(name)
	case r.Failure != nil:
		if c.Brief && r.Failure.Kind == tool.InvalidArguments {
			r.Failure.Message += schemaHint(c.Tool)
		}
		q.answerFailure(r)
	case r.Native != nil:
		q.answerNative(r)
	default:
		q.answerSuccess(c, r)
	}
	return nil
}

// resolve returns the tool that a call of the built-in tool c stands for, and its arguments.
func (q toolRequest) resolve(c *catalog.Callable) (called *catalog.Callable, arguments jsontext.Value, failure *tool.Failure) {
	t, arguments, failure := q.tools.Resolve(c.Tool, q.params.arguments, q.allowed)
	if failure == nil {
		if called = q.wholeCatalog().Callable(t.Name); !called.Hidden {
			return called, arguments, nil
		}
		failure = q.tools.Unknown(t.Name, q.allowed)
	}
	tool.RecordCall(q.caller, c.Tool, string(failure.Kind))
	return nil, nil, failure
}

// allowed reports whether the client can see and call a tool.
func (q toolRequest) allowed(t *tool.Tool) bool {
	return !library.IsHidden(t) && q.site.Access.Missing(t, q.tools) == nil
}

// maxSchemaHint is the size of an input schema, in bytes, up to which errors repeat it.
const maxSchemaHint = 8 << 10

// schemaHint returns the end of the error about arguments of a tool that lists leave out: its schema,
// which the client may not know.
func schemaHint(t *tool.Tool) string {
	if len(t.InputSchema) > maxSchemaHint {
		return "\nThe schema of its arguments is long: get it with " + string(tool.DescribeTools) + "."
	}
	return "\nThe schema of its arguments: " + string(elicit.AppendVisibleSchema(nil, t))
}

// unknownTool returns the fault for a tool name that does not exist. It suggests the most similar
// name among the tools that the client can see.
func (q toolRequest) unknownTool(name string) *jsonrpc.Fault {
	if q.tools.Brief() {
		return jsonrpc.BadParams("%s", q.tools.Unknown(name, q.allowed).Message)
	}
	near := nearest.Name(name, func(yield func(string) bool) {
		for _, tool := range q.catalog().Visible {
			if !yield(tool.Name) {
				return
			}
		}
	})
	if near != "" {
		return jsonrpc.BadParams("unknown tool %q; did you mean %q?", text.Cut(name, text.MaxQuoted), near)
	}
	return jsonrpc.BadParams("unknown tool %q; list the tools to see which there are", text.Cut(name, text.MaxQuoted))
}

// answerSuccess writes the result of a successful call: the response body as content, and once more
// as structuredContent if it is JSON that the revision allows there.
func (q toolRequest) answerSuccess(c *catalog.Callable, r reply) {
	form := content.FormOf(r.Result)
	var output outputschema.Output
	if c != nil {
		output = c.Output[q.version]
	}
	if output.Strict {
		if err := outputschema.Check(r.Tool, r.Result, form == content.JSONForm); err != nil {
			r.Failure = &tool.Failure{Kind: tool.Unreadable, Message: err.Error()}
			tool.AmendCall(q.caller, string(tool.Unreadable))
			q.answerFailure(r)
			return
		}
	}
	structured := form == content.JSONForm && output.Structures(r.Result.Body, q.version)
	q.reserve(r.Result, structured)
	b := q.appendResultHead(q.beginResult(), "complete", appendNext(r.contextMeta(), r.Result))
	b = append(b, `"content":[`...)
	var value []byte
	if structured {
		b, value = content.AppendJSON(b, r.Result.Body)
	} else {
		b = content.AppendResponse(b, form, r.Outcome, q.tools, q.version)
	}
	if content.HasLinks(r.Result) {
		links := q.links(r.Tool)
		b = links.AppendTo(b, r.Result)
	}
	b = append(appendNote(b, r.Result), ']')
	before := len(b)
	b = output.AppendValue(b, value, q.version)
	if size := len(b) - before; size > advisedStructure {
		q.server.noteLargeStructure(r.Tool, size)
	}
	q.out.B = append(b, "}}"...)
}

// links returns the writer of links in responses of a tool.
func (m *message) links(t *tool.Tool) content.Links {
	return content.Links{Version: m.version, Origin: m.tools.PartOf(t).Origin, ResourceAt: func(path string) (uri, name string, ok bool) {
		return m.catalog().Index().ResourceAt(t, path)
	}}
}

// largeBody is the size of a body, in bytes, from which the output buffer is sized for it at once.
const largeBody = 2 << 10

// reserve makes room for a body as text and, if structured is set, once more as structuredContent.
func (q toolRequest) reserve(r *tool.Result, structured bool) {
	if r == nil || len(r.Body) < largeBody {
		return
	}
	size := wire.EscapedSize(r.Body) + largeBody
	if structured {
		size += len(r.Body)
	}
	q.out.Grow(size)
}

// answerFailure writes the result of a failed call: the failure's message and, if it is text, the
// body of the API's response. It leaves out HTML, which is meant for browsers. It writes no
// structuredContent, because clients validate that against the tool's outputSchema, which describes
// successful results only.
func (q toolRequest) answerFailure(r reply) {
	b := q.appendResultHead(q.beginResult(), "complete", q.failureMeta(r))
	b = append(b, `"content":[`...)
	b = content.AppendText(b, r.Failure.Message)
	if r := r.Result; r != nil && r.MediaType() != "text/html" {
		switch content.FormOf(r) {
		case content.JSONForm, content.TextForm:
			b = append(b, ',')
			b = content.AppendText(b, text.Cut(string(r.Body[:min(len(r.Body), maxErrorBody+4)]), maxErrorBody))
		}
	}
	b = appendNote(b, r.Result)
	q.out.B = append(b, `],"isError":true}}`...)
}

// checkAccess returns a fault if the access token lacks scopes that the tool needs. The
// WWW-Authenticate challenge lists the missing scopes together with those that the token has, so
// that the new token allows both (RFC 6750, section 3.1; MCP, Authorization, Runtime Insufficient
// Scope).
func (m *message) checkAccess(tool *tool.Tool) *jsonrpc.Fault {
	if m.site.Access == nil {
		return nil
	}
	missing := m.site.Access.Missing(tool, m.tools)
	if missing == nil {
		return nil
	}
	f := jsonrpc.Faultf(http.StatusForbidden, jsonrpc.InvalidRequest,
		"the access token does not allow %s: it lacks %s", tool.Name, strings.Join(missing, ", "))
	f.Challenge = `Bearer error="insufficient_scope", scope="` + scopeList(m.site.Access.Scopes, missing) + `"`
	if metadata := m.site.Access.Metadata; metadata != "" {
		f.Challenge += `, resource_metadata=` + strconv.QuoteToASCII(metadata)
	}
	return f
}

// maxScopes is the maximum length of the scope list in a challenge, in bytes.
const maxScopes = 4 << 10

// scopeList returns the space-separated scope list of a challenge, the missing scopes first. It
// leaves out strings that are not valid scopes (RFC 6749, section 3.3).
func scopeList(has, missing []string) string {
	var list []string
	length := 0
	for _, scopes := range [][]string{missing, has} {
		for _, scope := range scopes {
			if !isScope(scope) || length+len(scope) >= maxScopes {
				continue
			}
			length += len(scope) + 1
			list = append(list, scope)
		}
	}
	return strings.Join(list, " ")
}

func isScope(scope string) bool {
	return scope != "" && !strings.ContainsFunc(scope, func(r rune) bool {
		return r <= ' ' || r > '~' || r == '"' || r == '\\'
	})
}

// metaNext is the member of a result's _meta with the cursor of the next part of a large response.
const metaNext = "io.github.fairwayhq/next"

// appendNote appends a text block that says which part of the response the other blocks are. It is a
// block of its own, so that structuredContent and the text of the response stay as they are.
func appendNote(dst []byte, r *tool.Result) []byte {
	if r == nil || r.Note == "" {
		return dst
	}
	return content.AppendText(append(dst, ','), r.Note)
}

// appendNext adds the cursor of the next part to the members of a result's _meta.
func appendNext(meta []byte, r *tool.Result) []byte {
	if r == nil || r.Next == "" {
		return meta
	}
	if len(meta) > 0 {
		meta = append(meta, ',')
	}
	return wire.AppendString(append(meta, `"`+metaNext+`":`...), r.Next)
}
