package mcpservers

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/app/credential"
	"github.com/fairwayhq/fairway/internal/oauth"
	"github.com/fairwayhq/fairway/mcpadapter/client"
	"github.com/fairwayhq/fairway/tools/source"
)

// A Server is the MCP server of a toolset. It is a source.Source of the OpenAPI document that is made of the server's
// tools.
type server struct {
	*client.Server
	name        string // of the toolset
	location    string
	config      *Config
	credentials atomic.Pointer[credential.Set] // for listing tools; those of the configuration that was loaded last

	mu   sync.Mutex
	stop context.CancelFunc // ends watch; nil if the server is not watched
	done chan struct{}      // closed when watch has ended
}

// Open implements app.MCPServer.
func (c *Config) Open(name string, logger *zap.Logger) (app.OpenMCPServer, error) {
	o, err := c.clientOptions(name)
	if err != nil {
		return nil, fmt.Errorf("mcp_server: %w", err)
	}
	return &server{Server: client.New(o, logger.With(zap.String("toolset", name))), name: name, location: o.Location(), config: c}, nil
}

// Use sets what the server needs of a configuration: the logger, the transport, and the credentials for listing tools.
// Credentials of users are not used for that.
func (s *server) Use(ctx caddy.Context, credentials credential.Set, logger *zap.Logger) error {
	c := s.config
	s.report(c, len(credentials) > 0 || len(c.Header) > 0, logger.With(zap.String("toolset", s.name), zap.String("server", s.location)))
	if credentials.IsPersonal() || credentials.ForCaller() {
		credentials = nil
	}
	s.credentials.Store(&credentials)
	logger = logger.With(zap.String("toolset", s.name))
	if len(c.Transport) == 0 {
		s.Server.Use(logger, nil)
		return nil
	}
	host := struct { // a copy, because LoadModule clears the field
		Transport json.RawMessage `caddy:"namespace=http.reverse_proxy.transport inline_key=protocol"`
	}{c.Transport}
	module, err := ctx.LoadModule(&host, "Transport")
	if err != nil {
		return fmt.Errorf("mcp_server: transport: %w", err)
	}
	tripper, ok := module.(http.RoundTripper)
	if !ok {
		return fmt.Errorf("mcp_server: transport: the module %T sends no requests", module)
	}
	s.Server.Use(logger, caddyTransport{tripper})
	return nil
}

// report logs which server is used, and a warning if secrets pass over the network in plain text.
func (s *server) report(c *Config, haveSecrets bool, logger *zap.Logger) {
	if len(c.Command) > 0 {
		logger.Info("the toolset starts an MCP server as a process, with the rights of the gateway")
		return
	}
	logger.Info("the toolset uses an MCP server")
	if haveSecrets && oauth.CheckAddress(s.location) != nil {
		logger.Warn("credentials for the MCP server are sent in plain text; use an https URL")
	}
}

// caddyTransport gives requests what transports of Caddy expect in their context.
type caddyTransport struct{ http.RoundTripper }

func (t caddyTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := context.WithValue(r.Context(), caddy.ReplacerCtxKey, caddy.NewReplacer())
	return t.RoundTripper.RoundTrip(r.WithContext(ctx))
}

// header returns the credentials for listing tools.
func (s *server) header(ctx context.Context) (http.Header, error) {
	set := s.credentials.Load()
	if set == nil || len(*set) == 0 {
		return nil, nil
	}
	supplement, err := set.Current(ctx)
	if err != nil {
		return nil, err
	}
	r := &http.Request{Header: make(http.Header), URL: new(url.URL)}
	supplement.Apply(r)
	return r.Header, nil
}

// Location implements source.Source.
func (s *server) Location() string { return s.location }

// Fetch implements source.Source: it lists the tools.
func (s *server) Fetch(ctx context.Context, previous *source.Snapshot) (*source.Snapshot, bool, error) {
	header, err := s.header(ctx)
	if err != nil {
		return nil, false, err
	}
	found, err := s.Discover(ctx, header)
	if err != nil {
		return nil, false, fmt.Errorf("toolset %s: listing the tools of the MCP server: %w", s.name, err)
	}
	snapshot, changed := source.NewSnapshot(found.Document(s.name, s.config.TrustAnnotations), s.location, previous)
	return snapshot, changed, nil
}

// changeDelay is how long a change waits for others before the tools are listed again.
const changeDelay = 500 * time.Millisecond

// Watch calls changed soon after the server has reported that its tools have changed, until Unwatch.
func (s *server) Watch(changed func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.stop, s.done = cancel, make(chan struct{})
	timer := time.AfterFunc(time.Hour, changed)
	timer.Stop()
	go func() {
		defer close(s.done)
		defer timer.Stop()
		s.Server.Watch(ctx, s.header, func() { timer.Reset(changeDelay) })
	}()
}

// Unwatch ends Watch and closes all connections to the server.
func (s *server) Unwatch() {
	s.mu.Lock()
	stop, done := s.stop, s.done
	s.stop = nil
	s.mu.Unlock()
	if stop != nil {
		stop()
	}
	s.Close()
	if done != nil {
		<-done
	}
}
