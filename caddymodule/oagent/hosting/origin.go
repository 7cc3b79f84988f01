package hosting

import (
	"crypto/tls"
	"net"
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/caddymodule/toolcall"
	"github.com/fairwayhq/fairway/internal/calltrace"
	"github.com/fairwayhq/fairway/internal/headerkind"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/remote"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// origin is the data of the request that started a run that tool calls need. It is stored with the run,
// so that the run can be resumed after a restart. It contains no credentials.
type origin struct {
	Host     string `json:"host,omitzero"`
	ClientIP string `json:"client_ip,omitzero"`
	Secure   bool   `json:"secure,omitzero"` // over TLS

	// Identified is true if the request had credentials or headers that name its user. A call
	// with the user's identity then needs a session.
	Identified bool `json:"identified,omitzero"`

	// Chain lists the agents that wait for the run, see remote.Chain.
	Chain remote.Chain `json:"chain,omitempty"`

	// Limited is true if the request had an access token. Scopes are those of the token.
	Limited bool     `json:"limited,omitzero"`
	Scopes  []string `json:"scopes,omitempty"`

	// Ticket is the token of the Ticket of the call, by another agent, that started the run. See
	// oagent.Ticket.Token.
	Ticket string `json:"ticket,omitzero"`

	// Trace is the trace context of the request or of the call of another agent, see calltrace.Parent.
	Trace string `json:"trace,omitzero"`
}

const (
	maxHost       = 255
	maxScopes     = 100
	maxScopeBytes = 100
)

// originOf returns the origin of a run of an agent that a request starts. The error is one of
// remote.ReadChain or remote.Chain.Enter.
func (h *Host) originOf(r *http.Request, agent *oagent.Agent) (*origin, error) {
	o := &origin{Host: text.Cut(r.Host, maxHost), Secure: r.TLS != nil, Identified: h.identifies(r), Trace: calltrace.Parent(r.Context())}
	chain, err := remote.ReadChain(r.Header)
	if err != nil {
		return nil, err
	}
	if o.Chain, err = chain.Enter(r.Host, h.options.Serve+"/"+agent.Name); err != nil {
		return nil, err
	}
	o.ClientIP, _ = caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	if access := toolcall.AccessOf(r); access != nil {
		o.Limited = true
		for _, scope := range access.Scopes[:min(len(access.Scopes), maxScopes)] {
			if len(scope) <= maxScopeBytes {
				o.Scopes = append(o.Scopes, scope)
			}
		}
	}
	return o, nil
}

// identifies reports whether a request has credentials or headers that may identify its user to the API.
func (h *Host) identifies(r *http.Request) bool {
	if _, found := h.options.Set(nil, nil).Credentials.In(r); found {
		return true
	}
	for name := range r.Header {
		if name == "Cookie" || headerkind.NamesUser(name) || slices.Contains(h.options.CallerHeaders, name) {
			return true
		}
	}
	return false
}

// access returns the Access of the user; nil allows everything.
func (o *origin) access() *tool.Access {
	if !o.Limited {
		return nil
	}
	return &tool.Access{Scopes: o.Scopes}
}

// connection returns the state of the connection for requests that handlers make for the run.
func (o *origin) connection() *tls.ConnectionState {
	if !o.Secure {
		return nil
	}
	return &tls.ConnectionState{HandshakeComplete: true, ServerName: hostName(o.Host)}
}

func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return host
}

func (o *origin) encode() jsontext.Value {
	encoded, err := json.Marshal(o, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return nil // a struct of strings can be encoded
	}
	return encoded
}

// readOrigin decodes the origin of a run. An origin of another version of the program may lack fields.
func readOrigin(encoded jsontext.Value) *origin {
	o := new(origin)
	if json.Unmarshal(encoded, o) != nil {
		return &origin{Identified: true, Limited: true} // the most restrictive values
	}
	return o
}

// sessionOf returns the session of a request.
func sessionOf(r *http.Request) *session {
	s := &session{header: make(http.Header, len(r.Header)), address: r.RemoteAddr}
	options := headerkind.ConnectionOptions(r.Header)
	for name, values := range r.Header {
		if headerkind.Forwarded(name, options) {
			s.header[name] = slices.Clone(values)
		}
	}
	vars, _ := r.Context().Value(caddyhttp.VarsCtxKey).(map[string]any)
	for name, value := range vars {
		if _, isText := value.(string); isText && name != caddyhttp.ClientIPVarKey {
			if s.vars == nil {
				s.vars = make(map[string]any)
			}
			s.vars[name] = value
		}
	}
	return s
}
