// Package conceal takes secrets out of texts. Some APIs repeat the credentials
// that they refuse, and what they say of a refused call is told to its caller, who
// may not be the one whose credentials they are.
//
// A secret is found however it is written: as it is, or with any of its characters
// escaped as JSON, URLs, forms and HTML do.
package conceal

import (
	"cmp"
	"encoding/base64"
	"slices"
	"strings"
)

// Text stands where a secret was.
const Text = "[concealed]"

// minLength is how long a secret must be to be looked for, in bytes: what is
// shorter stands in many texts by chance.
const minLength = 4

// Secrets are what must not be told. The zero value has none.
type Secrets struct {
	all [][]rune // of two that begin alike the longer one first
}

// Add adds a secret.
func (s *Secrets) Add(secret string) {
	if len(secret) < minLength {
		return
	}
	runes := []rune(secret)
	longer := func(a, b []rune) int { return cmp.Or(len(b)-len(a), slices.Compare(a, b)) }
	if i, found := slices.BinarySearchFunc(s.all, runes, longer); !found {
		s.all = slices.Insert(s.all, i, runes)
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

// AddHeader adds the value of a header. Of one such as Authorization has it, the
// scheme is no secret, and the parameters are secrets by themselves (RFC 9110,
// section 11.4).
func (s *Secrets) AddHeader(value string) {
	scheme, credentials, found := strings.Cut(strings.TrimSpace(value), " ")
	credentials = strings.TrimLeft(credentials, " ")
	if !found {
		s.Add(scheme)
		return
	}
	if strings.EqualFold(scheme, "Basic") {
		if text, err := base64.StdEncoding.DecodeString(credentials); err == nil {
			s.AddBasic(string(text))
			return
		}
	}
	s.Add(credentials)
	for parameter := range strings.SplitSeq(credentials, ",") {
		if _, value, found := strings.Cut(parameter, "="); found {
			s.Add(strings.Trim(value, `" `))
		}
	}
}

// None reports whether there are no secrets.
func (s *Secrets) None() bool { return len(s.all) == 0 }

// Conceal returns the text without the secrets: the same one if it has none.
func (s *Secrets) Conceal(text string) string {
	var b strings.Builder
	rest := 0 // from here on the text has yet to be written
	for i := 0; i < len(text); {
		end := s.at(text, i)
		if end < 0 {
			i++
			continue
		}
		b.WriteString(text[rest:i])
		b.WriteString(Text)
		i, rest = end, end
	}
	if rest == 0 {
		return text
	}
	b.WriteString(text[rest:])
	return b.String()
}

// In reports whether the text repeats a secret.
func (s *Secrets) In(text string) bool {
	if s.None() {
		return false
	}
	for i := range len(text) {
		if s.at(text, i) >= 0 {
			return true
		}
	}
	return false
}

// at returns where the secret ends that begins at i, -1 if none does.
func (s *Secrets) at(text string, i int) int {
	for _, secret := range s.all {
		if end := match(text, i, secret); end >= 0 {
			return end
		}
	}
	return -1
}

// match returns where the secret ends if it begins at i, -1 if it does not.
func match(text string, i int, secret []rune) int {
	for n, c := range secret {
		plain, escaped := afterPlain(text, i, c), afterEscaped(text, i, c)
		if plain < 0 && escaped < 0 {
			return -1
		}
		if plain >= 0 && escaped >= 0 { // a character that escapes begin with
			if end := match(text, escaped, secret[n+1:]); end >= 0 {
				return end
			}
			escaped = -1
		}
		i = max(plain, escaped)
	}
	return i
}
