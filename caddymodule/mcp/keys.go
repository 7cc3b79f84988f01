package mcp

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/mcpadapter"
	"github.com/fairwayhq/fairway/store/keyedhash"
)

// secrets returns what provides the secrets of the endpoint:
//
//   - the configured secrets, if there are any
//   - with a store that nodes share: keys of the store for what is only signed, or is kept by clients.
//     What tasks keep in the store is sealed with the secret in Caddy's storage, so that readers of the
//     store cannot decrypt it
//   - otherwise the secret in Caddy's storage
func (m *Handler) secrets(ctx caddy.Context) (func(context.Context) (*mcpadapter.Secrets, error), error) {
	configured, err := m.configuredSecrets()
	if err != nil {
		return nil, err
	}
	if configured != nil {
		return mcpadapter.FixedSecrets(m.deriveKeys(configured)...), nil
	}
	if server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok && len(server.Listen) == 0 {
		return nil, nil // sessions of another process cannot reach this one
	}
	stored := storedSecret{storage: ctx.Storage(), logger: m.Endpoint.Logger}
	local := sync.OnceValue(func() [][]byte { return m.deriveKeys([][]byte{stored.load()}) })
	signing := m.Endpoint.App.SigningKeys()
	if signing == nil {
		fixed := sync.OnceValue(func() *mcpadapter.Secrets { return &mcpadapter.Secrets{Sign: local(), Seal: local()} })
		return func(context.Context) (*mcpadapter.Secrets, error) { return fixed(), nil }, nil
	}
	if _, file := ctx.Storage().(*certmagic.FileStorage); file && m.TaskAfter > 0 {
		m.Endpoint.Logger.Warn("without a secret, only the node that began a task can continue its call; set the option secret to the same value on all nodes",
			zap.String("path", m.Endpoint.Path))
	}
	return m.sharedSecrets(signing, local), nil
}

// sharedSecrets returns what provides the keys of a shared store, and the local secrets for what tasks
// keep in that store.
func (m *Handler) sharedSecrets(signing *keyedhash.SigningKeys, local func() [][]byte) func(context.Context) (*mcpadapter.Secrets, error) {
	type derived struct {
		from *keyedhash.SigningSet
		mcpadapter.Secrets
	}
	var last atomic.Pointer[derived]
	return func(ctx context.Context) (*mcpadapter.Secrets, error) {
		set, err := signing.Current(ctx)
		if err != nil {
			return nil, err
		}
		d := last.Load()
		if d == nil || d.from != set {
			d = &derived{set, mcpadapter.Secrets{Sign: m.deriveKeys(set.Keys)}}
			d.Seal = d.Sign
			if m.TaskAfter > 0 {
				d.Seal = local()
			}
			last.Store(d)
		}
		return &d.Secrets, nil
	}
}

// configuredSecrets returns the configured secrets. It returns nil if none are configured.
func (m *Handler) configuredSecrets() (secrets [][]byte, err error) {
	if m.Secret == "" {
		if m.PreviousSecret != "" {
			return nil, errors.New("previous_secret is set without secret; set secret to the current one")
		}
		return nil, nil
	}
	texts, err := directive.Secrets("mcp", "MCP_SECRET", m.Secret, m.PreviousSecret)
	for _, text := range texts {
		secrets = append(secrets, []byte(text))
	}
	return secrets, err
}

// deriveKeys derives the endpoint's keys from secrets. Sessions and sealed state of one endpoint are
// therefore invalid at another.
func (m *Handler) deriveKeys(secrets [][]byte) [][]byte {
	keys := make([][]byte, len(secrets))
	for i, secret := range secrets {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(m.Endpoint.Parts.ShownName() + "\x00" + m.Endpoint.Path))
		keys[i] = mac.Sum(nil)
	}
	return keys
}
