package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/internal/share"
)

const (
	// defaultMaxMessage is the largest message of a server, in bytes.
	defaultMaxMessage = 8 << 20

	// DefaultMaxProcesses is how many processes of one server run at most.
	DefaultMaxProcesses = 16

	// defaultMaxFails and defaultFailDuration are the defaults of Options.
	defaultMaxFails     = 3
	defaultFailDuration = 30 * time.Second

	maxSessions = 1000             // of one server, at the same time
	sessionIdle = 10 * time.Minute // after which a session without a call is closed
)

// Options describe a server. Endpoint or Command is required.
type Options struct {
	Name     string // of the toolset; for messages
	Endpoint string // URL of a server over HTTP

	// Header is sent with each request over HTTP.
	Header http.Header

	// Command starts a server that runs as a process.
	Command *Command

	// OwnProcesses gives each owner of calls a process of its own. By default all share one.
	OwnProcesses bool

	// MaxProcesses limits OwnProcesses. Default: DefaultMaxProcesses.
	MaxProcesses int

	// Retries is how often a call is sent again while the server is not available: a call that has not reached the
	// server, or one that only reads.
	Retries int

	// After MaxFails failures to connect in a row, calls fail at once for a while: a second at first, FailDuration at
	// most. Defaults: defaultMaxFails and defaultFailDuration.
	MaxFails     int
	FailDuration time.Duration

	// Version is that of the gateway, which the server gets as the version of the client.
	Version string
}

// Check returns an error for options that can never work.
func (o *Options) Check() error {
	switch {
	case (o.Endpoint == "") == (o.Command == nil):
		return errors.New("an MCP server has either a URL or a command")
	case o.Command != nil && len(o.Header) > 0:
		return errors.New("a process has no headers: give it what it needs with env")
	case o.Command != nil:
		return nil
	case o.OwnProcesses:
		return errors.New("a server at a URL has no processes")
	}
	u, err := url.Parse(o.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.Fragment != "" {
		return errors.New("the address of an MCP server must be an http or https URL without user and fragment; give secrets with header or credential")
	}
	return nil
}

// Location returns the address of the server without its query, or its program.
func (o *Options) Location() string {
	if o.Command != nil {
		return o.Command.Path
	}
	address, _, _ := strings.Cut(o.Endpoint, "?")
	return address
}

// A Server calls one MCP server. It is safe for concurrent use.
type Server struct {
	options Options
	logger  atomic.Pointer[zap.Logger]
	tripper atomic.Pointer[http.RoundTripper]
	era     atomic.Int32 // era of the server, as found out last

	mu        sync.Mutex
	sessions  map[share.Owner]*slot
	stateless *slot // of a session that serves all owners; nil if there is none
	backoff   backoff
	closed    bool
	sweeper   *time.Timer

	parked parkedCalls

	stopped context.Context // done when Close was called
	stop    context.CancelCauseFunc
}

// errStopping is the error of calls when the server is closed.
var errStopping = &UnavailableError{errors.New("the gateway is stopping")}

// New returns a Server. It does not connect to it.
func New(o Options, logger *zap.Logger) *Server {
	o.MaxProcesses = cmp.Or(o.MaxProcesses, DefaultMaxProcesses)
	o.MaxFails, o.FailDuration = cmp.Or(o.MaxFails, defaultMaxFails), cmp.Or(o.FailDuration, defaultFailDuration)
	s := &Server{options: o, sessions: make(map[share.Owner]*slot)}
	s.stopped, s.stop = context.WithCancelCause(context.Background())
	s.logger.Store(logger)
	s.parked.calls = make(map[string]*exchange)
	return s
}

// Use sets the logger and the transport of HTTP requests from now on. A nil transport is http.DefaultTransport.
func (s *Server) Use(logger *zap.Logger, transport http.RoundTripper) {
	s.logger.Store(logger)
	if transport != nil {
		s.tripper.Store(&transport)
	}
}

func (s *Server) transport() http.RoundTripper {
	if t := s.tripper.Load(); t != nil {
		return *t
	}
	return http.DefaultTransport
}

func (s *Server) dialer() *dialer {
	return &dialer{endpoint: s.options.Endpoint, header: s.options.Header, transport: s.transport}
}

// Close ends all sessions and processes. Calls in progress fail.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	if s.sweeper != nil {
		s.sweeper.Stop()
	}
	sessions := s.sessions
	s.sessions, s.stateless = make(map[share.Owner]*slot), nil
	s.mu.Unlock()
	s.stop(errStopping)
	s.parked.close()
	var ended sync.WaitGroup
	for _, slot := range sessions {
		ended.Go(slot.close)
	}
	ended.Wait()
}

// A backoff lets calls fail at once for a while after several failures to connect.
type backoff struct {
	failures int
	until    time.Time
	err      error
}

const minBackoff = time.Second

// check returns an error while calls fail at once.
func (b *backoff) check() error {
	if wait := time.Until(b.until); wait > 0 {
		return &UnavailableError{fmt.Errorf("%w: the gateway connects again in %v: %w", errUnsent, wait.Round(time.Second)+time.Second, b.err)}
	}
	return nil
}

// record records the result of connecting.
func (b *backoff) record(err error, o *Options) {
	switch unavailable := (*UnavailableError)(nil); {
	case err == nil:
		*b = backoff{}
	case !errors.As(err, &unavailable):
	default:
		b.err = unavailable.Err
		if b.failures++; b.failures >= o.MaxFails {
			b.until = time.Now().Add(min(minBackoff<<min(b.failures-o.MaxFails, 10), o.FailDuration))
		}
	}
}
