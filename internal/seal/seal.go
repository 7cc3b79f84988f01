// Package seal encrypts what others keep for the gateway: clients, browsers and the store. Each sealed value is bound to its purpose and
// its place, so that it is of no use elsewhere.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"errors"
)

const (
	// keySize is the length of a key, in bytes.
	keySize = 32

	// idSize is the length of the ID of a key, which precedes each sealed value, in bytes.
	idSize = 4

	// maxSealed is the maximum length of a sealed text, in bytes.
	maxSealed = 2 << 20
)

// errBroken reports that a text cannot be unsealed.
var errBroken = errors.New("was not issued by this server for this request, or was changed, or its key has been replaced")

// A Sealer encrypts values with AES-256-GCM. It is safe for concurrent use.
type Sealer struct{ keys []key }

type key struct {
	id   [idSize]byte
	aead cipher.AEAD
}

// New returns a Sealer with keys of keySize bytes. It seals with the first one, and unseals with all, so that keys can be rotated.
func New(keys ...[]byte) *Sealer {
	s := new(Sealer)
	for _, secret := range keys {
		block, err := aes.NewCipher(secret)
		if err != nil {
			panic(err) // cannot happen: the key has keySize bytes
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			panic(err) // cannot happen: AES has the block size of GCM
		}
		digest := sha256.Sum256(append([]byte("fairway key id "), secret...))
		s.keys = append(s.keys, key{[idSize]byte(digest[:]), aead})
	}
	return s
}

// Derive returns a Sealer with keys that are derived from secrets for a purpose (HKDF). The first secret is the current one.
func Derive[S string | []byte](secrets []S, purpose string) *Sealer {
	return New(Keys(secrets, purpose)...)
}

// Keys returns the key that each secret has for a purpose (HKDF), of keySize bytes.
func Keys[S string | []byte](secrets []S, purpose string) [][]byte {
	keys := make([][]byte, len(secrets))
	for i, secret := range secrets {
		var err error
		if keys[i], err = hkdf.Key(sha256.New, []byte(secret), nil, purpose, keySize); err != nil {
			panic(err) // cannot happen: the length is valid
		}
	}
	return keys
}

// Seal encrypts and authenticates plain. The text begins with the ID of the key. Only servers with the same key can unseal it, and only with the
// same binding, which is authenticated as additional data.
func (s *Sealer) Seal(plain []byte, binding string) string {
	k := &s.keys[0]
	return base64.RawURLEncoding.EncodeToString(k.aead.Seal(k.id[:], nil, plain, []byte(binding))) //nolint:gosec // the cipher makes the nonce
}

// Unseal decrypts a text that Seal returned for the same binding. The error is errBroken.
func (s *Sealer) Unseal(sealed, binding string) ([]byte, error) {
	k, ciphertext := s.keyOf(sealed)
	if k == nil {
		return nil, errBroken
	}
	plain, err := k.aead.Open(nil, nil, ciphertext, []byte(binding))
	if err != nil {
		return nil, errBroken
	}
	return plain, nil
}

// IsCurrent reports whether a text was sealed with the first key. Others should be sealed again before their key is removed.
func (s *Sealer) IsCurrent(sealed string) bool {
	k, _ := s.keyOf(sealed)
	return k == &s.keys[0]
}

// keyOf returns the key of a text and the encrypted part. The key is nil if it is unknown.
func (s *Sealer) keyOf(sealed string) (*key, []byte) {
	if len(sealed) > maxSealed {
		return nil, nil
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(sealed)
	if err != nil || len(raw) < idSize {
		return nil, nil
	}
	for i := range s.keys {
		if [idSize]byte(raw) == s.keys[i].id {
			return &s.keys[i], raw[idSize:]
		}
	}
	return nil, nil
}
