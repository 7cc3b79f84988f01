package otc

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/agents"
	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/internal/store"
	"github.com/fairwayhq/fairway/otcadapter"
)

// Idempotency says how calls are kept that their client has given a call_id. A
// repeated call gets the answer of the first; one with other content is refused;
// one whose node died in the middle, or whose answer was too large, is reported,
// and run again only if its method is idempotent. Records are in the store of the
// agents app, which bounds their number.
type Idempotency struct {
	// Runs each request, whatever its call_id is.
	Off bool `json:"off,omitempty"`

	// How long a record is kept. Default: 24h.
	TTL caddy.Duration `json:"ttl,omitempty"`

	// The largest answer that is kept, in bytes, up to 768 KiB. A call with a
	// larger one runs again if it is repeated and its method is idempotent; of
	// others it is told that they ran. Default: 64 KiB.
	MaxSize int64 `json:"max_size,omitempty"`

	// How long after its last sign of life a call of another node counts as
	// dead. The clocks of the nodes must not be further apart. Default: 15s.
	Lease caddy.Duration `json:"lease,omitempty"`

	// The secret with which contents are hashed, so that credentials cannot be
	// guessed from a copy of the store; the same on all nodes. Placeholders such
	// as {env.SECRET} and {file.PATH} are replaced. Default: a random one, which
	// is kept in the store itself.
	Secret string `json:"secret,omitempty"`
}

// provision returns the options of the adapter, nil for none.
func (i *Idempotency) provision(ctx caddy.Context, o *Handler) (*otcadapter.Idempotency, error) {
	if i == nil {
		i = new(Idempotency)
	}
	if i.Off {
		return nil, nil
	}
	app, err := ctx.App("agents")
	if err != nil {
		return nil, err
	}
	secret := caddy.NewReplacer().ReplaceAll(i.Secret, "")
	if i.Secret != "" && len(secret) < directive.MinSecret {
		return nil, fmt.Errorf("idempotency: the secret has %d bytes, and %d are the least", len(secret), directive.MinSecret)
	}
	logger := o.endpoint.Logger
	options := &otcadapter.Idempotency{
		Open:      app.(*agents.App).OpenStore,
		Endpoint:  o.identity(),
		TTL:       time.Duration(i.TTL),
		Lease:     time.Duration(i.Lease),
		MaxAnswer: int(i.MaxSize),
		Failed: func(err error) {
			logger.Error("the store could not keep a call", zap.String("path", o.Path), zap.Error(err))
		},
	}
	if secret != "" {
		options.Key = []byte(secret)
	}
	return options, nil
}

// identity names the endpoint in the store: by its path and toolsets.
func (o *Handler) identity() string {
	names := append(make([]string, 0, 1+len(o.endpoints)), o.endpoint.Path)
	for _, e := range o.endpoints {
		names = append(names, e.Toolset.Name)
	}
	return strings.Join(names, "\n")
}

func (i *Idempotency) validate() error {
	switch {
	case i == nil:
		return nil
	case i.Off && *i != Idempotency{Off: true}:
		return errors.New("idempotency is off and has options: drop one of these")
	case i.TTL < 0 || time.Duration(i.TTL) > store.MaxTTL:
		return fmt.Errorf("idempotency: ttl %s is not between 0 and %s", time.Duration(i.TTL), store.MaxTTL)
	case i.Lease != 0 && (time.Duration(i.Lease) < minLease || time.Duration(i.Lease) > maxLease):
		return fmt.Errorf("idempotency: lease %s is not between %s and %s", time.Duration(i.Lease), minLease, maxLease)
	case i.MaxSize < 0 || i.MaxSize > otcadapter.MaxAnswer:
		return fmt.Errorf("idempotency: max_size %d is not between 0 and %d bytes", i.MaxSize, otcadapter.MaxAnswer)
	}
	return nil
}

const (
	// minLease leaves a node the time to give signs of life.
	minLease = time.Second

	// maxLease is how long who repeats a call of a node that died has to wait to be
	// told so.
	maxLease = 24 * time.Hour
)
