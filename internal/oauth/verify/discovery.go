package verify

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/fairwayhq/fairway/internal/oauth"
	"github.com/fairwayhq/fairway/internal/strictjson"
)

// checkIssuer returns an error if text cannot be an issuer (RFC 8414, section 2).
func checkIssuer(text string) error {
	u, err := oauth.ParseAddress(text)
	if err != nil {
		return err
	}
	if err := CheckNotMetadata(text); err != nil {
		return err
	}
	if u.RawQuery != "" || u.ForceQuery || strings.Contains(text, "#") {
		return errors.New("the URL of an issuer must not have a query or a fragment")
	}
	return nil
}

// CheckNotMetadata returns an error if the text is the address of an issuer's metadata or keys.
func CheckNotMetadata(text string) error {
	if issuer, _, isMetadata := strings.Cut(text, "/.well-known/"); isMetadata {
		return fmt.Errorf("this is the address of a document about the issuer: leave out /.well-known/ and what follows, and write %s", issuer)
	}
	return nil
}

// metadataAddresses returns the possible URLs of an issuer's metadata, in the order in which
// they are tried:
//
//   - RFC 8414, with the well-known path before the issuer's own path
//   - OpenID Connect Discovery with the paths in the same order
//   - OpenID Connect Discovery with the well-known path after the issuer's own, and RFC 8414 in that form, which some issuers have
func metadataAddresses(issuer string) []string {
	u, err := url.Parse(issuer)
	if err != nil {
		return nil // checkIssuer has rejected it
	}
	origin, path := u.Scheme+"://"+u.Host, strings.TrimSuffix(u.EscapedPath(), "/")
	addresses := []string{
		origin + "/.well-known/oauth-authorization-server" + path,
		origin + "/.well-known/openid-configuration" + path,
	}
	if path != "" {
		addresses = append(addresses, origin+path+"/.well-known/openid-configuration", origin+path+"/.well-known/oauth-authorization-server")
	}
	return addresses
}

// discover returns the URL of an issuer's key set.
func (f *fetcher) discover(ctx context.Context, issuer string) (string, error) {
	var failures []string
	for _, address := range metadataAddresses(issuer) {
		keys, err := f.metadata(ctx, address, issuer)
		if err == nil {
			return keys, nil
		}
		failures = append(failures, err.Error())
		if ctx.Err() != nil {
			break
		}
	}
	return "", errors.New(strings.Join(failures, "; "))
}

// metadata reads one metadata document. Its issuer must equal the expected one (RFC 8414,
// section 3.3).
func (f *fetcher) metadata(ctx context.Context, address, issuer string) (keys string, err error) {
	document, _, err := f.get(ctx, address)
	if err != nil {
		return "", err
	}
	var of struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	if strictjson.Unmarshal(document, &of) != nil {
		return "", fmt.Errorf("%s: the document is not the metadata of an authorization server", address)
	}
	if of.Issuer != issuer {
		return "", fmt.Errorf("%s: the metadata is of issuer %.200q, and the configured issuer is %q; they must be equal, including slashes",
			address, of.Issuer, issuer)
	}
	if of.Keys == "" {
		return "", fmt.Errorf("%s: the metadata has no jwks_uri", address)
	}
	if _, err := oauth.ParseAddress(of.Keys); err != nil {
		return "", fmt.Errorf("%s: jwks_uri: %w", address, err)
	}
	return of.Keys, nil
}

// fetch finds and fetches the key set of an issuer.
func (f *fetcher) fetch(ctx context.Context, issuer Issuer) (*keySet, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	address := issuer.JWKS
	if address == "" {
		var err error
		if address, err = f.discover(ctx, issuer.URL); err != nil {
			return nil, 0, err
		}
	}
	document, keep, err := f.get(ctx, address)
	if err != nil {
		return nil, 0, err
	}
	keys, err := parseKeys(document)
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", address, err)
	}
	return keys, keep, nil
}
