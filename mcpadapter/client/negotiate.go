package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
)

// An era is how a server negotiates.
type era int32

const (
	unknownEra era = iota
	modernEra      // server/discover, from 2026-07-28 on
	legacyEra      // initialize
	streamEra      // initialize over HTTP+SSE (2024-11-05)
)

// probeTimeout is how long a server may take to respond to server/discover. Older servers may ignore it.
const probeTimeout = 10 * time.Second

var errSilent = fmt.Errorf("no response to %s within %v", methodDiscover, probeTimeout)

// legacyRevisions are the revisions with initialize. The first one is requested.
var legacyRevisions = []string{
	protocol.V20251125.String(), protocol.V20250618.String(), protocol.V20250326.String(), protocol.V20241105.String(),
}

// negotiate opens a session. It begins with what the server spoke last, and tries everything else if the server does not
// speak that any more (MCP 2026-07-28, Versioning).
func (s *Server) negotiate(ctx context.Context, header http.Header) (*session, error) {
	known := era(s.era.Load())
	opened, err := s.open(ctx, header, known)
	if _, unavailable := errors.AsType[*UnavailableError](err); err == nil || unavailable || known <= modernEra || ctx.Err() != nil {
		return opened, err
	}
	return s.open(ctx, header, unknownEra)
}

// open opens a session in the known era, or in a later one of the list above. If none works, the error is the first one
// that says more than that the server is older.
func (s *Server) open(ctx context.Context, header http.Header, known era) (opened *session, err error) {
	var probed error
	if known <= modernEra {
		opened, probed = s.openModern(ctx, header, probeTimeout)
		if isModernAlone(probed) {
			return s.opened(modernEra, opened, probed)
		}
	}
	if known != streamEra {
		opened, err = s.openLegacy(ctx, header)
		if err == nil || ctx.Err() != nil {
			return s.opened(legacyEra, opened, err)
		}
		if errors.Is(probed, errSilent) && s.options.Command == nil { // a server of 2026-07-28 that was about to start
			if opened, again := s.openModern(ctx, header, openTimeout); again == nil {
				return s.opened(modernEra, opened, nil)
			}
		}
		if probed != nil && !errors.Is(probed, errNoTransport) {
			err = probed
		}
		if s.options.Command != nil || !errors.Is(err, errNoTransport) {
			return nil, err
		}
	}
	l, refused := dialSSE(ctx, s.dialer(), header, defaultMaxMessage)
	if status, _ := errors.AsType[*StatusError](err); refused != nil && err != nil && (status == nil || isOlder(refused)) {
		return nil, err // the response to the POST says more
	} else if refused != nil {
		return nil, refused
	}
	opened, err = s.initialize(ctx, header, l)
	return s.opened(streamEra, opened, err)
}

// opened records the era of a session that has been opened.
func (s *Server) opened(of era, opened *session, err error) (*session, error) {
	if err != nil {
		return nil, err
	}
	s.era.Store(int32(of))
	return opened, nil
}

// isModernAlone reports whether the result of server/discover rules out an older server: there is a session, or the
// server was not reached, or it returned an error that only servers of 2026-07-28 return.
func isModernAlone(err error) bool {
	fault, _ := errors.AsType[*Error](err)
	return err == nil || errors.Is(err, errUnsent) || fault != nil
}

// openModern opens a session with server/discover. The error wraps errNoTransport if the server is older.
func (s *Server) openModern(ctx context.Context, header http.Header, limit time.Duration) (*session, error) {
	opened := &session{modern: true, version: protocol.V20260728.String()}
	probe, cancel := context.WithTimeoutCause(ctx, limit, errSilent)
	defer cancel()
	if s.options.Command == nil {
		opened.link = &httpLink{dialer: s.dialer(), version: opened.version, modern: true}
	} else {
		l, err := s.options.Command.start(defaultMaxMessage, s.logger.Load())
		if err != nil {
			return nil, err
		}
		opened.link = l
	}
	q := opened.request(methodDiscover, "", s.params(opened, nil, nil), header)
	m, err := opened.link.exchange(probe, q, nil)
	if err == nil && m.fault == nil && supports(m.result, opened.version) {
		opened.info = strictjson.MemberOf(strictjson.MemberOf(m.result, "_meta"), "io.modelcontextprotocol/serverInfo")
		opened.describe(m.result)
		return opened, nil
	}
	opened.link.close()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case probe.Err() != nil && s.options.Command == nil:
		return nil, &UnavailableError{errSilent}
	case m.fault != nil && (m.fault.Code == codeHeaderMismatch || m.fault.Code == codeMissingCapability):
		return nil, m.fault
	case err != nil && s.options.Command == nil && !isOlder(err):
		return nil, err
	}
	return nil, fmt.Errorf("%w of %v", errNoTransport, protocol.V20260728)
}

// isOlder reports whether the response to a request is one that servers which do not know the method, or the transport, give.
func isOlder(err error) bool {
	status, ok := errors.AsType[*StatusError](err)
	return errors.Is(err, errNoTransport) || ok && status.Status/100 == 4 &&
		!slices.Contains([]int{http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests}, status.Status)
}

