package verify

import (
	"bytes"
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/oauth"
	"github.com/fairwayhq/fairway/internal/strictjson"
)

const (
	// maxKeys limits the number of keys in a key set.
	maxKeys = 100

	// Limits of the modulus of RSA keys, in bits. Shorter keys can be broken. Longer keys make
	// each verification too expensive.
	minRSABits, maxRSABits = 2048, 8192
)

// key is a public key that verifies signatures.
type key struct {
	id        string
	algorithm string // "" if the key set does not specify it
	public    crypto.PublicKey
}

// keySet has the usable keys of a JWK set (RFC 7517, section 5).
type keySet struct {
	keys    []key
	skipped []string          // why other keys are left out
	digest  [sha256.Size]byte // of the document
}

// certificates are the members of a JWK with a certificate of the key (RFC 7517, section 4). They are optional and not used. The
// certificates of some issuers cannot be parsed, or are of another key.
var certificates = []string{"x5c", "x5t", "x5t#S256", "x5u"}

// WithoutCertificates returns a JWK set without the certificates of its keys. What is not a JWK set stays as it is, without a byte order mark.
func WithoutCertificates(document []byte) []byte {
	document = bytes.TrimPrefix(document, byteOrderMark)
	var set map[string]jsontext.Value
	var keys []jsontext.Value
	if strictjson.Unmarshal(document, &set) != nil || strictjson.Unmarshal(set["keys"], &keys) != nil {
		return document
	}
	for i, raw := range keys {
		var members map[string]jsontext.Value
		if json.Unmarshal(raw, &members) != nil {
			continue
		}
		for _, name := range certificates {
			delete(members, name)
		}
		keys[i], _ = json.Marshal(members) // cannot fail: the values are valid
	}
	set["keys"], _ = json.Marshal(keys)
	plain, _ := json.Marshal(set)
	return plain
}

// parseKeys parses a JWK set. Keys with unknown types and uses are skipped, as the RFC
// requires. A set without any usable key is an error.
func parseKeys(document []byte) (*keySet, error) {
	var set struct {
		Keys []jsontext.Value `json:"keys"`
	}
	if err := strictjson.Unmarshal(WithoutCertificates(document), &set); err != nil {
		return nil, errors.New("the document is not a JWK set, a JSON object with the member keys")
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("the JWK set has %d keys, more than %d", len(set.Keys), maxKeys)
	}
	parsed := &keySet{digest: sha256.Sum256(document)}
	for i, raw := range set.Keys {
		var jwk jose.JSONWebKey
		var public crypto.PublicKey
		err := jwk.UnmarshalJSON(raw)
		switch {
		case err != nil:
		case jwk.Use != "" && jwk.Use != "sig":
			err = errors.New("its use is not sig")
		default:
			if public = publicKey(jwk.Key); public == nil {
				err = fmt.Errorf("it is not an RSA key of %d to %d bits, an EC key or an Ed25519 key", minRSABits, maxRSABits)
			}
		}
		if err != nil {
			id := strictjson.Text(strictjson.MemberOf(raw, "kid"))
			parsed.skipped = append(parsed.skipped, fmt.Sprintf("key %d (kid %s): %v", i+1, oauth.QuoteShort(id), err))
			continue
		}
		parsed.keys = append(parsed.keys, key{id: jwk.KeyID, algorithm: jwk.Algorithm, public: public})
	}
	if len(parsed.keys) == 0 {
		return nil, fmt.Errorf("the JWK set has no public key for verifying signatures: %s", cmp.Or(strings.Join(parsed.skipped, "; "), "it is empty"))
	}
	return parsed, nil
}

// publicKey returns the public half of an asymmetric key that is strong enough. It returns nil
// for any other key. Symmetric keys are never accepted: everyone who can verify with one can
// also sign with it.
func publicKey(jwk any) crypto.PublicKey {
	if private, ok := jwk.(interface{ Public() crypto.PublicKey }); ok {
		jwk = private.Public()
	}
	switch public := jwk.(type) {
	case *rsa.PublicKey:
		if bits := public.N.BitLen(); bits < minRSABits || bits > maxRSABits {
			return nil
		}
		return public
	case *ecdsa.PublicKey:
		return public
	case ed25519.PublicKey:
		return public
	}
	return nil
}

// find returns the keys that may have signed a token with this header: those that match its algorithm, and its kid if both have one.
func (s *keySet) find(header *joseHeader) (found []*key) {
	if s == nil {
		return nil
	}
	for i := range s.keys {
		k := &s.keys[i]
		if header.KeyID != "" && k.id != "" && k.id != header.KeyID {
			continue
		}
		if k.suits(header.Algorithm) {
			found = append(found, k)
		}
	}
	return found
}

// suits reports whether the token's algorithm matches the key's type and the key's own
// algorithm, if it specifies one.
func (k *key) suits(algorithm string) bool {
	if k.algorithm != "" && k.algorithm != algorithm && (k.algorithm != "Ed25519" || algorithm != "EdDSA") {
		return false
	}
	switch public := k.public.(type) {
	case *rsa.PublicKey:
		return strings.HasPrefix(algorithm, "RS") || strings.HasPrefix(algorithm, "PS")
	case *ecdsa.PublicKey:
		return curves[algorithm] != nil && curves[algorithm] == public.Curve
	case ed25519.PublicKey:
		return algorithm == "EdDSA"
	}
	return false
}

// curves has the curve of each ECDSA algorithm (RFC 7518, section 3.4).
var curves = map[string]elliptic.Curve{
	"ES256": elliptic.P256(),
	"ES384": elliptic.P384(),
	"ES512": elliptic.P521(),
}
