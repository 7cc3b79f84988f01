package hosted

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"maps"
	"net"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/internal/calltrace"
	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/internal/identity"
	"github.com/fairwayhq/fairway/internal/oauth"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/hosted/remote"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/logonly"
)

// origin is the data of the request that started a run that tool calls need. It is stored with the run,
// so that the run can be resumed after a restart. It contains no credentials.
type origin struct {
	Host     string `json:"host,omitzero"`
	ClientIP string `json:"client_ip,omitzero"`
	Secure   bool   `json:"secure,omitzero"` // over TLS

	// Identified is true if the request had credentials or headers that may name its user. A call
	// with the user's identity then needs a session.
	Identified bool `json:"identified,omitzero"`

	// Token is true if the request had an access token that a credential may exchange.
	Token bool `json:"token,omitzero"`

	// Session is the session of the user at the site's own login, see site.Caller.Session. It is no secret: only
	// this server can use it, because the session's record is sealed with a key of the configuration.
	Session string `json:"session,omitzero"`

	// Delegated is true if another agent has invoked the agent without the identity of the user.
	// Identity is the static_identity that it was invoked with instead; "" if there is none.
	Delegated bool   `json:"delegated,omitzero"`
	Identity  string `json:"identity,omitzero"`

	// Chain lists the agents that wait for the run, see remote.Chain.
	Chain remote.Chain `json:"chain,omitempty"`

	// Limited is true if the request had an access token, or none where one can be sent. Scopes are those of the token.
	Limited bool     `json:"limited,omitzero"`
	Scopes  []string `json:"scopes,omitempty"`

	// User has the groups and claims of the user; nil if they are unknown.
	User *identity.User `json:"user,omitempty"`

	// Ticket is the token of the Ticket of the call, by another agent, that started the run. See
	// oagent.Ticket.Token.
	Ticket string `json:"ticket,omitzero"`

	// Would is what a rule in log only would have done to that call.
	Would logonly.Would `json:"would,omitzero"`

	// Trace is the trace context of the request or of the call of another agent, see calltrace.Parent.
	Trace string `json:"trace,omitzero"`
}

const (
	maxHost       = 255
	maxScopes     = 100
	maxScopeBytes = 100
	maxClaims     = 16 << 10
)

// originOf returns the origin of a run of an agent that a request starts. The error is one of
// remote.ReadChain or remote.Chain.Enter.
func (h *Host) originOf(r *http.Request, agent *oagent.Agent) (*origin, error) {
	o := &origin{Host: text.Cut(r.Host, maxHost), Secure: r.TLS != nil, Identified: h.identifies(r), Trace: calltrace.Parent(r.Context())}
	if caller := site.CallerOf(r.Context()); caller != nil {
		o.Token, o.Session = true, caller.Session()
	}
	chain, err := remote.ReadChain(r.Header)
	if err != nil {
		return nil, err
	}
	if o.Chain, err = chain.Enter(r.Host, h.options.Serve+"/"+agent.Name); err != nil {
		return nil, err
	}
	o.ClientIP, _ = caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	if access := route.AccessOf(r, true); access != nil { // the caller is authenticated: others cannot start a run
		o.Limited = true
		for _, scope := range access.Scopes[:min(len(access.Scopes), maxScopes)] {
			if len(scope) <= maxScopeBytes {
				o.Scopes = append(o.Scopes, scope)
			}
		}
	}
	if o.User = route.UserOf(r); len(o.User.Claims) > maxClaims {
		o.User = nil
	}
	return o, nil
}

// user returns the groups and claims of the user of a run. They are those of the request that started it.
func (o *origin) user(id string) *identity.User {
	if o.User == nil || o.User.ID != id {
		return identity.Unknown(id)
	}
	return o.User
}

// identifying matches headers in which clients, authenticating proxies and administrators commonly name a user. It decides
// which requests a run needs after a restart, not which headers reach an API.
var identifying = regexp.MustCompile(`(?i)^(cookie|ocp-user)$|token|^(x-)?(api-key|sudo|remote-|auth-|forwarded-(user|name|email|group|role|preferred-|client-cert))|` +
	`^(x-)?(proxy-user|authenticated-|authentik-|webauth-|consumer-|impersonate-|on-behalf-of|act-as|ssl-client-|pomerium-|ms-client-principal)|` +
	`^(x-user|x-goog-(authenticated-user|iap-)|x-amzn-oidc-|cf-access-|tailscale-user-)`)

// identifies reports whether a request has credentials or headers that may identify its user to the API.
func (h *Host) identifies(r *http.Request) bool {
	if _, found := h.options.Handler.Loader.Current().Credentials.In(r); found {
		return true
	}
	for name := range r.Header {
		if identifying.MatchString(httpheader.Canonical(name)) {
			return true
		}
	}
	return false
}

// identity selects the credentials of a call. known reports whether the run's caller is known. If the
// agent was invoked without the identity of the user, its caller is not: the identity that it was
// invoked with, if any, is then that of its calling user (OpenAgentSpec v1, Agent, user_identity and
// static_identity).
func (o *origin) identity(c *oagent.Capability, known bool) oagent.Identity {
	if o.Delegated && c.UserIdentity && o.Identity != "" {
		return oagent.Identity{Static: o.Identity}
	}
	return c.Identity(known && !o.Delegated)
}

