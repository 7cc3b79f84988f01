// Package conceal takes secrets out of texts. Some APIs repeat the credentials
// that they refuse, and what they say of a refused call is told to its caller, who
// may not be the one whose credentials they are.
package conceal

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strings"

	"github.com/fairwayhq/fairway/internal/wire"
)

// Text stands where a secret was.
const Text = "[concealed]"

// minLength is how long a secret must be to be looked for, in bytes: what is
// shorter stands in many texts by chance.
const minLength = 4

// Secrets are what must not be told. The zero value has none.
type Secrets struct {
	written []string // each in all ways in which it may be written
}

// Add adds a secret, as it is and as it stands in a query and in JSON, in which
// some write a slash with a backslash.
func (s *Secrets) Add(secret string) {
	if len(secret) < minLength {
		return
	}
	quoted := wire.AppendString(nil, secret)
	quoted = quoted[1 : len(quoted)-1]
	for _, text := range []string{secret, url.QueryEscape(secret), string(quoted), strings.ReplaceAll(string(quoted), "/", `\/`)} {
		if !slices.Contains(s.written, text) {
			s.written = append(s.written, text)
		}
	}
}

// AddBasic adds what HTTP Basic authentication is made with, as user:password:
// the password alone, too, and what both become in the header.
func (s *Secrets) AddBasic(credentials string) {
	s.Add(credentials)
	s.Add(base64.StdEncoding.EncodeToString([]byte(credentials)))
	_, password, _ := strings.Cut(credentials, ":")
	s.Add(password)
}

// AddAuthorization adds the credentials in a value of the header Authorization;
// its scheme is no secret.
func (s *Secrets) AddAuthorization(value string) {
	scheme, credentials, found := strings.Cut(value, " ")
	credentials = strings.TrimLeft(credentials, " ")
	if !found || credentials == "" {
		s.Add(value)
		return
	}
	if strings.EqualFold(scheme, "Basic") {
		if text, err := base64.StdEncoding.DecodeString(credentials); err == nil {
			s.AddBasic(string(text))
			return
		}
	}
	s.Add(credentials)
}

// Replacer returns what takes the secrets out of a text; nil if there are none.
func (s *Secrets) Replacer() *strings.Replacer {
	if len(s.written) == 0 {
		return nil
	}
	// Of two that begin alike the longer one is to be found.
	slices.SortFunc(s.written, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, secret := range s.written {
		pairs = append(pairs, secret, Text)
	}
	return strings.NewReplacer(pairs...)
}
