package auth

import (
	"crypto/sha256"
	"encoding/json"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/internal/oauth/verify"
)

// verifiers are shared by all handlers, and by successive configurations, that accept the same
// tokens. A reload therefore keeps the fetched keys, which may be the only ones available while
// an issuer is down.
var verifiers = caddy.NewUsagePool()

// issuers verifies the tokens of one list of issuers.
type issuers struct {
	*verify.Verifier
	key    [sha256.Size]byte          // hash of the options, which have a secret
	logger atomic.Pointer[zap.Logger] // logger of the configuration that was provisioned last
	warned pace
}

// openIssuers returns the issuers with these options from the pool. The caller must call
// release once.
func openIssuers(options verify.Options, logger *zap.Logger) (*issuers, error) {
	content, _ := json.Marshal([]any{options.Issuers, options.Algorithms, options.Leeway, options.Introspection}) // strings and numbers only: cannot fail
	key := sha256.Sum256(content)
	value, loaded, err := verifiers.LoadOrNew(key, func() (caddy.Destructor, error) {
		shared := &issuers{key: key}
		shared.logger.Store(logger)
		options.Observer = verify.Observer{Fetched: shared.fetched, Failed: shared.failed, Introspected: shared.notIntrospected}
		var err error
		shared.Verifier, err = verify.New(options)
		return shared, err
	})
	if err != nil {
		return nil, err
	}
	shared := value.(*issuers)
	if loaded {
		shared.logger.Store(logger)
	}
	return shared, nil
}

// Destruct stops fetching keys. The pool calls it when no configuration uses the issuers.
func (i *issuers) Destruct() error {
	i.Close()
	return nil
}

// fetched logs that an issuer's keys were fetched, and why some are left out.
func (i *issuers) fetched(issuer string, keys int, skipped []string) {
	logger := i.logger.Load().With(zap.String("issuer", issuer), zap.Int("keys", keys))
	logger.Debug("fetched the keys of an issuer")
	if len(skipped) > 0 {
		logger.Info("some keys of an issuer cannot verify tokens and are left out", zap.Strings("reasons", skipped))
	}
}

// failed logs that an issuer's keys could not be fetched.
func (i *issuers) failed(issuer string, err error, haveKeys bool) {
	logger := i.logger.Load().With(zap.String("issuer", issuer), zap.Error(err))
	if haveKeys {
		logger.Warn("fetching the keys of an issuer failed; the previous keys stay valid for a while",
			zap.Duration("at_most", verify.DefaultMaxStale))
		return
	}
	logger.Error("fetching the keys of an issuer failed; requests with its tokens get 503 until the keys are available")
}

// notIntrospected logs that tokens could not be introspected.
func (i *issuers) notIntrospected(err error) {
	if i.warned.due() {
		i.logger.Load().Error("introspecting a token failed; requests with such tokens get 503", zap.Error(err))
	}
}
