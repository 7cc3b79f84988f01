package client

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/internal/sse"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
)

const (
	headerSession = "Mcp-Session-Id"
	headerLastID  = "Last-Event-Id"

	maxErrorBody     = 64 << 10 // bytes of an error response that are read
	maxResumptions   = 5        // attempts to continue one stream without a new event
	minResumeDelay   = 10 * time.Millisecond
	maxResumeDelay   = 30 * time.Second
	closeTimeout     = 2 * time.Second // of the DELETE that ends a session
	maxSessionHeader = 1 << 10         // bytes of a session id
	maxRedirects     = 3               // of one request
)

// An httpLink is a session over Streamable HTTP, or the requests of a stateless server.
type httpLink struct {
	*dialer
	version string // the revision that requests name; "" before initialize
	modern  bool   // from 2026-07-28 on
	session atomic.Pointer[string]
}

// A dialer sends HTTP requests to one server.
type dialer struct {
	endpoint  string
	header    http.Header // of each request
	transport func() http.RoundTripper
}

// do sends a request. The response may have any status. It follows redirects that keep method, body and origin, such as
// from /mcp to /mcp/: others could lead the credentials elsewhere.
func (d *dialer) do(ctx context.Context, method, address string, body []byte, headers ...http.Header) (*http.Response, error) {
	for redirects := 0; ; redirects++ {
		r, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		for _, header := range append([]http.Header{d.header}, headers...) {
			maps.Copy(r.Header, header)
		}
		if body != nil {
			r.Header.Set("Content-Type", "application/json")
		}
		response, err := d.transport().RoundTrip(r)
		if err != nil {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			return nil, unreachable(err)
		}
		response.Request = r
		to := redirectTarget(response)
		if to == "" || redirects == maxRedirects {
			return response, nil
		}
		_ = response.Body.Close()
		address = to
	}
}

// redirectTarget returns the address that a redirect leads to, "" if it must not be followed.
func redirectTarget(r *http.Response) string {
	keepsMethod := r.StatusCode == http.StatusTemporaryRedirect || r.StatusCode == http.StatusPermanentRedirect ||
		r.Request.Method == http.MethodGet && r.StatusCode/100 == 3
	to, err := r.Location()
	if !keepsMethod || err != nil || to.User != nil || origin(to) != origin(r.Request.URL) {
		return ""
	}
	return to.String()
}

// origin returns the origin of a URL (RFC 6454).
func origin(u *url.URL) string {
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	return u.Scheme + "://" + strings.ToLower(u.Hostname()) + ":" + port
}

// statusError returns the error for a response that is no JSON-RPC message.
func statusError(r *http.Response) error {
	if r.StatusCode/100 == 2 {
		return fmt.Errorf("%w: it responded with %s", errNoTransport, describeMedia(r.Header.Get("Content-Type")))
	}
	e := &StatusError{Status: r.StatusCode, RetryAfter: r.Header.Get("Retry-After")}
	if r.StatusCode/100 == 3 {
		e.Location, _, _ = strings.Cut(r.Header.Get("Location"), "?") // the query may have secrets
	}
	return e
}

func describeMedia(contentType string) string {
	if media := httpheader.MediaType(contentType); media != "" {
		return fmt.Sprintf("the media type %.64q", media)
	}
	return "a body without Content-Type"
}

// headers returns the headers of a request in the session.
func (l *httpLink) headers() http.Header {
	h := http.Header{"Accept": {"application/json, text/event-stream"}}
	if l.version != "" {
		h[protocol.VersionHeader] = []string{l.version}
	}
	if id := l.session.Load(); id != nil {
		h[headerSession] = []string{*id}
	}
	return h
}

func (l *httpLink) isStateful() bool { return l.session.Load() != nil }

