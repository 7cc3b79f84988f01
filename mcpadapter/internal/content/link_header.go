package content

import (
	"strings"

	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/internal/text"
)

const (
	maxLinkHeader = 16 << 10 // bytes of Link headers that are read
	maxLinks      = 8        // in one result
	maxLinkURL    = 2 << 10  // bytes
	maxLinkTitle  = 200      // bytes
)

// A link is a reference in the headers of a response: the Location header, or one link of a Link
// header (RFC 8288).
type link struct {
	target   string
	relation string
	title    string
	media    string
}

// relations are the link relations that are shown to clients. Relations for preloading and for other
// representations of the same content are left out.
var relations = map[string]bool{
	"next": true, "prev": true, "previous": true, "first": true, "last": true, "up": true, "item": true,
	"collection": true, "related": true, "alternate": true, "edit": true, "enclosure": true, "monitor": true,
	"status": true, "describedby": true, "latest-version": true, "successor-version": true, "payment": true,
}

// parseLinks parses Link headers (RFC 8288, section 3) up to the first syntax error. It returns the
// links of this response with a relation in relations.
func parseLinks(headers []string) (links []link) {
	size := 0
	for _, header := range headers {
		if size += len(header); size > maxLinkHeader {
			return links
		}
		for rest := header; len(links) < maxLinks; {
			var l link
			var ok bool
			if l, rest, ok = parseLink(rest); !ok {
				break
			}
			if l.relation != "" {
				links = append(links, l)
			}
		}
	}
	return links
}

// parseLink parses the first link of a header. The relation is "" if it is not in relations.
func parseLink(s string) (l link, rest string, ok bool) {
	s = strings.TrimLeft(s, " \t,")
	if s == "" || s[0] != '<' {
		return l, "", false
	}
	l.target, rest, ok = strings.Cut(s[1:], ">")
	if !ok {
		return l, "", false
	}
	anchored := false
	seen := false
	for {
		rest = strings.TrimLeft(rest, " \t")
		if rest == "" || rest[0] != ';' {
			break
		}
		var name, value string
		name, value, rest = parseParameter(rest[1:])
		switch name {
		case "rel":
			if !seen { // only the first rel parameter counts (RFC 8288, section 3.3)
				l.relation, seen = usefulRelation(value), true
			}
		case "title":
			l.title = text.Cut(strings.ToValidUTF8(value, "\ufffd"), maxLinkTitle)
		case "type":
			l.media = httpheader.MediaType(value)
		case "anchor":
			anchored = true // the link belongs to another document
		}
	}
	if anchored || l.target == "" {
		l.relation = ""
	}
	return l, rest, true
}

func usefulRelation(value string) string {
	for relation := range strings.FieldsSeq(strings.ToLower(value)) {
		if relations[relation] {
			return relation
		}
	}
	return ""
}

// parseParameter parses name, name=token or name="quoted string".
func parseParameter(s string) (name, value, rest string) {
	end := strings.IndexAny(s, "=;,")
	if end < 0 {
		return strings.ToLower(strings.TrimSpace(s)), "", ""
	}
	name = strings.ToLower(strings.TrimSpace(s[:end]))
	if s[end] != '=' {
		return name, "", s[end:]
	}
	s = strings.TrimLeft(s[end+1:], " \t")
	if s == "" || s[0] != '"' {
		end = strings.IndexAny(s, ";,")
		if end < 0 {
			return name, strings.TrimSpace(s), ""
		}
		return name, strings.TrimSpace(s[:end]), s[end:]
	}
	var quoted strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return name, quoted.String(), s[i+1:]
		case s[i] == '\\' && i+1 < len(s):
			i++
		}
		quoted.WriteByte(s[i])
	}
	return name, quoted.String(), ""
}