// access returns the Access of the user; nil allows everything.
func (o *origin) access() *tools.Access {
	if !o.Limited {
		return nil
	}
	return &tools.Access{Scopes: o.Scopes}
}

// connection returns the state of the connection for requests that handlers make for the run.
func (o *origin) connection() *tls.ConnectionState {
	if !o.Secure {
		return nil
	}
	return &tls.ConnectionState{HandshakeComplete: true, ServerName: httpheader.HostName(o.Host)}
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
	options := httpheader.ConnectionOptions(r.Header)
	for name, values := range r.Header {
		if !slices.Contains(options, name) && httpheader.CheckForwarded(name) == nil { // each tool call copies what its toolset forwards
			s.header[name] = slices.Clone(values)
		}
	}
	vars, _ := r.Context().Value(caddyhttp.VarsCtxKey).(map[string]any)
	for name, value := range vars {
		_, isText := value.(string)
		if caller, ok := value.(*site.Caller); ok && name == site.VarCaller {
			s.expires = caller.Expires()
		} else if !isText || name == caddyhttp.ClientIPVarKey {
			continue
		}
		if s.vars == nil {
			s.vars = make(map[string]any)
		}
		s.vars[name] = value
	}
	return s
}

// Limits on the headers of users that are kept in memory, of all runs of a Host.
const (
	maxSessions     = 20_000
	maxSessionBytes = 64 << 20

	// tokenSize is what an access token counts, in bytes.
	tokenSize = 2 << 10
)

// session is the data of a user's request that must not be stored, because it may contain credentials:
// headers, address and variables. It is immutable.
type session struct {
	header  http.Header
	address string         // http.Request.RemoteAddr
	vars    map[string]any // variables that handlers of the site have set
	expires time.Time      // of the access token among vars; zero if there is none
}

// hasToken reports whether the session has an access token that is still valid. The session may be nil.
func (s *session) hasToken() bool { return s != nil && time.Now().Before(s.expires) }

// renewed returns the session with a caller whose credentials can be renewed without the user, because the user has logged in at
// the site itself. It returns nil if there is no such login any more. The session s may be nil.
func (h *Host) renewed(ctx context.Context, user string, o *origin, s *session) *session {
	r := &session{header: make(http.Header), address: net.JoinHostPort(o.ClientIP, "0")}
	id := o.Session
	if s != nil {
		*r = *s
		if caller, ok := s.vars[site.VarCaller].(*site.Caller); ok {
			id = caller.Session()
		}
	}
	login := h.options.App.Site.LoginAt(h.options.Site)
	if id == "" || login == nil {
		return nil
	}
	_, _, err := login.ProviderToken(ctx, id, false)
	if refusal, ok := errors.AsType[*oauth.Error](err); ok && refusal.Code == oauth.InvalidToken {
		return nil
	}
	r.vars = maps.Clone(r.vars)
	if r.vars == nil {
		r.vars = make(map[string]any)
	}
	r.vars[site.VarCaller] = site.NewSessionCaller(login, id, user, time.Time{})
	return r
}

// size returns the approximate size of a session in bytes.
func (s *session) size() int {
	size := 0
	if !s.expires.IsZero() {
		size = tokenSize
	}
	for name, values := range s.header {
		for _, value := range values {
			size += len(name) + len(value)
		}
	}
	return size
}

// sessions keeps the sessions of runs in memory. At a limit it drops the least recently used ones. Their
// runs then wait until their users send another request.
type sessions struct {
	mu    sync.Mutex
	byRun map[string]*list.Element // of heldSession
	used  list.List                // the latest first
	bytes int
}

type heldSession struct {
	run   string
	round int // see run.State.Round
	*session
}

// put keeps the session of a round of a run. It replaces an earlier one.
func (s *sessions) put(run string, round int, of *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.byRun[run]; e != nil {
		round = max(round, e.Value.(heldSession).round)
	}
	s.drop(run)
	if s.byRun == nil {
		s.byRun = make(map[string]*list.Element)
	}
	s.byRun[run] = s.used.PushFront(heldSession{run, round, of})
	s.bytes += of.size()
	for s.used.Len() > maxSessions || s.bytes > maxSessionBytes {
		s.drop(s.used.Back().Value.(heldSession).run)
	}
}

// get returns the session of a run, or nil if there is none.
func (s *sessions) get(run string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byRun[run]
	if e == nil {
		return nil
	}
	s.used.MoveToFront(e)
	return e.Value.(heldSession).session
}

// remove drops the session of a run whose round has ended. It keeps that of a later round.
func (s *sessions) remove(run string, round int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.byRun[run]; e != nil && e.Value.(heldSession).round <= round {
		s.drop(run)
	}
}

func (s *sessions) drop(run string) {
	if e := s.byRun[run]; e != nil {
		s.used.Remove(e)
		s.bytes -= e.Value.(heldSession).size()
		delete(s.byRun, run)
	}
}

// runs returns the runs that have a session, with the round of each.
func (s *sessions) runs() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	runs := make(map[string]int, len(s.byRun))
	for run, e := range s.byRun {
		runs[run] = e.Value.(heldSession).round
	}
	return runs
}
