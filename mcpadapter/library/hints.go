package library

import (
	"errors"
	"fmt"
	"net/textproto"
	"regexp"
	"strings"

	"golang.org/x/net/http/httpguts"
)

const maxLocales = 256 // languages of an API

// languageTag matches a language tag or a language range (RFC 5646, RFC 4647).
var languageTag = regexp.MustCompile(`^[A-Za-z]{1,8}(-[A-Za-z0-9]{1,8}){0,8}$`)

// guarded are headers that a hint must not set, because they affect routing or authorization.
var guarded = []string{
	"Authorization", "Proxy-Authorization", "Cookie", "Host", "Connection", "Content-Length", "Content-Type",
	"Transfer-Encoding", "Te", "Trailer", "Upgrade", "Accept", "Accept-Language", "Forwarded", "X-Forwarded-For", "X-Forwarded-Host",
	"X-Forwarded-Proto", "X-Real-Ip",
}

// checkHints returns an error for invalid locales and header names.
func (l *Library) checkHints() error {
	if len(l.options.Locales) > maxLocales {
		return fmt.Errorf("more than %d locales", maxLocales)
	}
	for _, locale := range l.options.Locales {
		if !languageTag.MatchString(locale) {
			return fmt.Errorf("locale %q is not a language tag; write it as en or pt-BR", locale)
		}
	}
	for _, header := range []*string{&l.options.Hints.UserAgent, &l.options.Hints.Location} {
		if err := checkHintHeader(*header); err != nil {
			return fmt.Errorf("hint %q: %w", *header, err)
		}
		*header = textproto.CanonicalMIMEHeaderKey(*header)
	}
	o := &l.options
	l.hints = len(o.Locales) > 0 || o.Hints.UserAgent != "" || o.Hints.Location != ""
	if agent := l.options.Hints.UserAgent; agent != "" && agent == l.options.Hints.Location {
		return fmt.Errorf("hint %q: both hints use the same header; give each its own", agent)
	}
	return nil
}

func checkHintHeader(name string) error {
	if name != "" && !httpguts.ValidHeaderFieldName(name) {
		return errors.New("not a valid header name")
	}
	for _, header := range guarded {
		if strings.EqualFold(name, header) {
			return errors.New("clients could forge this header through a hint; choose another header")
		}
	}
	return nil
}

// HasHints reports whether the API gets any hints about the client and its user.
func (l *Library) HasHints() bool { return l.hints }

// UserAgentHeader returns the header with the client's user agent, "" if the API does not get it.
func (l *Library) UserAgentHeader() string { return l.options.Hints.UserAgent }

// LocationHeader returns the header with the user's location, "" if the API does not get it.
func (l *Library) LocationHeader() string { return l.options.Hints.Location }

// HasLocales reports whether the API supports several languages.
func (l *Library) HasLocales() bool { return len(l.options.Locales) > 0 }

// Locale returns the API's best language for the one that a client wants.
func (l *Library) Locale(wanted string) string { return lookup(wanted, l.options.Locales) }

// lookup finds the best language for a range (RFC 4647, section 3.4, Lookup). It shortens the range
// from the end until a language matches. The default is the first language.
func lookup(wanted string, locales []string) string {
	wanted = strings.ReplaceAll(wanted, "_", "-")
	if !languageTag.MatchString(wanted) {
		return locales[0]
	}
	for wanted != "" {
		for _, locale := range locales {
			if strings.EqualFold(locale, wanted) {
				return locale
			}
		}
		cut := max(strings.LastIndexByte(wanted, '-'), 0)
		if cut >= 2 && wanted[cut-2] == '-' {
			cut -= 2 // a single-character subtag is removed together with the subtag after it
		}
		wanted = wanted[:cut]
	}
	return locales[0]
}
