// Package tokenserver is an example of a guest module of agents.credentials: a token that another server issues.
package tokenserver

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/fairwayhq/fairway/caddymodule/app/credential"
)

func init() {
	caddy.RegisterModule(new(TokenServer))
}

// Limits of a request for a token.
const (
	lifetime = time.Minute      // of a token in memory
	timeout  = 10 * time.Second // of a request
	maxToken = 8 << 10          // bytes
)

// TokenServer sends a token that another server issues in the header Authorization.
type TokenServer struct {
	// The URL that responds to GET with the token as text. Required.
	URL string `json:"url,omitempty"`

	mu      sync.Mutex
	token   string
	expires time.Time
}

// CaddyModule returns the Caddy module information.
func (*TokenServer) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "agents.credentials.token_server", New: func() caddy.Module { return new(TokenServer) }}
}

// Location implements credential.Module.
func (*TokenServer) Location() credential.Location { return credential.Location{Name: "Authorization"} }

// Secret implements credential.Module. It fetches a token at most once a minute.
func (s *TokenServer) Secret(ctx context.Context, _ *caddy.Replacer) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Now().Before(s.expires) {
		return "Bearer " + s.token, nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxToken))
	if err != nil {
		return "", err
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("the token server responds with status %d", response.StatusCode)
	}
	s.token, s.expires = strings.TrimSpace(string(body)), time.Now().Add(lifetime)
	return "Bearer " + s.token, nil
}

// UnmarshalCaddyfile parses: token_server <url>
func (s *TokenServer) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // token_server
	if !d.AllArgs(&s.URL) || d.NextBlock(d.Nesting()) {
		return d.Err("token_server needs a URL, as in: credential token_server http://127.0.0.1:8200/token")
	}
	return nil
}

// Interface guards
var (
	_ credential.Module     = (*TokenServer)(nil)
	_ caddyfile.Unmarshaler = (*TokenServer)(nil)
)
