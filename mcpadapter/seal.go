package mcpadapter

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"errors"
)

// maxSealed is how many bytes of sealed text are looked at.
const maxSealed = 1 << 20

var errBroken = errors.New("is not one that this server gave out for this request, or was changed")

// seal returns plain as a text that only this secret's holders can read or make
// (AES-256-GCM). It opens only with the same binding: what it belongs to.
func (g *signer) seal(plain []byte, binding string) string {
	return base64.RawURLEncoding.EncodeToString(g.aead().Seal(nil, nil, plain, []byte(binding)))
}

// unseal returns what was sealed.
func (g *signer) unseal(sealed, binding string) ([]byte, error) {
	if len(sealed) > maxSealed {
		return nil, errBroken
	}
	raw, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil {
		return nil, errBroken
	}
	plain, err := g.aead().Open(nil, nil, raw, []byte(binding))
	if err != nil {
		return nil, errBroken
	}
	return plain, nil
}

func (g *signer) aead() cipher.AEAD {
	block, err := aes.NewCipher(g.state)
	if err != nil {
		panic(err) // the key has the length it must have
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err)
	}
	return aead
}
