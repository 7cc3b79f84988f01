// Package memory is an example of a guest module of agents.stores: a store that keeps its records in memory.
package memory

import (
	"errors"
	"strconv"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/fairwayhq/fairway/caddymodule/stores"
	"github.com/fairwayhq/fairway/store"
)

func init() {
	caddy.RegisterModule(new(Memory))
}

// Memory is a store in the memory of this process.
type Memory struct {
	// The maximum number of records. Default: 100000.
	MaxRecords int `json:"max_records,omitempty"`
}

// CaddyModule returns the Caddy module information.
func (*Memory) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "agents.stores.memory", New: func() caddy.Module { return new(Memory) }}
}

// Provision checks the options. It does not open the store.
func (m *Memory) Provision(caddy.Context) error {
	if m.MaxRecords < 0 {
		return errors.New("memory: max_records must not be negative")
	}
	if m.MaxRecords == 0 {
		m.MaxRecords = 100_000
	}
	return nil
}

// Key implements stores.StoreModule. All configurations use the same memory.
func (*Memory) Key() string { return "" }

// Shared implements stores.StoreModule. No other node can read this memory.
func (*Memory) Shared() bool { return false }

// Open implements stores.StoreModule. records.go has the store.
func (m *Memory) Open(options store.Options) (store.Store, error) {
	return newRecords(options, m.MaxRecords), nil
}

// UnmarshalCaddyfile parses: memory [<max_records>]
func (m *Memory) UnmarshalCaddyfile(d *caddyfile.Dispenser) (err error) {
	d.Next() // memory
	if d.NextArg() {
		if m.MaxRecords, err = strconv.Atoi(d.Val()); err != nil {
			return d.Errf("memory: %q is not a number of records", d.Val())
		}
	}
	if d.NextArg() || d.NextBlock(d.Nesting()) {
		return d.ArgErr()
	}
	return nil
}

// Interface guards
var (
	_ stores.StoreModule    = (*Memory)(nil)
	_ caddy.Provisioner     = (*Memory)(nil)
	_ caddyfile.Unmarshaler = (*Memory)(nil)
)
