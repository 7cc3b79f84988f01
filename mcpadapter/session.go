package mcpadapter

import (
	"net/http"
	"time"

	"github.com/fairwayhq/fairway/mcpadapter/elicit"
	"github.com/fairwayhq/fairway/mcpadapter/internal/jsonrpc"
	"github.com/fairwayhq/fairway/mcpadapter/internal/revision"
)

// DefaultSessionTTL is the default lifetime of a session. When it expires, clients start a new
// session automatically.
const DefaultSessionTTL = 24 * time.Hour

// sessionHeader carries the session id (MCP 2025-03-26 to 2025-11-25, Streamable HTTP, Session
// Management), in canonical form.
const sessionHeader = "Mcp-Session-Id"

// newSigner returns the signer for the options' secret.
func (o *Options) newSigner() *signer {
	secret := o.Secret
	if len(secret) == 0 && o.LoadSecret != nil {
		secret = o.LoadSecret()
	}
	return newSigner(secret)
}

// sealer returns the server's sealer.
func (s *Server) sealer() *elicit.Sealer { return s.signer().sealer }

// resume restores the session of the request, if the request has a session id. An invalid or expired
// id yields 404, after which clients start a new session.
func (x *exchange) resume() *jsonrpc.Fault {
	id, present := headerValue(x.header, sessionHeader)
	if !present || x.version.Stateless() {
		return nil
	}
	s, err := x.server.session(id, x.site.User)
	if err != nil {
		f := jsonrpc.Faultf(http.StatusNotFound, jsonrpc.SessionNotFound,
			"the session %v: begin a new one with initialize, without the header Mcp-Session-Id", err)
		f.Anonymous = true
		return f
	}
	if sent := len(x.header[versionHeader]) > 0; sent && x.version != revision.Unknown && x.version != s.version {
		f := jsonrpc.Malformed("the session speaks %v and the header MCP-Protocol-Version says %v: send the header with %v, or begin a new session",
			s.version, x.version, s.version)
		f.Anonymous = true
		return f
	}
	x.session = &s
	x.client = s.client
	if _, sent := x.header[versionHeader]; !sent {
		x.version = s.version
	}
	return nil
}

// session returns the session for an id, or an error if it has expired or ended.
func (s *Server) session(id, user string) (session, error) {
	opened, err := s.signer().open(id, user, time.Now())
	if err == nil && s.states.ended(opened.key) {
		err = errEndedSession
	}
	return opened, err
}

// endSession serves DELETE, which ends a session.
func (x *exchange) endSession() *jsonrpc.Fault {
	if x.session == nil {
		f := jsonrpc.Faultf(http.StatusBadRequest, jsonrpc.InvalidRequest, "DELETE ends a session: name it in the header Mcp-Session-Id")
		f.Anonymous = true
		return f
	}
	x.server.states.end(*x.session)
	x.status = http.StatusNoContent
	return nil
}
