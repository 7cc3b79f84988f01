package auth

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/caddyauth"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/internal/oauth"
)

func init() {
	caddy.RegisterModule(new(APIKey))
}

const (
	// defaultKeyHeader is the header of API keys if none is configured.
	defaultKeyHeader = "X-API-Key"

	// maxKeyLength limits the length of an API key, in bytes. Longer keys are rejected unread.
	maxKeyLength = 1 << 10

	// minKeyLength is the length from which an API key in the configuration causes no warning, in bytes.
	minKeyLength = 16
)

// APIKey accepts API keys. The user's ID is the name of the key. The key is removed from the
// request before the next handler runs.
type APIKey struct {
	// The header that contains the key. Default: X-API-Key, unless `query` is set.
	Header string `json:"header,omitempty"`

	// The query parameter that contains the key, instead of a header. Prefer a header, because
	// URLs appear in many logs. Default: none.
	Query string `json:"query,omitempty"`

	// The accepted keys. At least one is required.
	Keys []NamedKey `json:"keys,omitempty"`

	// Whether to leave the key in the request for the next handlers. Default: false.
	PassThrough bool `json:"pass_through,omitempty"`

	names map[[sha256.Size]byte]string // of keys, by the SHA-256 of their secrets
}

// NamedKey is an API key and its user.
type NamedKey struct {
	// The name of the key, which is the user's ID. It must not contain "#". Required.
	Name string `json:"name,omitempty"`

	// The key itself, best as a placeholder such as {env.ADA_KEY} or {file./run/secrets/ada};
	// or "sha256:" and the SHA-256 of the key in hexadecimal digits. Required.
	Secret string `json:"secret,omitempty"`
}

// CaddyModule returns the Caddy module information.
func (*APIKey) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.authentication.providers.api_key",
		New: func() caddy.Module { return new(APIKey) },
	}
}

// Provision resolves the placeholders of the keys. Its errors contain the names of keys, never
// their values.
func (a *APIKey) Provision(ctx caddy.Context) error {
	if a.Header != "" && a.Query != "" {
		return errors.New("api_key has both header and query; remove one")
	}
	if a.Header == "" && a.Query == "" {
		a.Header = defaultKeyHeader
	}
	if err := checkKeyHeader(a.Header); a.Query == "" && err != nil {
		return err
	}
	a.Header = http.CanonicalHeaderKey(a.Header)
	if len(a.Keys) == 0 {
		return errors.New("no API key is defined")
	}
	a.names = make(map[[sha256.Size]byte]string, len(a.Keys))
	given := make(map[string]bool, len(a.Keys))
	for _, key := range a.Keys {
		if err := a.add(key, given); err != nil {
			return fmt.Errorf("API key %q: %w", key.Name, err)
		}
		if len(key.Secret) < minKeyLength && !strings.Contains(key.Secret, "{") {
			ctx.Logger().Warn("API key is short and can be guessed; use a random one, as `openssl rand -hex 16` prints, "+
				"and keep it out of the configuration", zap.String("key", key.Name))
		}
	}
	return nil
}

// add validates a key and stores its digest. given has the names of the keys before it.
func (a *APIKey) add(key NamedKey, given map[string]bool) error {
	if err := checkKeyName(key.Name); err != nil {
		return err
	}
	secret, err := caddy.NewReplacer().ReplaceOrErr(key.Secret, true, true)
	if err != nil {
		return fmt.Errorf("a placeholder of the secret has no value: %w", err)
	}
	if err := directive.CheckVariable(key.Secret); err != nil {
		return err
	}
	digest, err := digestOf(strings.TrimSpace(secret))
	if err != nil {
		return err
	}
	if given[key.Name] {
		return errors.New("the name is given twice; give each key its own")
	}
	if same, ok := a.names[digest]; ok {
		return fmt.Errorf("the secret is the same as that of %q; give each key its own", same)
	}
	a.names[digest], given[key.Name] = key.Name, true
	return nil
}

// digestOf returns the SHA-256 of a secret. A secret of the form "sha256:..." is already a
// digest.
func digestOf(secret string) (digest [sha256.Size]byte, err error) {
	if secret == "" {
		return digest, errors.New("the secret is empty")
	}
	encoded, isDigest := strings.CutPrefix(secret, "sha256:")
	if !isDigest {
		if len(secret) > maxKeyLength {
			return digest, fmt.Errorf("the secret is longer than %d bytes", maxKeyLength)
		}
		return sha256.Sum256([]byte(secret)), nil
	}
	decoded, err := hex.DecodeString(encoded)
	if err != nil || len(decoded) != len(digest) {
		return digest, errors.New("sha256: must be followed by 64 hexadecimal digits")
	}
	return [sha256.Size]byte(decoded), nil
}