// supports reports whether a DiscoverResult names the revision.
func supports(result jsontext.Value, version string) bool {
	for walk := strictjson.Into(strictjson.MemberOf(result, "supportedVersions")); walk.Next(); {
		if strictjson.Text(walk.Value) == version {
			return true
		}
	}
	return false
}

// openLegacy opens a session with initialize.
func (s *Server) openLegacy(ctx context.Context, header http.Header) (*session, error) {
	if s.options.Command == nil {
		return s.initialize(ctx, header, &httpLink{dialer: s.dialer()})
	}
	l, err := s.options.Command.start(defaultMaxMessage, s.logger.Load())
	if err != nil {
		return nil, err
	}
	return s.initialize(ctx, header, l)
}

// clientCapabilities are declared for sessions, before it is known which client's calls come. A request that the client
// of a call cannot handle is refused then.
const clientCapabilities = `{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}`

// initialize opens a session on a link. It closes the link if that fails.
func (s *Server) initialize(ctx context.Context, header http.Header, l link) (*session, error) {
	opened := &session{link: l}
	err := s.handshake(ctx, header, opened)
	if err != nil {
		l.close()
		return nil, err
	}
	return opened, nil
}

func (s *Server) handshake(ctx context.Context, header http.Header, opened *session) error {
	params := strictjson.AppendString([]byte(`{"protocolVersion":`), legacyRevisions[0])
	params = append(append(params, `,"capabilities":`+clientCapabilities+`,"clientInfo":`...), s.clientInfo()...)
	m, err := opened.link.exchange(ctx, opened.request(methodInitialize, "", append(params, '}'), header), nil)
	switch {
	case err != nil && isOlder(err) && !errors.Is(err, errNoTransport):
		return fmt.Errorf("%w: %w", errNoTransport, err)
	case err != nil:
		return err
	case m.fault != nil:
		return m.fault
	}
	spoken := strictjson.Text(strictjson.MemberOf(m.result, "protocolVersion"))
	if opened.version = nearestRevision(spoken); opened.version != spoken {
		opened.warnings = append(opened.warnings, fmt.Sprintf("the MCP server speaks the revision %q, which the gateway does not know; it is used as %s",
			text.Cut(spoken, text.MaxQuoted), opened.version))
	}
	opened.info = strictjson.MemberOf(m.result, "serverInfo")
	opened.describe(m.result)
	if l, ok := opened.link.(*httpLink); ok {
		l.version = opened.version
	}
	err = opened.link.send(ctx, header, notification(methodInitialized, nil))
	if _, refused := errors.AsType[*StatusError](err); err != nil && !refused { // a server that refuses the notification has a session nonetheless
		return err
	}
	if !strictjson.HasMember(opened.capabilities, "logging") {
		return nil
	}
	// The server sends the log messages of calls only if a level is set. Each client gets those of its own level.
	_, _ = opened.link.exchange(ctx, opened.request(methodSetLevel, "", []byte(`{"level":"debug"}`), header), nil) // works without, too
	return nil
}

// nearestRevision returns the newest revision with initialize that is not newer than the server's, or the oldest one.
func nearestRevision(spoken string) string {
	for _, known := range legacyRevisions {
		if known <= spoken {
			return known
		}
	}
	return legacyRevisions[len(legacyRevisions)-1]
}

// describe keeps what a server says of itself.
func (o *session) describe(result jsontext.Value) {
	o.capabilities = strictjson.MemberOf(result, "capabilities")
	o.instructions = strictjson.Text(strictjson.MemberOf(result, "instructions"))
}

// request returns a request of the session.
func (o *session) request(method, name string, params []byte, header http.Header) *outgoing {
	return &outgoing{id: o.ids.Add(1), method: method, name: name, params: params, header: header, limit: defaultMaxMessage}
}

func (s *Server) clientInfo() []byte {
	b := strictjson.AppendString([]byte(`{"name":"fairway","version":`), s.options.Version)
	return append(b, '}')
}

// params returns the parameters of a request: members, and _meta with its own members. From 2026-07-28 on, _meta
// describes the request. Capabilities are those of the client that the request is for, nil for none.
func (s *Server) params(o *session, members, meta []byte, capabilities ...jsontext.Value) []byte {
	all := strictjson.ObjectBuilder(nil)
	if o.modern {
		declared := jsontext.Value("{}")
		if len(capabilities) > 0 && capabilities[0] != nil {
			declared = capabilities[0]
		}
		all.Add(protocol.MetaVersion, strictjson.AppendString(nil, o.version))
		all.Add(protocol.MetaCapabilities, declared)
		all.Add("io.modelcontextprotocol/clientInfo", s.clientInfo())
	}
	described := all.Close()
	if len(meta) > 0 {
		if len(described) > 2 {
			meta = append([]byte{','}, meta...)
		}
		described = append(append(described[:len(described)-1], meta...), '}')
	}
	params := append([]byte{'{'}, members...)
	if len(described) > 2 {
		params = append(append(strictjson.Comma(params), `"_meta":`...), described...)
	}
	return append(params, '}')
}
