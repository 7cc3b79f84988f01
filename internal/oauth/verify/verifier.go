package verify

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/fairwayhq/fairway/internal/oauth"
)

const (
	// defaultLeeway is how much the clocks of issuer and resource may differ.
	defaultLeeway = 30 * time.Second

	// MaxLeeway is the largest allowed leeway.
	MaxLeeway = 10 * time.Minute

	// defaultRefresh is the time between fetches of keys if their server does not specify it.
	defaultRefresh = time.Hour

	// defaultMinRefetch is the minimum time between a fetch and a further one that an unknown
	// key causes.
	defaultMinRefetch = 10 * time.Second

	// DefaultMaxStale is how long keys remain valid while their server is down.
	DefaultMaxStale = 24 * time.Hour

	// defaultMaxWait limits how long a caller waits for a fetch.
	defaultMaxWait = 5 * time.Second
)

// defaultAlgorithms returns the signature algorithms that are accepted by default.
func defaultAlgorithms() []string {
	return []string{"RS256", "PS256", "ES256", "ES384", "EdDSA"}
}

// knownAlgorithms are the algorithms that can be accepted. "none" and HMAC are missing on
// purpose: with HMAC, everyone who can verify a token can also sign one.
var knownAlgorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

// CheckAlgorithm returns an error if the algorithm cannot be accepted.
func CheckAlgorithm(name string) error {
	if slices.Contains(knownAlgorithms, name) {
		return nil
	}
	return fmt.Errorf("unsupported algorithm %.40q; supported are %s", name, strings.Join(knownAlgorithms, ", "))
}

// An Issuer is an authorization server whose tokens are accepted.
type Issuer struct {
	// URL identifies the issuer. It must equal iss in tokens exactly.
	URL string

	// JWKS is the URL or file of the issuer's keys. Default: the URL in the issuer's metadata
	// (RFC 8414 or OpenID Connect Discovery).
	JWKS string
}

// isFile reports whether the keys are in a file.
func (i *Issuer) isFile() bool {
	return i.JWKS != "" && !strings.Contains(i.JWKS, "://")
}

// Check returns an error if the issuer's URLs are invalid. It opens no connection.
func (i *Issuer) Check() error {
	if err := checkIssuer(i.URL); err != nil {
		return fmt.Errorf("issuer %.200q: %w", redacted(i.URL), err)
	}
	if i.JWKS == "" || i.isFile() {
		return nil
	}
	if _, err := oauth.ParseAddress(i.JWKS); err != nil {
		return fmt.Errorf("jwks %.200q: %w", redacted(i.JWKS), err)
	}
	return nil
}

// redacted returns an address without its password.
func redacted(address string) string {
	if u, err := url.Parse(address); err == nil {
		return u.Redacted()
	}
	return "…" + address[strings.LastIndexByte(address, '@')+1:]
}

// Options configures which tokens are accepted. Issuers is required. Everything else has a
// default.
type Options struct {
	Issuers    []Issuer
	Algorithms []string      // signature algorithms; default: defaultAlgorithms
	Leeway     time.Duration // default: defaultLeeway; none if negative
	Refresh    time.Duration // default: defaultRefresh
	MinRefetch time.Duration // default: defaultMinRefetch
	MaxStale   time.Duration // default: DefaultMaxStale
	MaxWait    time.Duration // default: defaultMaxWait

	// Transport fetches keys. Default: a transport like http.DefaultTransport.
	Transport http.RoundTripper

	Observer Observer

	// Introspection verifies tokens that are not signed JWTs. Default: they are rejected.
	Introspection *Introspection
}

// Observer has callbacks for the results of fetches. They run in the goroutine that fetches.
type Observer struct {
	// Fetched gets the number of usable keys, and why others are left out if the key set is a new one.
	Fetched func(issuer string, keys int, skipped []string)
	Failed  func(issuer string, err error, haveKeys bool)

	// Introspected reports that an introspection failed.
	Introspected func(err error)
}

