package mcpadapter

import (
	"cmp"
	"context"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/mcpadapter/library"
	"github.com/fairwayhq/fairway/tools/security"
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
)

// localeOf returns the API's best language for the locale that the client sent. It returns "" if the
// client sent none or if no locales are configured.
func localeOf(l *library.Library, meta jsontext.Value) string {
	if !l.HasLocales() || meta == nil {
		return ""
	}
	wanted := cmp.Or(strictjson.Text(strictjson.MemberOf(meta, metaLocale)), strictjson.Text(strictjson.MemberOf(meta, metaLegacyLocale)))
	if wanted == "" {
		return ""
	}
	return l.Locale(wanted)
}

// appendLocale appends openai/locale, the language of the response, to the members of a result's _meta.
func appendLocale(dst []byte, locale string) []byte {
	if locale == "" {
		return dst
	}
	return strictjson.AppendString(append(strictjson.Comma(dst), `"`+metaLocale+`":`...), locale)
}

// withHints returns a context that adds the client's hints to the headers of the inner request. It
// overwrites these headers, so values in the client's HTTP request, which are not sanitized, never
// pass.
func withHints(ctx context.Context, l *library.Library, meta jsontext.Value) context.Context {
	if !l.HasHints() {
		return ctx
	}
	header := make(http.Header)
	if locale := localeOf(l, meta); locale != "" {
		header["Accept-Language"] = []string{locale}
	}
	if name := l.UserAgentHeader(); name != "" {
		header[name] = notEmpty(visible(strictjson.Text(strictjson.MemberOf(meta, metaUserAgent)), maxUserAgent))
	}
	if name := l.LocationHeader(); name != "" {
		header[name] = notEmpty(locationHeader(strictjson.MemberOf(meta, metaUserLocation)))
	}
	if len(header) == 0 {
		return ctx
	}
	return security.ContextWithSupplement(ctx, &security.Supplement{Header: header})
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
	var place strictjson.ObjectBuilder
	for _, m := range placeMembers {
		value := strictjson.MemberOf(raw, m.name)
		if value.Kind() != m.kind || len(value) > maxPlace {
			continue
		}
		if m.kind == '"' {
			value = strictjson.AppendASCII(nil, strictjson.AppendString(nil, strictjson.Text(value)))
		}
		place.Add(m.name, value)
	}
	if len(place) == 0 {
		return ""
	}
	return string(place.Close())
}
