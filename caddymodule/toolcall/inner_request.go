package toolcall

import (
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/caddymodule/agents"
	"github.com/fairwayhq/fairway/internal/headerkind"
	"github.com/fairwayhq/fairway/ocp"
	"github.com/fairwayhq/fairway/ocp/security"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// prepare turns r into an inner request from the caller. It adds headers and parameters that
// are not arguments of the call. In increasing priority these are: the headers of the client's
// request, the values that the document fixes, the adapter's supplement, and the toolset's
// credentials (rec.ToolsetCredentials).
func (d *dispatch) prepare(r *http.Request, rec *Recorder, call *tool.Call) *http.Request {
	asOperator := len(d.credentials) > 0
	copyHeaders(r.Header, d.clientRequest.Header, asOperator)
	call.SetFilledHeaders(r.Header)
	callContext := d.callContext(r)
	if callContext != nil {
		user, declared := r.Header[ocp.HeaderUser]
		callContext.Set(r.Header)
		switch {
		case asOperator && declared:
			r.Header[ocp.HeaderUser] = user
		case asOperator:
			delete(r.Header, ocp.HeaderUser)
		}
	}
	repl := caddy.NewReplacer()
	if supplement := security.SupplementFromContext(r.Context()); supplement != nil {
		supplement.Apply(r)
		r.RequestURI = r.URL.RequestURI()
		rec.Injected = supplement.Secrets()
	}
	if rec.ToolsetCredentials != nil {
		rec.ToolsetCredentials.Apply(r)
		r.RequestURI = r.URL.RequestURI()
		rec.Injected = append(rec.Injected, rec.ToolsetCredentials)
	}
	r.Host = d.clientRequest.Host
	r.RemoteAddr = d.clientRequest.RemoteAddr
	r.TLS = d.clientRequest.TLS
	r.Proto, r.ProtoMajor, r.ProtoMinor = d.clientRequest.Proto, d.clientRequest.ProtoMajor, d.clientRequest.ProtoMinor

	r = caddyhttp.PrepareRequest(r, repl, rec, d.server)
	if callContext != nil {
		repl.Map(OCPPlaceholders(callContext))
	}
	repl.Map(func(key string) (any, bool) {
		if value, ok := toolPlaceholder(key, call.Tool.Name, d.toolset, d.protocol); ok {
			return value, true
		}
		return d.inheritedPlaceholder(key)
	})
	d.copyVars(r)
	return r
}

// preparedVars is the number of variables that PrepareRequest sets.
const preparedVars = 3

// copyVars copies the variables that handlers before the endpoint have set, such as the site's
// root, to the inner request. Variables that describe a single request are not copied:
// PrepareRequest has set them for the inner request.
func (d *dispatch) copyVars(r *http.Request) {
	if len(d.vars) <= preparedVars {
		return
	}
	vars, _ := r.Context().Value(caddyhttp.VarsCtxKey).(map[string]any)
	for name, value := range d.vars {
		if _, set := vars[name]; !set && name != "unhandled" {
			vars[name] = value
		}
	}
}

// copyHeaders copies headers of the client's request to the inner request. Copied headers take
// precedence over arguments. Headers of the client's message, its body, its connection and the
// tool protocol are not copied. Values are cloned, because handlers may change theirs in place.
//
// asOperator says that the gateway adds its own credentials to the call. Headers that name a
// user are not copied then, because the API would trust them as the operator's.
func copyHeaders(to, from http.Header, asOperator bool) {
	connectionOptions := headerkind.ConnectionOptions(from)
	isCopied := func(name string) bool {
		return headerkind.Forwarded(name, connectionOptions) && (!asOperator || !headerkind.NamesUser(name))
	}
	count := 1 // Accept-Encoding
	for name, values := range from {
		if isCopied(name) {
			count += len(values)
		}
	}
	backing := make([]string, 0, count)
	arguments := to["Cookie"]
	for name, values := range from {
		if !isCopied(name) {
			continue
		}
		start := len(backing)
		backing = append(backing, values...)
		to[name] = backing[start:len(backing):len(backing)]
	}
	start := len(backing)
	backing = append(backing, "identity")
	to["Accept-Encoding"] = backing[start:len(backing):len(backing)]
	if cookies := from["Cookie"]; len(arguments) > 0 && len(cookies) > 0 {
		to["Cookie"] = []string{joinCookies(cookies, arguments)}
	}
}

// joinCookies appends the cookies from arguments to the caller's cookies. Cookies that the
// caller has sent take precedence.
func joinCookies(callerCookies, arguments []string) string {
	joined := strings.Join(callerCookies, "; ")
	has := func(name string) bool {
		for cookie := range strings.SplitSeq(joined, ";") {
			if existing, _, _ := strings.Cut(strings.TrimSpace(cookie), "="); existing == name {
				return true
			}
		}
		return false
	}
	for cookie := range strings.SplitSeq(strings.Join(arguments, "; "), "; ") {
		if name, _, _ := strings.Cut(cookie, "="); !has(name) {
			joined += "; " + cookie
		}
	}
	return joined
}

// callContext returns the OCP context that came with the tool call itself. It returns nil if the
// call only has the context of the client's request.
func (d *dispatch) callContext(r *http.Request) *ocp.Incoming {
	in := ocp.IncomingFromContext(r.Context())
	if in == nil || in == ocp.IncomingFromContext(d.clientRequest.Context()) {
		return nil
	}
	return in
}

// fixedValue returns a function that replaces the placeholders of a fixed value: those without a request,
// and those of the client's request that agents.FixedPlaceholder permits.
func (d *dispatch) fixedValue(call *tool.Call) func(text string) (string, error) {
	return func(text string) (string, error) {
		repl := caddy.NewReplacer()
		repl.Map(func(key string) (any, bool) {
			if value, ok := toolPlaceholder(key, call.Tool.Name, d.toolset, d.protocol); ok {
				return value, true
			}
			if d.repl == nil || !agents.FixedPlaceholder(key) {
				return nil, false
			}
			return d.repl.Get(key)
		})
		return repl.ReplaceOrErr(text, true, true)
	}
}

// inheritedPlaceholder looks up a placeholder of the client's request that also applies to its tool calls:
// the caller's identity (http.auth), its OCP and OTC context, and placeholders that the
// operator defines (map). Other http.* placeholders describe the client's request itself and
// are not inherited.
func (d *dispatch) inheritedPlaceholder(key string) (any, bool) {
	if d.repl == nil {
		return nil, false
	}
	if strings.HasPrefix(key, "http.") && !strings.HasPrefix(key, "http.auth.") && !strings.HasPrefix(key, "http.ocp.") &&
		!strings.HasPrefix(key, "http.otc.") {
		return nil, false
	}
	return d.repl.Get(key)
}

// toolPlaceholders are the placeholders that toolPlaceholder supports, except the outcome.
var toolPlaceholders = [...]string{"http.tool.name", "http.tool.toolset", "http.tool.protocol"}

// toolPlaceholder returns the value of a {http.tool.*} placeholder.
func toolPlaceholder(key, tool, toolset, protocol string) (any, bool) {
	name, ok := strings.CutPrefix(key, "http.tool.")
	if !ok {
		return nil, false
	}
	switch name {
	case "name":
		return tool, true
	case "toolset":
		return toolset, true
	case "protocol":
		return protocol, true
	case "outcome":
		return "", true // the call is still running
	}
	return nil, false
}
