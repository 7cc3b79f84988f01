// Package redis has the guest module agents.stores.redis. Only the package that registers all modules imports
// it, so a build of single directives contains no client of Redis.
package redis

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app/credential"
	"github.com/fairwayhq/fairway/caddymodule/archive"
	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/caddymodule/internal/calllog"
	"github.com/fairwayhq/fairway/caddymodule/stores"
	"github.com/fairwayhq/fairway/files"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/review"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/redis"
)

func init() {
	caddy.RegisterModule(new(Store))
}

// maxClientLog limits a logged message of the client library, in bytes.
const maxClientLog = 1000

// Store is a store on a server of Redis 6.2 or later, or Valkey, that all nodes share.
type Store struct {
	// The server's URL: redis://[[user]:password@]host[:6379][/database], the same with
	// rediss:// for TLS, or unix://[[user]:password@]/path[?db=number]. Placeholders such as
	// {env.REDIS_URL} and {file.PATH} are replaced, here and in the other options. Required.
	URL string `json:"url,omitempty"`

	// The prefix of all keys. In a cluster it gets braces, as in `{fairway:}`. Default: `fairway:`.
	Prefix string `json:"prefix,omitempty"`

	// Whether the server is one of a Redis Cluster. Default: false.
	Cluster bool `json:"cluster,omitempty"`

	// The name of the master, if the URL is that of a sentinel. The user, the password and the
	// database of the URL are then those of the master. Default: no sentinels.
	Sentinel string `json:"sentinel,omitempty"`

	// More servers of the cluster, or more sentinels, as host:port. Default: none.
	Addresses []string `json:"addresses,omitempty"`

	// The user for the sentinels. Default: none.
	SentinelUser string `json:"sentinel_user,omitempty"`

	// The password for the sentinels. Default: none.
	SentinelPassword string `json:"sentinel_password,omitempty"`

	// A PEM file with the certificates of the CAs that servers and sentinels are verified with.
	// Default: the CAs of the system.
	TLSCA string `json:"tls_ca,omitempty"`

	address string // URL with placeholders replaced
	options redis.Options
}

// CaddyModule returns the Caddy module information.
func (*Store) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "agents.stores.redis", New: func() caddy.Module { return new(Store) }}
}

// Provision checks the options.
func (s *Store) Provision(caddy.Context) error {
	redis.LogTo(logClient)
	replacer := caddy.NewReplacer()
	replaced := func(source string) string { return replacer.ReplaceAll(source, "") }
	if s.address = replaced(s.URL); s.address == "" {
		return errors.New("redis: url is empty, as in: store redis redis://127.0.0.1:6379/0")
	}
	s.options = redis.Options{
		Prefix: s.Prefix, Cluster: s.Cluster, Sentinel: replaced(s.Sentinel),
		SentinelUser: replaced(s.SentinelUser), SentinelPassword: replaced(s.SentinelPassword),
		Indexed: []string{
			engagement.KeyPrefix, engagement.TimeIndexPrefix, review.OpenPrefix, review.DecidedPrefix, credential.KeyPrefix, calllog.KeyPrefix,
			archive.StatePrefix, files.KeyPrefix,
		},
	}
	for _, address := range s.Addresses {
		s.options.Addresses = append(s.options.Addresses, replaced(address))
	}
	if s.TLSCA != "" {
		file, err := os.ReadFile(replaced(s.TLSCA))
		if err != nil {
			return fmt.Errorf("redis: tls_ca: %w", err)
		}
		if s.options.RootCAs = x509.NewCertPool(); !s.options.RootCAs.AppendCertsFromPEM(file) {
			return fmt.Errorf("redis: tls_ca: %s has no certificate in PEM", s.TLSCA)
		}
	}
	if err := redis.Check(s.address, s.options); err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	return nil
}

// logClient logs a message of the client library at the level debug, since errors of the store say the same. It uses the
// logger of the running configuration, because the library has one logger for the whole process.
func logClient(message string) {
	if entry := caddy.Log().Named("agents.stores.redis").Check(zap.DebugLevel, "the client of Redis reports"); entry != nil {
		entry.Write(zap.String("message", text.Cut(message, maxClientLog)))
	}
}

// Key implements stores.StoreModule.
func (s *Store) Key() string {
	o := s.options
	return fmt.Sprintf("%s %s %t %q %q %q %q %s", s.Prefix, s.address, o.Cluster, o.Sentinel, o.Addresses, o.SentinelUser, o.SentinelPassword, s.TLSCA)
}

// Shared implements stores.StoreModule.
func (s *Store) Shared() bool { return true }

// Open implements stores.StoreModule.
func (s *Store) Open(options store.Options) (store.Store, error) {
	o := s.options
	o.Options = options
	return redis.Open(s.address, o)
}

// UnmarshalCaddyfile parses the options of the store. Syntax:
//
//	redis <url> {
//		prefix            <text>
//		cluster           [<host:port>...]
//		sentinel          <master> [<host:port>...]
//		sentinel_user     <name>
//		sentinel_password <password>
//		tls_ca            <pem_file>
//	}
func (s *Store) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the module
	if !d.Args(&s.URL) {
		return d.Err("store redis needs a url, as in: store redis redis://127.0.0.1:6379/0")
	}
	if d.NextArg() {
		return d.ArgErr()
	}
	if s.URL == "" {
		return d.Err("the url of store redis is empty")
	}
	b := directive.NewBlock(d)
	return b.Read("store redis", directive.Options{
		"prefix": directive.To(b.Text, &s.Prefix),
		"cluster": func() error {
			s.Cluster = true
			return s.readServers(b)
		},
		"sentinel": func() error {
			if err := s.readServers(b); err != nil || len(s.Addresses) == 0 {
				return cmp.Or(err, b.Err("sentinel needs the name of the master, as in: sentinel mymaster 10.0.0.2:26379"))
			}
			s.Sentinel, s.Addresses = s.Addresses[0], s.Addresses[1:]
			return nil
		},
		"sentinel_user":     directive.To(b.Text, &s.SentinelUser),
		"sentinel_password": directive.To(b.Text, &s.SentinelPassword),
		"tls_ca":            directive.To(b.Text, &s.TLSCA),
	})
}

// readServers reads the arguments of cluster or sentinel, of which a block has one.
func (s *Store) readServers(b *directive.Block) error {
	if b.Seen["cluster"] || b.Seen["sentinel"] {
		return b.Err("a block has one option cluster or sentinel")
	}
	b.Seen[b.Val()] = true
	s.Addresses = b.RemainingArgs()
	return nil
}

// Interface guards
var (
	_ stores.StoreModule    = (*Store)(nil)
	_ caddy.Provisioner     = (*Store)(nil)
	_ caddyfile.Unmarshaler = (*Store)(nil)
)
