package mcpadapter

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"net/http"
	"time"

	"github.com/fairwayhq/fairway/internal/seal"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/mcpadapter/internal/session"
)

// defaultSessionTTL is the default lifetime of a session. When it expires, clients start a new
// session automatically.
const defaultSessionTTL = 24 * time.Hour

// sessionHeader carries the session id (MCP 2025-03-26 to 2025-11-25, Streamable HTTP, Session
// Management), in canonical form.
const sessionHeader = "Mcp-Session-Id"

// Secrets are the secrets of a Server. See Options.Secrets.
type Secrets = session.Secrets

// FixedSecrets returns secrets that never change, for Options.Secrets. The first one signs and seals;
// all of them are accepted.
func FixedSecrets(secrets ...[]byte) func(context.Context) (*Secrets, error) {
	fixed := &Secrets{Sign: secrets, Seal: secrets}
	return func(context.Context) (*Secrets, error) { return fixed, nil }
}

// randomSecrets returns secrets that end with the Server.
func randomSecrets() func(context.Context) (*Secrets, error) {
	secret := make([]byte, sha256.Size)
	_, _ = rand.Read(secret) // never returns an error
	return FixedSecrets(secret)
}

// signer returns the signer for the current secrets.
func (s *Server) signer(ctx context.Context) (*session.Signer, *protocol.Fault) {
	secrets, err := s.options.Secrets(ctx)
	if err != nil {
		f := protocol.Faultf(http.StatusServiceUnavailable, protocol.InternalError, "the keys of the sessions are in the store, which is not available; try again later")
		f.RetryAfter = time.Second
		return nil, f
	}
	g := s.lastSigner.Load()
	if g == nil || g.Secrets != secrets {
		g = session.NewSigner(secrets)
		s.lastSigner.Store(g)
	}
	return g, nil
}

// stateSealer returns what seals the state that clients store for the server.
func (s *Server) stateSealer(ctx context.Context) (*seal.Sealer, *protocol.Fault) {
	g, f := s.signer(ctx)
	if f != nil {
		return nil, f
	}
	return g.State, nil
}

// taskSealer returns what seals the arguments of tasks, and their state between rounds.
func (s *Server) taskSealer(ctx context.Context) (*seal.Sealer, *protocol.Fault) {
	g, f := s.signer(ctx)
	if f != nil {
		return nil, f
	}
	return g.Tasks, nil
}

// resume restores the session of the request, if the request has a session id. An invalid or expired
// id yields 404, after which clients start a new session.
func (h *httpExchange) resume() *protocol.Fault {
	id, present := protocol.HeaderValue(h.header, sessionHeader)
	if !present || h.terms.Version.Stateless() {
		return nil
	}
	f := protocol.CheckHeaderOnce(h.header, sessionHeader)
	var signer *session.Signer
	if f == nil {
		signer, f = h.server.signer(h.ctx)
	}
	if f != nil {
		return f.WithoutID()
	}
	s, err := h.server.memory.lives.Resume(signer, id, h.site.User, time.Now())
	if err != nil {
		return protocol.Faultf(http.StatusNotFound, protocol.SessionNotFound,
			"the session %v: open a new one with initialize, without the header Mcp-Session-Id", err).WithoutID()
	}
	h.session, h.terms.Client = &s, s.Client
	// A session keeps its revision. MCP requires a refusal only for a header that names an invalid or
	// unsupported one (MCP 2025-11-25, Transports, Protocol Version Header).
	if _, sent := h.header[protocol.VersionHeader]; !sent || h.server.enabled.Has(h.terms.Version) {
		h.terms.Version = s.Version
	}
	return nil
}

// endSession serves DELETE, which ends a session.
func (h *httpExchange) endSession() *protocol.Fault {
	if h.session == nil {
		return protocol.Faultf(http.StatusBadRequest, protocol.InvalidRequest, "DELETE needs the header Mcp-Session-Id with the session to end").WithoutID()
	}
	h.server.memory.lives.End(*h.session)
	h.status = http.StatusNoContent
	return nil
}
