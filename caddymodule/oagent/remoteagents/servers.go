// Package remoteagents configures the servers whose agents may be capabilities: the subdirective
// remote_agents of the directive oagent. Package github.com/fairwayhq/fairway/oagent/remote makes
// the calls.
package remoteagents

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/agents/credential"
	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/oagent/remote"
)

// maxCertificates is the maximum size of a file of certificates, in bytes.
const maxCertificates = 1 << 20

// Servers configures servers whose agents may be capabilities.
type Servers struct {
	// The host names of the servers, with a port unless it is 443. Each name must match exactly.
	// Required. Default: none.
	Hosts []string `json:"hosts,omitempty"`

	// The credentials to send to the servers. They are the operator's, so all users of the agents
	// act with them. Default: none.
	Credentials []json.RawMessage `json:"credentials,omitempty" caddy:"namespace=agents.credentials inline_key=in"`

	// Whether to send the caller's header Authorization to the servers, in place of the
	// operator's, for capabilities with the caller's identity. Default: false.
	ForwardCaller bool `json:"forward_caller,omitempty"`

	// Whether to connect to addresses that are not public: loopback, private networks, and those
	// that are reserved. Use it for servers of an intranet and for tests only. Default: false.
	AllowPrivateAddresses bool `json:"allow_private_addresses,omitempty"`

	// Files with the certificates, in PEM form, of the authorities that the servers' certificates
	// may be from. Placeholders such as {env.NAME} are replaced. Default: the authorities of the
	// system.
	TrustedCA []string `json:"trusted_ca,omitempty"`

	// How long a call of an agent may take. Default: 5m.
	Timeout caddy.Duration `json:"timeout,omitempty"`
}

// NewClient returns a client for the configured servers.
func NewClient(ctx caddy.Context, configured []*Servers, logger *zap.Logger) (*remote.Client, error) {
	options := remote.Options{Report: func(reference string, err error) {
		logger.Warn("calling an agent of another server failed", zap.String("agent", reference), zap.Error(err))
	}}
	for _, s := range configured {
		hosts, err := s.hosts(ctx, logger)
		if err != nil {
			return nil, fmt.Errorf("remote_agents: %w", err)
		}
		options.Hosts = append(options.Hosts, hosts...)
	}
	client, err := remote.New(options)
	if err != nil {
		return nil, fmt.Errorf("remote_agents: %w", err)
	}
	return client, nil
}

func (s *Servers) hosts(ctx caddy.Context, logger *zap.Logger) ([]remote.Host, error) {
	if s == nil || len(s.Hosts) == 0 {
		return nil, errors.New("no hosts: name the servers whose agents may be called")
	}
	if err := directive.NotNegative("timeout", int64(s.Timeout)); err != nil {
		return nil, err
	}
	credentials, err := credential.Load(ctx, s.Credentials, logger)
	if err != nil {
		return nil, err
	}
	roots, err := readCertificates(s.TrustedCA)
	if err != nil {
		return nil, err
	}
	hosts := make([]remote.Host, len(s.Hosts))
	for i, name := range s.Hosts {
		hosts[i] = remote.Host{
			Name: name, ForwardCaller: s.ForwardCaller, AllowPrivateAddresses: s.AllowPrivateAddresses,
			Roots: roots, Timeout: time.Duration(s.Timeout), Authorize: credentials.Apply,
		}
	}
	return hosts, nil
}

// readCertificates returns the certificates of the files, nil if there are no files.
func readCertificates(files []string) (*x509.CertPool, error) {
	if len(files) == 0 {
		return nil, nil
	}
	pool := x509.NewCertPool()
	for _, path := range files {
		path = caddy.NewReplacer().ReplaceAll(path, "")
		file, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("trusted_ca: %w", err)
		}
		pem, err := buffer.ReadLimited(file, maxCertificates)
		_ = file.Close()
		if err != nil {
			return nil, fmt.Errorf("trusted_ca: reading %s: %w", path, err)
		}
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("trusted_ca: %s has no certificate in PEM form", path)
		}
	}
	return pool, nil
}