// exchange implements link: one POST. The response is a message, or a stream that ends with it.
func (l *httpLink) exchange(ctx context.Context, q *outgoing, receive func(message)) (message, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	header := l.headers()
	if l.modern {
		header[protocol.MethodHeader] = []string{q.method}
		if q.name != "" {
			header[protocol.NameHeader] = []string{protocol.EncodeHeader(q.name)}
		}
	}
	r, err := l.do(ctx, http.MethodPost, l.endpoint, q.encode(), q.header, header)
	if err != nil {
		return message{}, err
	}
	defer r.Body.Close()
	if id := r.Header.Get(headerSession); id != "" && len(id) <= maxSessionHeader && q.method == methodInitialize {
		l.session.Store(&id)
	}
	switch media := httpheader.MediaType(r.Header.Get("Content-Type")); {
	case r.StatusCode/100 != 2:
		return l.refused(r, q)
	case media == "text/event-stream":
		return l.follow(ctx, r, q, receive)
	case media == "application/json":
		return readResponse(r.Body, q)
	case media == "", media == "text/plain": // some servers do not label their JSON
		if m, err := readResponse(r.Body, q); err == nil {
			return m, nil
		}
	}
	return message{}, statusError(r)
}

// readResponse reads a response that is one message.
func readResponse(body io.Reader, q *outgoing) (message, error) {
	data, err := io.ReadAll(io.LimitReader(body, q.limit+1))
	switch {
	case err != nil:
		return message{}, unreachable(err)
	case int64(len(data)) > q.limit:
		return message{}, sse.ErrTooLarge
	}
	m, err := readMessage(data)
	if err == nil && !q.isResponse(&m) {
		err = errors.New("the MCP server responded with a message that is not the response to the request")
	}
	return m, err
}

// refused returns the result of a request that got an error status. A JSON-RPC error is the response.
func (l *httpLink) refused(r *http.Response, q *outgoing) (message, error) {
	body, _ := io.ReadAll(io.LimitReader(r.Body, maxErrorBody))
	m, err := readMessage(body)
	isError := err == nil && m.fault != nil
	switch {
	case l.isStateful() && (r.StatusCode == http.StatusNotFound || isError && isSessionError(m.fault)):
		return message{}, errSessionGone
	case l.isReplaced(r.StatusCode, &m, q):
		if isError {
			return message{}, fmt.Errorf("%w: %w", errSessionGone, m.fault)
		}
		return message{}, fmt.Errorf("%w: %w", errSessionGone, statusError(r))
	case isError && q.isResponse(&m):
		return m, nil
	case r.StatusCode == http.StatusBadGateway, r.StatusCode == http.StatusServiceUnavailable, r.StatusCode == http.StatusGatewayTimeout:
		return message{}, &UnavailableError{statusError(r)}
	}
	return message{}, statusError(r)
}

// isReplaced reports whether the server seems to be another one than the session was opened with, such as one of another
// era. It has not read the request then: an error of the request itself has its id.
func (l *httpLink) isReplaced(status int, m *message, q *outgoing) bool {
	switch {
	case q.method == methodInitialize || q.method == methodDiscover:
		return false
	case m.fault != nil && m.id != nil:
		return m.fault.Code == codeUnsupportedRevision || m.fault.Code == codeHeaderMismatch && !l.modern
	}
	return isUnknownSession(status)
}

// isUnknownSession reports whether a server that does not read a message, because it does not know its session, may
// respond with the status. Servers differ.
func isUnknownSession(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusNotFound || status == http.StatusMethodNotAllowed
}

// isSessionError reports whether a server that does not use the status 404 says that it does not know the session.
func isSessionError(e *Error) bool {
	return e.Code == codeSessionNotFound || e.Code != codeInvalidParams && lostSession.MatchString(e.Message)
}

// lostSession matches a message about a session that the server does not know any more.
var lostSession = regexp.MustCompile(`(?i)session.*\b(not found|unknown|expired|invalid|terminated|closed|does not exist|no longer|not initialized)\b|` +
	`\b(unknown|expired|invalid|no valid|no such|missing)\W+(mcp[ -]?)?session`)

