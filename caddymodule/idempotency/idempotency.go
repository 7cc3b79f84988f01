// Package idempotency has the option idempotency of mcp and otc: how calls with a key of the client are recorded, so that each of them
// runs once. Package once runs them.
package idempotency

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/tools/once"
)

// Config configures how calls with an idempotency key from the client, which OTC names call_id, are recorded:
//
//   - A repeated call gets the stored response of the first call.
//   - A call with the same key and other content is rejected.
//   - If the node died during the call, or the response was too large to store, a repeated call
//     runs again if its method is idempotent. Otherwise the repeated call fails with an error
//     that says so.
//
// Records are in the store of the agents app, which limits their number.
type Config struct {
	// Whether to turn records off, so that every request runs. Default: false.
	Off bool `json:"off,omitempty"`

	// How long a record is kept. Default: 24h.
	TTL caddy.Duration `json:"ttl,omitempty"`

	// The largest response that is stored, in bytes, at most 768 KiB. If a call had a larger
	// response, a repeated call runs again if its method is idempotent. Otherwise the repeated
	// call fails with the error that the first one has run. Default: 64 KiB.
	MaxSize int64 `json:"max_size,omitempty"`

	// How long after its last heartbeat a call of another node counts as dead. The clocks of
	// the nodes must not differ by more. Default: 15s.
	Lease caddy.Duration `json:"lease,omitempty"`

	// The key with which contents are hashed, so that credentials cannot be guessed from a copy
	// of the store. It must be the same on all nodes. Placeholders such as {env.SECRET} and
	// {file.PATH} are replaced. Default: a random key, which is kept in the store itself.
	Secret string `json:"secret,omitempty"`
}

// Provision returns the adapter's options for an endpoint. It returns nil if records are off.
func (i *Config) Provision(e *route.Endpoint) (*once.Options, error) {
	if i == nil {
		i = new(Config)
	}
	if i.Off {
		if e.Protocol == "mcp" && slices.ContainsFunc(e.Parts.All, func(p *route.Part) bool { return p.Toolset.Key.IdempotencyArgument }) {
			return nil, errors.New("idempotency off: a toolset has idempotency argument, which would have no effect; remove one")
		}
		return nil, nil
	}
	secret := caddy.NewReplacer().ReplaceAll(i.Secret, "")
	if i.Secret != "" && len(secret) < directive.MinSecret {
		return nil, fmt.Errorf("idempotency: secret has %d bytes and needs at least %d", len(secret), directive.MinSecret)
	}
	endpoint := []string{e.Path}
	for _, part := range e.Parts.All {
		endpoint = append(endpoint, part.Toolset.Name)
	}
	return &once.Options{
		Open:        e.App.OpenStore,
		Endpoint:    strings.Join(endpoint, "\n"),
		TTL:         time.Duration(i.TTL),
		Lease:       time.Duration(i.Lease),
		MaxResponse: int(i.MaxSize),
		Wait:        e.Parts.All[0].Toolset.Limits.Timeout + e.Polling,
		Key:         []byte(secret),
		Failed:      e.App.StoreErrors(e.Logger.With(zap.String("path", e.Path)), "recording a call failed"),
	}, nil
}

// Read reads `idempotency off` or the block of idempotency.
func Read(outer *directive.Block, to **Config) error {
	if err := outer.Once(); err != nil {
		return err
	}
	config := new(Config)
	*to = config
	switch arguments := outer.RemainingArgs(); {
	case len(arguments) == 1 && arguments[0] == "off":
		config.Off = true
	case len(arguments) > 0:
		return outer.Err("idempotency takes off or a block of options")
	}
	b := directive.NewBlock(outer.Dispenser)
	return b.Read("idempotency", directive.Options{
		"ttl":      directive.To(b.Duration, &config.TTL),
		"max_size": directive.To(b.Size, &config.MaxSize),
		"lease":    directive.To(b.Duration, &config.Lease),
		"secret":   directive.To(b.Text, &config.Secret),
	})
}

// Validate returns an error for options that are out of range.
func (i *Config) Validate() error {
	switch {
	case i == nil:
		return nil
	case i.Off && *i != Config{Off: true}:
		return errors.New("idempotency: off cannot be combined with other options")
	case i.TTL < 0 || time.Duration(i.TTL) > store.MaxTTL:
		return fmt.Errorf("idempotency: ttl %s is not between 0 and %s", time.Duration(i.TTL), store.MaxTTL)
	case i.Lease != 0 && (time.Duration(i.Lease) < minLease || time.Duration(i.Lease) > maxLease):
		return fmt.Errorf("idempotency: lease %s is not between %s and %s", time.Duration(i.Lease), minLease, maxLease)
	case i.MaxSize < 0 || i.MaxSize > once.MaxResponse:
		return fmt.Errorf("idempotency: max_size %d is not between 0 and %d bytes", i.MaxSize, once.MaxResponse)
	}
	return nil
}

const (
	minLease = time.Second    // leaves a node enough time between heartbeats
	maxLease = 24 * time.Hour // limits how long a client waits until the call of a dead node is reported
)
