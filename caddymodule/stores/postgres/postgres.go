// Package postgres has the guest module agents.stores.postgres. Only the package that registers all modules imports
// it, so a build of single directives contains no client of Postgres.
package postgres

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/caddymodule/stores"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/postgres"
)

func init() {
	caddy.RegisterModule(new(Store))
}

// Store is a store in a database of Postgres 13 or later that all nodes share.
type Store struct {
	// The database's URL: postgres://[user[:password]@]host[:5432]/database[?sslmode=verify-full]. Placeholders
	// such as {env.DATABASE_URL} and {file.PATH} are replaced. Required.
	URL string `json:"url,omitempty"`

	// The schema of the tables. It is created if it does not exist. Default: `fairway`.
	Schema string `json:"schema,omitempty"`

	// The maximum total size of all records, in bytes. Above three quarters of it, users and networks have shares
	// of the rest. A changed limit takes effect when the process restarts. Default: 10 GiB.
	MaxSize int64 `json:"max_size,omitempty"`

	address string // URL with placeholders replaced
}

// CaddyModule returns the Caddy module information.
func (*Store) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "agents.stores.postgres", New: func() caddy.Module { return new(Store) }}
}

// Provision checks the options.
func (s *Store) Provision(caddy.Context) error {
	if s.address = caddy.NewReplacer().ReplaceAll(s.URL, ""); s.address == "" {
		return errors.New("postgres: url is empty, as in: store postgres postgres://127.0.0.1/fairway")
	}
	if s.MaxSize < 0 {
		return errors.New("postgres: max_size must not be negative")
	}
	if err := postgres.Check(s.address, s.schema()); err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	return nil
}

func (s *Store) schema() string { return cmp.Or(s.Schema, postgres.DefaultSchema) }

// Key implements stores.StoreModule.
func (s *Store) Key() string { return s.schema() + " " + s.address }

// Shared implements stores.StoreModule.
func (s *Store) Shared() bool { return true }

// Open implements stores.StoreModule.
func (s *Store) Open(options store.Options) (store.Store, error) {
	return postgres.Open(s.address, postgres.Options{Options: options, Schema: s.schema(), MaxBytes: s.MaxSize})
}

// UnmarshalCaddyfile parses the options of the store. Syntax:
//
//	postgres <url> {
//		schema   <name>
//		max_size <size>
//	}
func (s *Store) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the module
	if !d.Args(&s.URL) {
		return d.Err("store postgres needs a url, as in: store postgres postgres://127.0.0.1/fairway")
	}
	if d.NextArg() {
		return d.ArgErr()
	}
	if s.URL == "" {
		return d.Err("the url of store postgres is empty")
	}
	b := directive.NewBlock(d)
	return b.Read("store postgres", directive.Options{
		"schema":   directive.To(b.Text, &s.Schema),
		"max_size": directive.To(b.Size, &s.MaxSize),
	})
}

// Interface guards
var (
	_ stores.StoreModule    = (*Store)(nil)
	_ caddy.Provisioner     = (*Store)(nil)
	_ caddyfile.Unmarshaler = (*Store)(nil)
)
