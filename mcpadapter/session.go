package mcpadapter

import (
	"net/http"
	"time"

	"github.com/fairwayhq/fairway/mcpadapter/elicit"
	"github.com/fairwayhq/fairway/mcpadapter/internal/jsonrpc"
	"github.com/fairwayhq/fairway/mcpadapter/internal/negotiation"
	"github.com/fairwayhq/fairway/mcpadapter/internal/revision"
	"github.com/fairwayhq/fairway/mcpadapter/internal/session"
)

// DefaultSessionTTL is the default lifetime of a session. When it expires, clients start a new
// session automatically.
const DefaultSessionTTL = 24 * time.Hour

// sessionHeader carries the session id (MCP 2025-03-26 to 2025-11-25, Streamable HTTP, Session
// Management), in canonical form.
const sessionHeader = "Mcp-Session-Id"

// newSigner returns the signer for the options' secret.
func (o *Options) newSigner() *session.Signer {
	secret := o.Secret
	if len(secret) == 0 && o.LoadSecret != nil {
		secret = o.LoadSecret()
	}
	return session.NewSigner(secret)
}

// sealer returns the server's sealer.
func (s *Server) sealer() *elicit.Sealer { return s.signer().Sealer }

// resume restores the session of the request, if the request has a session id. An invalid or expired
// id yields 404, after which clients start a new session.
func (h *httpExchange) resume() *jsonrpc.Fault {
	id, present := negotiation.HeaderValue(h.header, sessionHeader)
	if !present || h.version.Stateless() {
		return nil
	}
	s, err := h.server.states.Resume(h.server.signer(), id, h.site.User, time.Now())
	if err != nil {
		f := jsonrpc.Faultf(http.StatusNotFound, jsonrpc.SessionNotFound,
			"the session %v: open a new one with initialize, without the header Mcp-Session-Id", err)
		f.Anonymous = true
		return f
	}
	if sent := len(h.header[negotiation.VersionHeader]) > 0; sent && h.version != revision.Unknown && h.version != s.Version {
		f := jsonrpc.Malformed("the session uses %v, but the header MCP-Protocol-Version is %v: send the header with %v, or open a new session",
			s.Version, h.version, s.Version)
		f.Anonymous = true
		return f
	}
	h.session = &s
	h.client = s.Client
	if _, sent := h.header[negotiation.VersionHeader]; !sent {
		h.version = s.Version
	}
	return nil
}

// endSession serves DELETE, which ends a session.
func (h *httpExchange) endSession() *jsonrpc.Fault {
	if h.session == nil {
		f := jsonrpc.Faultf(http.StatusBadRequest, jsonrpc.InvalidRequest, "DELETE needs the header Mcp-Session-Id with the session to end")
		f.Anonymous = true
		return f
	}
	h.server.states.End(*h.session)
	h.status = http.StatusNoContent
	return nil
}