// setDefaults sets missing options and validates the others.
func (o *Options) setDefaults() error {
	if len(o.Algorithms) == 0 {
		o.Algorithms = defaultAlgorithms()
	}
	for _, algorithm := range o.Algorithms {
		if err := CheckAlgorithm(algorithm); err != nil {
			return err
		}
	}
	if o.Leeway > MaxLeeway {
		return fmt.Errorf("leeway %s is more than the maximum of %s", o.Leeway, MaxLeeway)
	}
	o.Leeway = cmp.Or(o.Leeway, defaultLeeway)
	o.Leeway = max(o.Leeway, 0)
	o.Refresh = cmp.Or(o.Refresh, defaultRefresh)
	o.MinRefetch = cmp.Or(o.MinRefetch, defaultMinRefetch)
	o.MaxStale = cmp.Or(o.MaxStale, DefaultMaxStale)
	o.MaxWait = cmp.Or(o.MaxWait, defaultMaxWait)
	return nil
}

// A Verifier verifies access tokens. It is safe for concurrent use.
type Verifier struct {
	options    Options
	algorithms []jose.SignatureAlgorithm
	rings      map[string]*keyring
	fetcher    *fetcher
	verified   cache
	introspect *introspector // nil if not configured

	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup
}

// New returns a Verifier. The caller must close it. It opens no connection before the first
// Verify or Warm. Key files are read immediately and must be valid.
func New(options Options) (*Verifier, error) {
	if err := options.setDefaults(); err != nil {
		return nil, err
	}
	if len(options.Issuers) == 0 {
		return nil, errors.New("no issuer is configured")
	}
	v := &Verifier{options: options, rings: make(map[string]*keyring), fetcher: newFetcher(options.Transport)}
	v.ctx, v.cancel = context.WithCancel(context.Background())
	for _, algorithm := range options.Algorithms {
		v.algorithms = append(v.algorithms, jose.SignatureAlgorithm(algorithm))
	}
	for _, issuer := range options.Issuers {
		if err := issuer.Check(); err != nil {
			return nil, err
		}
		if v.rings[issuer.URL] != nil {
			return nil, fmt.Errorf("issuer %s is given twice", issuer.URL)
		}
		ring, err := v.newKeyring(issuer)
		if err != nil {
			return nil, fmt.Errorf("issuer %s: %w", issuer.URL, err)
		}
		v.rings[issuer.URL] = ring
	}
	var err error
	v.introspect, err = newIntrospector(v.ctx, &v.options)
	return v, err
}

// newKeyring returns the keyring of an issuer.
func (v *Verifier) newKeyring(issuer Issuer) (*keyring, error) {
	ring := &keyring{issuer: issuer, options: &v.options, wanted: make(chan struct{}, 1), ended: v.ctx.Done()}
	if !issuer.isFile() {
		ring.load = func(ctx context.Context) (*keySet, time.Duration, error) { return v.fetcher.fetch(ctx, issuer) }
		return ring, nil
	}
	ring.load = func(context.Context) (*keySet, time.Duration, error) {
		keys, err := readKeyFile(issuer.JWKS)
		return keys, 0, err
	}
	keys, err := readKeyFile(issuer.JWKS)
	if err != nil {
		return nil, err
	}
	ring.recordResult(keys, fileRefresh)
	return ring, nil
}

// Warm starts to fetch the keys of all issuers, if that has not started yet. An issuer of tokens that are
// introspected may have none.
func (v *Verifier) Warm() {
	if v.introspect != nil {
		return
	}
	for _, ring := range v.rings {
		ring.begin(v.ctx, &v.tasks)
	}
}

// Close stops the background work and waits until it has ended. Known keys remain usable.
func (v *Verifier) Close() {
	v.cancel()
	for _, ring := range v.rings {
		ring.once.Do(func() {}) // prevents that it starts later
	}
	v.tasks.Wait()
	v.fetcher.client.Close()
	if v.introspect != nil {
		v.introspect.client.Close()
	}
}

// Verify returns the content of an access token if it is valid and for one of the audiences. An
// error is an *Error with InvalidToken or Unavailable.
func (v *Verifier) Verify(ctx context.Context, token string, audiences ...string) (*oauth.Token, error) {
	return v.VerifyFrom(ctx, "", token, audiences...)
}