// follow reads a stream until the response. If the stream breaks off and its events have ids, it is continued (MCP
// 2025-11-25, Resumability and Redelivery).
func (l *httpLink) follow(ctx context.Context, r *http.Response, q *outgoing, receive func(message)) (message, error) {
	s := &stream{q: q, receive: receive}
	for attempt := 0; ; attempt++ {
		before := s.last
		retry, err := s.read(r.Body)
		_ = r.Body.Close()
		if s.found || err != nil {
			return s.response, err
		}
		if s.last != before {
			attempt = 0
		}
		switch {
		case ctx.Err() != nil:
			return message{}, context.Cause(ctx)
		case s.last == "" || l.modern || attempt >= maxResumptions:
			return message{}, &UnavailableError{errors.New("its stream ended before the response")}
		}
		if err := pause(ctx, min(max(retry, minResumeDelay<<attempt), maxResumeDelay)); err != nil {
			return message{}, err
		}
		next, err := l.do(ctx, http.MethodGet, l.endpoint, nil, q.header, l.headers(),
			http.Header{"Accept": {"text/event-stream"}, headerLastID: {s.last}})
		if err != nil {
			continue
		}
		if next.StatusCode != http.StatusOK {
			defer next.Body.Close()
			return l.refused(next, q)
		}
		r = next
	}
}

// pause waits, or returns the error of ctx.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// A stream reads the messages of an event stream until the response to a request.
type stream struct {
	q        *outgoing
	receive  func(message)
	response message
	found    bool
	last     string // id of the last event that ended
	ended    bool   // the body has ended, perhaps within an event
	err      error
}

// errFound ends the reading of a stream.
var errFound = errors.New("the response has arrived")

func (s *stream) event(e sse.Event) error {
	if len(e.Data) == 0 { // the event only has an id
		return nil
	}
	m, err := readMessage(e.Data)
	switch {
	case err != nil && s.ended: // the event broke off
		return nil
	case err != nil:
		if id, isResponse := unreadableID(e.Data); !isResponse || id != "" && id != strconv.FormatInt(s.q.id, 10) {
			return nil // it costs the notification, not the call
		}
		s.err = err
		return err
	case s.q.isResponse(&m):
		s.response, s.found = m, true
		return errFound
	case m.method != "" && s.receive != nil:
		s.receive(m)
	}
	return nil
}

// read reads a body. It returns an error only if the stream must not be continued; otherwise, how long the server wants the client to wait
// before that. Some servers end the body without the empty line after the last event.
func (s *stream) read(body io.Reader) (retry time.Duration, err error) {
	parser := sse.NewParser(int(s.q.limit), s.event)
	defer parser.Release()
	_, err = io.Copy(parser, body)
	s.last, s.ended = cmp.Or(parser.LastID(), s.last), true
	if incomplete, failed := parser.Finish(); incomplete && failed == nil {
		_, _ = parser.Write([]byte("\n")) // the error is errFound: found says the same
	}
	s.ended = false
	switch {
	case s.found:
		return 0, nil
	case s.err != nil:
		return 0, s.err
	case errors.Is(err, sse.ErrTooLarge):
		return 0, err
	}
	return parser.Retry(), nil
}

// send implements link.
func (l *httpLink) send(ctx context.Context, header http.Header, data []byte) error {
	r, err := l.do(ctx, http.MethodPost, l.endpoint, data, header, l.headers())
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, maxErrorBody))
	_ = r.Body.Close()
	if r.StatusCode/100 != 2 {
		return statusError(r)
	}
	return nil
}

// listen implements link. Up to 2025-11-25, the server reports changes on the stream of a GET, if it has one.
func (l *httpLink) listen(ctx context.Context, changed func()) error {
	header := l.headers()
	header["Accept"] = []string{"text/event-stream"}
	r, err := l.do(ctx, http.MethodGet, l.endpoint, nil, header)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK || httpheader.MediaType(r.Header.Get("Content-Type")) != "text/event-stream" {
		return nil
	}
	for e, err := range sse.Events(r.Body, maxNotification) {
		if err != nil {
			return err
		}
		if m, err := readMessage(e.Data); err == nil && isListChange(m.method) {
			changed()
		}
	}
	return nil
}

// maxNotification is the largest message on a stream without a request, in bytes.
const maxNotification = 1 << 20

// isListChange reports whether a notification says that a list has changed.
func isListChange(method string) bool {
	return strings.HasPrefix(method, "notifications/") && strings.HasSuffix(method, "/list_changed")
}

// close implements link. It ends the session at the server.
func (l *httpLink) close() {
	if !l.isStateful() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if r, err := l.do(ctx, http.MethodDelete, l.endpoint, nil, l.headers()); err == nil {
		_ = r.Body.Close()
	}
}
