package mcpadapter

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"errors"
)

// maxSealed is the maximum length of a sealed string, in bytes.
const maxSealed = 1 << 20

var errBroken = errors.New("is not one that this server gave out for this request, or was changed")

// seal encrypts and authenticates plain with AES-256-GCM. Only servers with the same secret can open
// it, and only with the same binding, which is authenticated as additional data.
func (g *signer) seal(plain []byte, binding string) string {
	return base64.RawURLEncoding.EncodeToString(g.aead().Seal(nil, nil, plain, []byte(binding)))
}

// unseal decrypts a string that seal returned for the same binding.
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
		panic(err) // cannot happen: the key has 32 bytes
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err)
	}
	return aead
}
