// Package redis has the guest module agents.stores.redis. Only the package that registers all modules imports
// it, so a build of single directives contains no client of Redis.
package redis

import (
	"errors"
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/app/archive"
	"github.com/fairwayhq/fairway/caddymodule/app/calllog"
	"github.com/fairwayhq/fairway/caddymodule/app/credential"
	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/review"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/redis"
)

func init() {
	caddy.RegisterModule(new(Store))
}

// Store is a store on a server of Redis 6 or later, or Valkey, that all nodes share.
type Store struct {
	// The server's URL: redis://[[user]:password@]host[:6379][/database], the same with
	// rediss:// for TLS, or unix://[[user]:password@]/path[?db=number]. Placeholders such as
	// {env.REDIS_URL} and {file.PATH} are replaced. Required.
	URL string `json:"url,omitempty"`

	// The prefix of all keys. Default: `fairway:`.
	Prefix string `json:"prefix,omitempty"`

	address string // URL with placeholders replaced
}

// CaddyModule returns the Caddy module information.
func (*Store) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "agents.stores.redis", New: func() caddy.Module { return new(Store) }}
}

// Provision checks the options.
func (s *Store) Provision(caddy.Context) error {
	if s.address = caddy.NewReplacer().ReplaceAll(s.URL, ""); s.address == "" {
		return errors.New("redis: url is empty, as in: store redis redis://127.0.0.1:6379/0")
	}
	if err := redis.CheckAddress(s.address); err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	return nil
}

// Key implements app.StoreModule.
func (s *Store) Key() string { return s.Prefix + " " + s.address }

// Shared implements app.StoreModule.
func (s *Store) Shared() bool { return true }

// Open implements app.StoreModule.
func (s *Store) Open(options store.Options) (store.Store, error) {
	return redis.Open(s.address, redis.Options{Options: options, Prefix: s.Prefix, Indexed: []string{
		engagement.KeyPrefix, engagement.TimeIndexPrefix, review.OpenPrefix, review.DecidedPrefix, credential.KeyPrefix, calllog.KeyPrefix,
		archive.StatePrefix,
	}})
}

// UnmarshalCaddyfile parses the options of the store. Syntax:
//
//	redis <url> {
//		prefix <text>
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
	return b.Read("store redis", directive.Options{"prefix": directive.To(b.Text, &s.Prefix)})
}

// Interface guards
var (
	_ app.StoreModule       = (*Store)(nil)
	_ caddy.Provisioner     = (*Store)(nil)
	_ caddyfile.Unmarshaler = (*Store)(nil)
)
