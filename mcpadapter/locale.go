package mcpadapter

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/net/http/httpguts"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// Members of _meta with hints about the client and its user (Apps SDK, Locale Negotiation, Client
// Hints). Hints never affect authorization.
const (
	metaLocale       = "openai/locale"
	metaLegacyLocale = "webplus/i18n" // name used by older clients
	metaUserAgent    = "openai/userAgent"
	metaUserLocation = "openai/userLocation"
)

const (
	maxUserAgent = 256 // bytes that are passed on
	maxPlace     = 128 // bytes of one member of a location
	maxLocales   = 256
)

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
		return fmt.Errorf("there are more than %d locales", maxLocales)
	}
	for _, locale := range l.options.Locales {
		if !languageTag.MatchString(locale) {
			return fmt.Errorf("locale %q is not a language tag: write it as en or pt-BR", locale)
		}
	}
	for _, header := range []*string{&l.options.UserAgentHeader, &l.options.LocationHeader} {
		if err := checkHintHeader(*header); err != nil {
			return fmt.Errorf("hint %q: %w", *header, err)
		}
		*header = textproto.CanonicalMIMEHeaderKey(*header)
	}
	o := &l.options
	l.hints = len(o.Locales) > 0 || o.UserAgentHeader != "" || o.LocationHeader != ""
	if agent := l.options.UserAgentHeader; agent != "" && agent == l.options.LocationHeader {
		return fmt.Errorf("hint %q: two hints cannot have the same header", agent)
	}
	return nil
}

func checkHintHeader(name string) error {
	if name != "" && !httpguts.ValidHeaderFieldName(name) {
		return errors.New("is not the name of a header")
	}
	for _, header := range guarded {
		if strings.EqualFold(name, header) {
			return errors.New("a hint is what anyone may say, and must not be put into this header")
		}
	}
	return nil
}

// locale returns the API's best language for the locale that the client sent. It returns "" if the
// client sent none or if no locales are configured.
func (x *exchange) locale() string {
	l := x.server.library.Load()
	if len(l.options.Locales) == 0 || x.params.meta == nil {
		return ""
	}
	wanted := text(member(x.params.meta, metaLocale))
	if wanted == "" {
		wanted = text(member(x.params.meta, metaLegacyLocale))
	}
	if wanted == "" {
		return ""
	}
	return lookup(wanted, l.options.Locales)
}

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

// appendLocale appends openai/locale, the language of the response, to the members of a result's
// _meta.
func (x *exchange) appendLocale(meta []byte) []byte {
	locale := x.locale()
	if locale == "" {
		return meta
	}
	if len(meta) > 0 {
		meta = append(meta, ',')
	}
	return wire.AppendString(append(meta, `"`+metaLocale+`":`...), locale)
}

// hinted returns a context that adds the client's hints to the headers of the inner request. It
// overwrites these headers, so values in the client's HTTP request, which are not sanitized, never
// pass.
func (x *exchange) hinted(ctx context.Context) context.Context {
	l := x.server.library.Load()
	if !l.hints {
		return ctx
	}
	header := make(http.Header)
	if locale := x.locale(); locale != "" {
		header["Accept-Language"] = []string{locale}
	}
	if name := l.options.UserAgentHeader; name != "" {
		header[name] = notEmpty(visible(text(member(x.params.meta, metaUserAgent)), maxUserAgent))
	}
	if name := l.options.LocationHeader; name != "" {
		header[name] = notEmpty(locationHeader(member(x.params.meta, metaUserLocation)))
	}
	if len(header) == 0 {
		return ctx
	}
	return tool.ContextWithSupplement(ctx, &tool.Supplement{Header: header})
}

// notEmpty returns a header's values: value, or none if it is empty.
func notEmpty(value string) []string {
	if value == "" {
		return nil
	}
	return []string{value}
}

// visible returns the characters of value that a header can carry: ASCII without control characters.
func visible(value string, limit int) string {
	value = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, value[:min(len(value), 4*limit)])
	return strings.TrimSpace(value[:min(len(value), limit)])
}

// placeMembers are the members of a location and their JSON types.
var placeMembers = []struct {
	name string
	kind jsontext.Kind
}{
	{"city", '"'}, {"region", '"'}, {"country", '"'}, {"timezone", '"'}, {"latitude", '0'}, {"longitude", '0'},
}

// locationHeader returns a location as a header value: a JSON object in ASCII with the known members
// that the client sent, or "" if it sent none.
func locationHeader(raw jsontext.Value) string {
	if raw.Kind() != '{' {
		return ""
	}
	var place members
	for _, m := range placeMembers {
		value := member(raw, m.name)
		if value.Kind() != m.kind || len(value) > maxPlace {
			continue
		}
		if m.kind == '"' {
			value = asciiString(text(value))
		}
		place.add(m.name, value)
	}
	if len(place) == 0 {
		return ""
	}
	return string(place.object())
}

// asciiString returns value as a JSON string with all non-ASCII characters escaped.
func asciiString(value string) jsontext.Value {
	quoted := wire.AppendString(nil, value)
	b := make([]byte, 0, len(quoted))
	for _, r := range string(quoted) {
		switch {
		case r < 0x80:
			b = append(b, byte(r))
		case r < 0x10000:
			b = fmt.Appendf(b, `\u%04x`, r)
		default:
			r -= 0x10000
			b = fmt.Appendf(b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		}
	}
	return b
}