// checkKeyName returns an error for a name that could be confused with the user of a token.
func checkKeyName(name string) error {
	if name == "" {
		return errors.New("the name is empty")
	}
	if strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '#' }) {
		return errors.New("the name must not contain spaces, control characters or #")
	}
	return nil
}

// checkKeyHeader returns an error if API keys cannot be sent in the header.
func checkKeyHeader(name string) error {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool {
		return ('a' > r || r > 'z') && ('A' > r || r > 'Z') && ('0' > r || r > '9') && r != '-' && r != '_'
	}) {
		return fmt.Errorf("header %q is not a valid header name", name)
	}
	switch textproto.CanonicalMIMEHeaderKey(name) {
	case "Authorization", "Cookie", "Host":
		return fmt.Errorf("header %s is used for other purposes; use a header such as %s", name, defaultKeyHeader)
	}
	return nil
}

// Authenticate returns the user of a request with a valid key.
func (a *APIKey) Authenticate(w http.ResponseWriter, r *http.Request) (caddyauth.User, bool, error) {
	key, err := a.read(r)
	if err == nil && key != "" {
		var user caddyauth.User
		if user, err = a.verify(r, key); err == nil {
			return user, true, nil
		}
	}
	w.Header().Add("Www-Authenticate", a.challenge())
	return caddyauth.User{}, false, nil
}

// read returns the key of a request. It returns "" if the request has none.
func (a *APIKey) read(r *http.Request) (string, error) {
	values := r.Header[a.Header]
	if a.Query != "" {
		values = r.URL.Query()[a.Query]
	}
	switch len(values) {
	case 0:
		return "", nil
	case 1:
		return strings.TrimSpace(values[0]), nil
	}
	return "", &oauth.Error{Code: oauth.InvalidRequest, Description: "the request has several API keys in " + a.location() + "; send one"}
}

// verify returns the user of a key. Keys are found by their digests, so that the duration does not reveal how much of a
// key is correct: a caller cannot choose a digest that begins like that of a key.
func (a *APIKey) verify(r *http.Request, key string) (caddyauth.User, error) {
	name := ""
	if len(key) <= maxKeyLength {
		name = a.names[sha256.Sum256([]byte(key))]
	}
	if name == "" {
		return caddyauth.User{}, &oauth.Error{Code: oauth.Missing, Description: "unknown API key in " + a.location()}
	}
	a.removeKey(r)
	return caddyauth.User{ID: name}, nil
}

// removeKey removes the key from a request, unless it is to be passed on.
func (a *APIKey) removeKey(r *http.Request) {
	switch {
	case a.PassThrough:
	case a.Query == "":
		r.Header.Del(a.Header)
	case r.URL.RawQuery != "":
		r.URL.RawQuery = withoutParameter(r.URL.RawQuery, a.Query)
	}
}

// withoutParameter removes a parameter from a query and does not change the others.
func withoutParameter(query, name string) string {
	kept := make([]string, 0, strings.Count(query, "&")+1)
	for part := range strings.SplitSeq(query, "&") {
		escaped, _, _ := strings.Cut(part, "=")
		if unescaped, err := url.QueryUnescape(escaped); err == nil && unescaped == name {
			continue
		}
		kept = append(kept, part)
	}
	return strings.Join(kept, "&")
}

// location describes where the key is sent, for messages.
func (a *APIKey) location() string {
	if a.Query != "" {
		return "the query parameter " + a.Query
	}
	return "the header " + a.Header
}

// challenge returns the WWW-Authenticate header, which a 401 response must have (RFC 9110,
// section 11.6.1). There is no registered scheme for API keys.
func (a *APIKey) challenge() string {
	if a.Query != "" {
		return `ApiKey in="query", name="` + strings.NewReplacer(`"`, "", `\`, "").Replace(a.Query) + `"`
	}
	return `ApiKey in="header", name="` + a.Header + `"`
}

// Interface guards
var (
	_ caddy.Provisioner       = (*APIKey)(nil)
	_ caddyauth.Authenticator = (*APIKey)(nil)
)
