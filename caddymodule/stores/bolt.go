package stores

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/embedded"
)

func init() {
	caddy.RegisterModule(new(BoltStore))
}

// BoltStore is a store in a file of this node. Only one process can have it open.
type BoltStore struct {
	// The path of the file. Placeholders such as {env.NAME} are replaced. Default:
	// fairway/store.db in Caddy's data directory.
	File string `json:"file,omitempty"`

	// The maximum number of records. Above three quarters of it, users and networks have shares of
	// the rest. A changed limit takes effect when the process restarts. Default: 1000000.
	MaxRecords int `json:"max_records,omitempty"`

	// The maximum total size of all records, in bytes. The file can be twice as large. Default:
	// 1 GiB.
	MaxSize int64 `json:"max_size,omitempty"`

	path string // absolute
}

// CaddyModule returns the Caddy module information.
func (*BoltStore) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: storesNamespace + ".bolt", New: func() caddy.Module { return new(BoltStore) }}
}

// Provision checks the options.
func (s *BoltStore) Provision(caddy.Context) error {
	if s.MaxRecords < 0 || s.MaxSize < 0 {
		return errors.New("bolt: max_records and max_size must not be negative")
	}
	s.path = filepath.Join(caddy.AppDataDir(), "fairway", "store.db")
	if s.File != "" {
		if s.path = caddy.NewReplacer().ReplaceAll(s.File, ""); s.path == "" {
			return fmt.Errorf("bolt: file %s is empty", s.File)
		}
	}
	var err error
	if s.path, err = filepath.Abs(s.path); err != nil {
		return fmt.Errorf("bolt: %w", err)
	}
	return nil
}

// Key implements StoreModule.
func (s *BoltStore) Key() string { return s.path }

// Shared implements StoreModule.
func (s *BoltStore) Shared() bool { return false }

// Validate checks the folder and the header of a configured file. It takes no lock, and changes nothing.
func (s *BoltStore) Validate() error {
	if s.File == "" {
		return nil
	}
	return embedded.CheckPlace(s.path)
}

// Open implements StoreModule.
func (s *BoltStore) Open(options store.Options) (store.Store, error) {
	return embedded.Open(s.path, embedded.Options{Options: options, MaxRecords: int64(s.MaxRecords), MaxBytes: s.MaxSize})
}

// UnmarshalCaddyfile parses the options of the store. Syntax:
//
//	bolt [<file>] {
//		max_records <number>
//		max_size    <size>
//	}
func (s *BoltStore) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the module
	if d.NextArg() {
		if s.File = d.Val(); s.File == "" || strings.Contains(s.File, "://") {
			return d.Errf("store bolt %q is not a file name", s.File)
		}
	}
	if d.NextArg() {
		return d.ArgErr()
	}
	b := directive.NewBlock(d)
	return b.Read("store bolt", directive.Options{
		"max_records": directive.To(b.Positive, &s.MaxRecords),
		"max_size":    directive.To(b.Size, &s.MaxSize),
	})
}

// Interface guards
var (
	_ StoreModule           = (*BoltStore)(nil)
	_ caddy.Provisioner     = (*BoltStore)(nil)
	_ caddy.Validator       = (*BoltStore)(nil)
	_ caddyfile.Unmarshaler = (*BoltStore)(nil)
)
