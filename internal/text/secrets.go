package text

import (
	"cmp"
	"encoding/base64"
	"slices"
	"strings"
)

// concealed replaces a secret.
const concealed = "[concealed]"

// minSecret is the minimum length of a secret, in bytes. Shorter texts occur by chance and are
// not concealed.
const minSecret = 4

// Secrets are the texts to conceal. The zero value has none.
type Secrets struct {
	all [][]rune // sorted so that of two secrets with a common beginning the longer comes first
}

// Add adds a secret.
func (s *Secrets) Add(secret string) {
	if len(secret) < minSecret {
		return
	}
	runes := []rune(secret)
	longer := func(a, b []rune) int { return cmp.Or(len(b)-len(a), slices.Compare(a, b)) }
	if i, found := slices.BinarySearchFunc(s.all, runes, longer); !found {
		s.all = slices.Insert(s.all, i, runes)
	}
}

// AddBasic adds the credentials of HTTP Basic authentication, given as user:password. It also
// adds the password alone and the encoded form in the header.
func (s *Secrets) AddBasic(credentials string) {
	s.Add(credentials)
	s.Add(base64.StdEncoding.EncodeToString([]byte(credentials)))
	_, password, _ := strings.Cut(credentials, ":")
	s.Add(password)
}

// AddHeader adds the value of a header. If the value has the form of Authorization (RFC 9110,
// section 11.4), the scheme is not a secret, and each of the parameters is one.
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

// IsEmpty reports whether there are no secrets.
func (s *Secrets) IsEmpty() bool { return len(s.all) == 0 }

// Conceal returns the text with its secrets replaced. A text without secrets is returned
// unchanged.
func (s *Secrets) Conceal(text string) string {
	var b strings.Builder
	rest := 0 // start of the text that is not written yet
	for i := 0; i < len(text); {
		end := s.at(text, i)
		if end < 0 {
			i++
			continue
		}
		b.WriteString(text[rest:i])
		b.WriteString(concealed)
		i, rest = end, end
	}
	if rest == 0 {
		return text
	}
	b.WriteString(text[rest:])
	return b.String()
}

// Contains reports whether the text contains a secret.
func (s *Secrets) Contains(text string) bool {
	if s.IsEmpty() {
		return false
	}
	for i := range len(text) {
		if s.at(text, i) >= 0 {
			return true
		}
	}
	return false
}

// at returns the end of the secret that begins at i. It returns -1 if none does.
func (s *Secrets) at(text string, i int) int {
	for _, secret := range s.all {
		if end := match(text, i, secret); end >= 0 {
			return end
		}
	}
	return -1
}

// match returns the end of the secret if it begins at i, else -1.
func match(text string, i int, secret []rune) int {
	for n, c := range secret {
		plain, escaped := afterPlain(text, i, c), afterEscaped(text, i, c)
		if plain < 0 && escaped < 0 {
			return -1
		}
		if plain >= 0 && escaped >= 0 { // a character with which escapes begin
			if end := match(text, escaped, secret[n+1:]); end >= 0 {
				return end
			}
			escaped = -1
		}
		i = max(plain, escaped)
	}
	return i
}
