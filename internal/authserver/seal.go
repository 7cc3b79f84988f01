package authserver

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"

	"github.com/go-jose/go-jose/v4"

	"github.com/fairwayhq/fairway/internal/seal"
)

// minSecret is the minimum length of a secret, in bytes.
const minSecret = 16

// A kind is the purpose of a sealed value. A value that was sealed for one purpose cannot be used for another.
type kind string

const (
	kindClient  kind = "client"  // the ID of a registered client
	kindConsent kind = "consent" // a login that waits for the user's consent, in a cookie
	kindLogin   kind = "login"   // a login that waits for the provider, in a cookie
	kindRecord  kind = "record"  // the value of a record in the Ledger
	kindSession kind = "session" // the session of a browser, in a cookie
)

// keys are derived from one configured secret.
type keys struct {
	refresh []byte // authenticates refresh tokens
	client  []byte // derives the secrets of registered clients
	sign    *ecdsa.PrivateKey
	public  jose.JSONWebKey
}

// newKeys derives the keys. The same secret gives the same keys on each node.
func newKeys(secret string) (*keys, error) {
	if len(secret) < minSecret {
		return nil, fmt.Errorf("the secret has less than %d bytes", minSecret)
	}
	derive := func(purpose string) []byte { return seal.Keys([]string{secret}, "fairway login "+purpose)[0] }
	k := &keys{refresh: derive("refresh"), client: derive("client secret")}
	// A scalar above the order of the curve is refused, once in 2^32 secrets; the next one is taken then.
	for i := 0; k.sign == nil; i++ {
		k.sign, _ = ecdsa.ParseRawPrivateKey(elliptic.P256(), derive(fmt.Sprint("sign ", i)))
	}
	k.public = jose.JSONWebKey{Key: k.sign.Public(), Algorithm: string(jose.ES256), Use: "sig"}
	thumbprint, err := k.public.Thumbprint(crypto.SHA256)
	if err != nil {
		return nil, err
	}
	k.public.KeyID = base64.RawURLEncoding.EncodeToString(thumbprint[:12])
	return k, nil
}

// mac authenticates a text.
func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// random returns an unguessable text of 22 characters.
func random() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}
