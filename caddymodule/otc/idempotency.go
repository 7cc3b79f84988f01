package otc

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/otcadapter/idempotency"
	"github.com/fairwayhq/fairway/store"
)

// Idempotency configures how calls with a call_id from the client are recorded:
//
//   - A repeated call gets the stored response of the first call.
//   - A call with the same call_id and other content is rejected.
//   - If the node died during the call, or the response was too large to store, a repeated call
//     runs again if its method is idempotent. Otherwise the repeated call fails with an error
//     that says so.
//
// Records are in the store of the agents app, which limits their number.
type Idempotency struct {
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

// provision returns the adapter's options. It returns nil if records are off.
func (i *Idempotency) provision(ctx caddy.Context, o *Handler) (*idempotency.Options, error) {
	if i == nil {
		i = new(Idempotency)
	}
	if i.Off {
		return nil, nil
	}
	agents, err := app.Of(ctx)
	if err != nil {
		return nil, err
	}
	secret := caddy.NewReplacer().ReplaceAll(i.Secret, "")
	if i.Secret != "" && len(secret) < directive.MinSecret {
		return nil, fmt.Errorf("idempotency: secret has %d bytes and needs at least %d", len(secret), directive.MinSecret)
	}
	options := &idempotency.Options{
		Open:        agents.OpenStore,
		Endpoint:    o.identity(),
		TTL:         time.Duration(i.TTL),
		Lease:       time.Duration(i.Lease),
		MaxResponse: int(i.MaxSize),
		Failed:      agents.StoreErrors(o.endpoint.Logger.With(zap.String("path", o.Path)), "recording a call failed"),
	}
	if secret != "" {
		options.Key = []byte(secret)
	}
	return options, nil
}

// identity identifies the endpoint in the store by its path and toolsets.
func (o *Handler) identity() string {
	names := append(make([]string, 0, 1+len(o.endpoint.Parts.All)), o.endpoint.Path)
	for _, part := range o.endpoint.Parts.All {
		names = append(names, part.Toolset.Name)
	}
	return strings.Join(names, "\n")
}

// validate returns an error for options that are out of range.
func (i *Idempotency) validate() error {
	switch {
	case i == nil:
		return nil
	case i.Off && *i != Idempotency{Off: true}:
		return errors.New("idempotency: off cannot be combined with other options")
	case i.TTL < 0 || time.Duration(i.TTL) > store.MaxTTL:
		return fmt.Errorf("idempotency: ttl %s is not between 0 and %s", time.Duration(i.TTL), store.MaxTTL)
	case i.Lease != 0 && (time.Duration(i.Lease) < minLease || time.Duration(i.Lease) > maxLease):
		return fmt.Errorf("idempotency: lease %s is not between %s and %s", time.Duration(i.Lease), minLease, maxLease)
	case i.MaxSize < 0 || i.MaxSize > idempotency.MaxResponse:
		return fmt.Errorf("idempotency: max_size %d is not between 0 and %d bytes", i.MaxSize, idempotency.MaxResponse)
	}
	return nil
}

const (
	// minLease leaves a node enough time between heartbeats.
	minLease = time.Second

	// maxLease limits how long a client has to wait until the call of a dead node is reported.
	maxLease = 24 * time.Hour
)
