// Package signature verifies the signatures of webhooks, and reads the ids and types of their events. A [Scheme] says how an API signs. The
// presets (presets.go) are Schemes. Only Twilio needs code of its own.
package signature

import (
	"cmp"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Ed25519 is the algorithm of public keys.
const Ed25519 = "ed25519"

// The other algorithms, codings and units.
const (
	algorithmSHA256 = "hmac-sha256"
	algorithmSHA1   = "hmac-sha1"

	codingText   = "text"
	codingHex    = "hex"
	codingBase64 = "base64"
	codingWhsec  = "whsec" // base64 after the prefix whsec_

	unitSeconds      = "s"
	unitMilliseconds = "ms"

	defaultTolerance = 5 * time.Minute
	minSecret        = 16 // bytes
)

// A Scheme says how an API signs its webhooks.
type Scheme struct {
	// The algorithm: hmac-sha256, hmac-sha1 or ed25519. Default: hmac-sha256.
	Algorithm string `json:"algorithm,omitempty"`

	// The header with the signature. Required.
	Header string `json:"header,omitempty"`

	// What separates the items of the header, if it is a list. Default: the header is one item.
	Separator string `json:"separator,omitempty"`

	// What precedes a signature in its item, as `sha256=` or `v1,`. Other items are ignored. Default: nothing.
	Prefix string `json:"prefix,omitempty"`

	// The coding of the signature: hex or base64. Default: hex.
	Coding string `json:"coding,omitempty"`

	// What is signed: a template with {body}, {timestamp}, {id}, {method} and {url}. Default: {body}.
	Signed string `json:"signed,omitempty"`

	// The header with the time of the signature, or, with an = at the end, what precedes it in an item of the signature's header. Required if signed
	// has {timestamp}. Default: none.
	Timestamp string `json:"timestamp,omitempty"`

	// The unit of the time: s or ms. Default: s.
	Unit string `json:"unit,omitempty"`

	// By how many seconds the time may differ. Default: 300.
	Tolerance int `json:"tolerance,omitempty"`

	// Where the id of an event is: a header, or a JSON pointer into the body, as /id. Default: a hash of the body.
	ID string `json:"id,omitempty"`

	// Where the type of an event is: headers and JSON pointers, whose values are joined with a dot. Default: /type.
	Type []string `json:"type,omitempty"`

	// How the secret is written: text, hex, base64, or whsec, which is base64 after whsec_. The key of ed25519 is hex or base64. Default: text, for
	// ed25519 hex.
	SecretCoding string `json:"secret_coding,omitempty"`

	handshake handshake
	twilio    bool
}

// A handshake is a request with which an API checks its receiver.
type handshake struct {
	at, value string // where the request says so: a header or a JSON pointer
	answer    answer
}

// NeedsURL reports whether the URL of the webhook is signed.
func (s *Scheme) NeedsURL() bool { return s.twilio || strings.Contains(s.Signed, "{url}") }

// setDefaults sets the fields that are not set.
func (s *Scheme) setDefaults() {
	s.Algorithm, s.Coding, s.Signed = cmp.Or(s.Algorithm, algorithmSHA256), cmp.Or(s.Coding, codingHex), cmp.Or(s.Signed, "{body}")
	s.Unit, s.Tolerance = cmp.Or(s.Unit, unitSeconds), cmp.Or(s.Tolerance, int(defaultTolerance/time.Second))
	if s.SecretCoding = cmp.Or(s.SecretCoding, codingText); s.Algorithm == Ed25519 && s.SecretCoding == codingText {
		s.SecretCoding = codingHex
	}
	if len(s.Type) == 0 {
		s.Type = []string{"/type"}
	}
}

// check returns what is wrong with the scheme.
func (s *Scheme) check() error {
	for _, field := range []struct {
		name, value string
		known       []string
	}{
		{"algorithm", s.Algorithm, []string{algorithmSHA256, algorithmSHA1, Ed25519}},
		{"coding", s.Coding, []string{codingHex, codingBase64}},
		{"unit", s.Unit, []string{unitSeconds, unitMilliseconds}},
		{"secret_coding", s.SecretCoding, []string{codingText, codingHex, codingBase64, codingWhsec}},
	} {
		if !slices.Contains(field.known, field.value) {
			return fmt.Errorf("%s %q: use %s", field.name, field.value, strings.Join(field.known, " or "))
		}
	}
	rest := strings.NewReplacer("{body}", "", "{timestamp}", "", "{id}", "", "{method}", "", "{url}", "").Replace(s.Signed)
	switch {
	case s.Header == "":
		return errors.New("header is missing: it has the signature")
	case !strings.Contains(s.Signed, "{body}") || strings.ContainsAny(rest, "{}"):
		return fmt.Errorf("signed %q must have {body}, and may have {timestamp}, {id}, {method} and {url}", s.Signed)
	case strings.Contains(s.Signed, "{timestamp}") != (s.Timestamp != ""):
		return errors.New("timestamp and {timestamp} in signed need each other: a time that is not signed protects from nothing")
	case strings.Contains(s.Signed, "{id}") && (s.ID == "" || s.ID[0] == '/'):
		return errors.New("signed has {id}, so id must be a header")
	case s.Tolerance < 0:
		return fmt.Errorf("tolerance %d is negative", s.Tolerance)
	}
	return nil
}

// decodeSecret returns the key of a secret. Errors do not contain it.
func (s *Scheme) decodeSecret(secret string) (key []byte, err error) {
	switch s.SecretCoding {
	case codingHex:
		key, err = hex.DecodeString(secret)
	case codingBase64, codingWhsec:
		key, err = base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	default:
		key = []byte(secret)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("the secret is not %s", s.SecretCoding)
	case s.Algorithm == Ed25519 && len(key) != ed25519.PublicKeySize:
		return nil, fmt.Errorf("the public key has %d bytes; ed25519 has %d", len(key), ed25519.PublicKeySize)
	case len(key) < minSecret:
		return nil, fmt.Errorf("the secret has %d bytes and needs at least %d", len(key), minSecret)
	}
	return key, nil
}
