package elicit

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"errors"
)

// A Sealer encrypts state that clients or the store keep for the server. It is safe for concurrent use.
type Sealer struct{ keys [][]byte }

// NewSealer returns a Sealer with keys of 32 bytes. It seals with the first one, and unseals with all.
func NewSealer(keys ...[]byte) *Sealer { return &Sealer{keys} }

// maxSealed is the maximum length of a sealed string, in bytes.
const maxSealed = 1 << 20

var errBroken = errors.New("was not issued by this server for this request, or was changed")

// Seal encrypts and authenticates plain with AES-256-GCM. Only servers with the same secret can open
// it, and only with the same binding, which is authenticated as additional data.
func (s *Sealer) Seal(plain []byte, binding string) string {
	return base64.RawURLEncoding.EncodeToString(aead(s.keys[0]).Seal(nil, nil, plain, []byte(binding)))
}

// Unseal decrypts a string that Seal returned for the same binding.
func (s *Sealer) Unseal(sealed, binding string) ([]byte, error) {
	if len(sealed) > maxSealed {
		return nil, errBroken
	}
	raw, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil {
		return nil, errBroken
	}
	for _, key := range s.keys {
		if plain, err := aead(key).Open(nil, nil, raw, []byte(binding)); err == nil {
			return plain, nil
		}
	}
	return nil, errBroken
}

func aead(key []byte) cipher.AEAD {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // cannot happen: the key has 32 bytes
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err)
	}
	return aead
}