// VerifyFrom is like Verify. Address is the IP address of the client that has sent the token: each network has a share of
// the introspections.
func (v *Verifier) VerifyFrom(ctx context.Context, address, token string, audiences ...string) (*oauth.Token, error) {
	if len(token) > oauth.MaxToken {
		return nil, oauth.NewInvalidToken("the token is longer than %d bytes", oauth.MaxToken)
	}
	verified, err := v.checkSignature(ctx, address, token)
	if err != nil {
		return nil, err
	}
	if err := checkAudience(verified, audiences); err != nil {
		return nil, err
	}
	return verified, nil
}

// Inspect returns the content of a token, also of one that Verify rejects, and why its signature does not count. It serves
// to explain a token, not to accept it. The Token is nil if it cannot be read.
func (v *Verifier) Inspect(ctx context.Context, token string) (*oauth.Token, error) {
	if v.introspect != nil && !isJWT(token) {
		return v.introspect.check(ctx, "", token, sha256.Sum256([]byte(token)))
	}
	verified, _, refused := v.verifyUncached(ctx, token)
	if refused == nil {
		return verified, nil
	}
	if _, payload, err := split(token); err == nil {
		if claims, err := readClaims(payload); err == nil {
			verified, _ = claims.token() // nil if the claims cannot be used
		}
	}
	return verified, refused
}

// checkSignature returns the token if its issuer signed it and it is valid now. It uses the cache.
func (v *Verifier) checkSignature(ctx context.Context, address, token string) (*oauth.Token, error) {
	hash := sha256.Sum256([]byte(token))
	if known, ok := v.verified.get(hash); ok {
		err := checkTime(known.token, time.Now(), v.options.Leeway)
		if err == nil && v.rings[known.token.Issuer].current.Load() == known.keys {
			return known.token, nil
		}
		v.verified.forget(hash)
		if err != nil {
			return nil, err
		}
	}
	if v.introspect != nil && !isJWT(token) {
		return v.introspect.check(ctx, address, token, hash)
	}
	verified, keys, err := v.verifyUncached(ctx, token)
	if err != nil {
		return nil, err
	}
	if err := checkTime(verified, time.Now(), v.options.Leeway); err != nil {
		return nil, err
	}
	v.verified.put(hash, remembered{token: verified, keys: keys})
	return verified, nil
}

// ValidUntil returns when Verify starts to reject the token as expired: its exp plus the
// leeway.
func (v *Verifier) ValidUntil(token *oauth.Token) time.Time {
	return token.Expires.Add(v.options.Leeway)
}

// verifyUncached verifies the signature of a token with the keys of its issuer, and decodes its claims.
func (v *Verifier) verifyUncached(ctx context.Context, token string) (*oauth.Token, *keySet, error) {
	header, payload, err := split(token)
	if err != nil {
		return nil, nil, err
	}
	if err := header.check(v.options.Algorithms); err != nil {
		return nil, nil, err
	}
	claims, err := readClaims(payload)
	if err != nil {
		return nil, nil, err
	}
	ring, known := v.rings[claims.Issuer]
	if !known {
		return nil, nil, oauth.NewInvalidToken("the token's iss %s is not an issuer that this resource accepts", oauth.QuoteShort(claims.Issuer))
	}
	signature, err := jose.ParseSignedCompact(token, v.algorithms)
	if err != nil {
		return nil, nil, oauth.NewInvalidToken("the token is not a well-formed signed JWT")
	}
	ring.begin(v.ctx, &v.tasks)
	set, err := ring.find(ctx, &header, func(keys []*key) bool { return verifies(signature, payload, keys) })
	if err != nil {
		return nil, nil, err
	}
	verified, err := claims.token()
	return verified, set, err
}

// maxTried limits how many keys are tried for a token without a kid.
const maxTried = 16

// verifies reports whether one of the keys signed the payload.
func verifies(signature *jose.JSONWebSignature, payload []byte, keys []*key) bool {
	for _, k := range keys[:min(len(keys), maxTried)] {
		signed, err := signature.Verify(k.public)
		if err == nil {
			return bytes.Equal(signed, payload)
		}
	}
	return false
}
