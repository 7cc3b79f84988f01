package tokenclient

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1" //nolint:gosec // the parameter x5t of RFC 7515 is a SHA-1 digest; it protects nothing
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/fairwayhq/fairway/internal/buffer"
)

const (
	// maxKeyFile limits a file with a key or a certificate, in bytes.
	maxKeyFile = 64 << 10

	// maxForm limits the body of a token request, in bytes.
	maxForm = 256 << 10

	// assertionLifetime is how long a client assertion is valid. Each is used once.
	assertionLifetime = 2 * time.Minute

	// clockSkew is how far the clock of an authorization server may be behind.
	clockSkew = 10 * time.Second
)

// A Key signs assertions that authenticate the gateway (private_key_jwt, RFC 7523, section 2.2). The files are read for
// each assertion, so changed ones take effect with the next token.
type Key struct {
	File        string // of the private key: PEM or a JWK; default: Certificate
	ID          string // the header kid; default: that of a JWK
	Certificate string // file of the PEM certificate whose thumbprint identifies the key; default: none
}

// Assertion returns a new signed assertion of the client.
func (k *Key) Assertion(clientID, audience string) (string, error) {
	signer, err := k.signer()
	if err != nil {
		return "", err
	}
	now := time.Now()
	return jwt.Signed(signer).Claims(jwt.Claims{
		Issuer: clientID, Subject: clientID, Audience: jwt.Audience{audience}, ID: rand.Text(),
		IssuedAt: jwt.NewNumericDate(now), NotBefore: jwt.NewNumericDate(now.Add(-clockSkew)), Expiry: jwt.NewNumericDate(now.Add(assertionLifetime)),
	}).Serialize()
}

// Check returns an error if the files have no usable key.
func (k *Key) Check() error {
	_, err := k.signer()
	return err
}

// addTo adds an assertion to the parameters of a token request.
func (k *Key) addTo(form url.Values, clientID, audience string) error {
	assertion, err := k.Assertion(clientID, audience)
	if err != nil {
		return err
	}
	form.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
	form.Set("client_assertion", assertion)
	return nil
}

// An AssertionTransport adds an assertion to the requests that an OAuth client library sends to its token endpoint: those
// with the method POST. Other requests, for metadata and keys, pass unchanged.
type AssertionTransport struct {
	Key      *Key
	ClientID string
	Next     http.RoundTripper // default: http.DefaultTransport
}

// RoundTrip implements http.RoundTripper.
func (t *AssertionTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	next := t.Next
	if next == nil {
		next = http.DefaultTransport
	}
	if r.Method != http.MethodPost {
		return next.RoundTrip(r)
	}
	defer r.Body.Close()
	body, err := buffer.ReadLimited(r.Body, maxForm)
	if err != nil {
		return nil, err
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, errors.New("the token request is not a form")
	}
	if err := t.Key.addTo(form, t.ClientID, r.URL.String()); err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	encoded := form.Encode()
	r.Body, r.ContentLength, r.GetBody = io.NopCloser(strings.NewReader(encoded)), int64(len(encoded)), nil
	return next.RoundTrip(r)
}

func (k *Key) signer() (jose.Signer, error) {
	options := (&jose.SignerOptions{}).WithType("JWT")
	if k.Certificate != "" {
		pair, err := k.pair()
		if err != nil {
			return nil, err
		}
		digest, old := sha256.Sum256(pair.Certificate[0]), sha1.Sum(pair.Certificate[0]) //nolint:gosec // see the import
		options.WithHeader("x5t#S256", base64.RawURLEncoding.EncodeToString(digest[:]))
		options.WithHeader("x5t", base64.RawURLEncoding.EncodeToString(old[:]))
		return k.newSigner(jose.JSONWebKey{Key: pair.PrivateKey, KeyID: k.ID}, jose.PS256, options)
	}
	text, err := buffer.ReadFile(k.File, maxKeyFile)
	if err != nil {
		return nil, err
	}
	var key jose.JSONWebKey
	if block, _ := pem.Decode(text); block != nil {
		if key.Key, err = parsePrivate(block.Bytes); err != nil {
			return nil, fmt.Errorf("%s: %w", k.File, err)
		}
	} else if err := key.UnmarshalJSON(text); err != nil || key.IsPublic() {
		return nil, fmt.Errorf("%s has no private key in PEM (PKCS #8, PKCS #1 or SEC 1), and is not a private JWK", k.File)
	}
	if k.ID != "" {
		key.KeyID = k.ID
	}
	return k.newSigner(key, jose.RS256, options)
}

// newSigner returns a signer with the algorithm of the key. RSA keys without one use forRSA.
func (k *Key) newSigner(key jose.JSONWebKey, forRSA jose.SignatureAlgorithm, options *jose.SignerOptions) (jose.Signer, error) {
	algorithm := jose.SignatureAlgorithm(key.Algorithm)
	if algorithm == "" {
		switch private := key.Key.(type) {
		case *rsa.PrivateKey:
			algorithm = forRSA
		case ed25519.PrivateKey:
			algorithm = jose.EdDSA
		case *ecdsa.PrivateKey:
			algorithm = map[int]jose.SignatureAlgorithm{256: jose.ES256, 384: jose.ES384, 521: jose.ES512}[private.Params().BitSize]
		}
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, options)
	if err != nil {
		return nil, fmt.Errorf("%s: the key cannot sign; it must be RSA, ECDSA with P-256, P-384 or P-521, or Ed25519", k.File)
	}
	return signer, nil
}

// pair returns the certificate and its key.
func (k *Key) pair() (tls.Certificate, error) {
	certificate, err := buffer.ReadFile(k.Certificate, maxKeyFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	private := certificate
	if k.File != "" {
		if private, err = buffer.ReadFile(k.File, maxKeyFile); err != nil {
			return tls.Certificate{}, err
		}
	}
	pair, err := tls.X509KeyPair(certificate, private)
	if err != nil {
		return pair, fmt.Errorf("certificate %s and its private key: %w", k.Certificate, err)
	}
	return pair, nil
}

func parsePrivate(der []byte) (crypto.PrivateKey, error) {
	if key, err := x509.ParsePKCS8PrivateKey(der); err == nil {
		return key, nil
	}
	if key, err := x509.ParsePKCS1PrivateKey(der); err == nil {
		return key, nil
	}
	if key, err := x509.ParseECPrivateKey(der); err == nil {
		return key, nil
	}
	return nil, errors.New("the PEM block is not a private key that is not encrypted")
}
