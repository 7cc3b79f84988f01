package content

import (
	"cmp"
	"net/url"
	"strings"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/tools"
)

// Links writes the links in the headers of API responses.
type Links struct {
	Version protocol.Revision
	Origin  string // scheme and host of the API; "" if unknown

	// ResourceAt returns the MCP resource for a path and query of the API. ok is false if there is none.
	ResourceAt func(path string) (uri, name string, ok bool)
}

// AppendTo appends the links of a response to an array of content blocks that is not empty. A link
// that the client can follow becomes a resource_link, if the revision has that; other links become
// text.
func (w *Links) AppendTo(dst []byte, r *tools.Result) []byte {
	location, headers := r.Header["Location"], r.Header["Link"]
	var links []link
	if len(location) == 1 && location[0] != "" {
		links = append(links, link{target: location[0], relation: "location"})
	}
	links = append(links, parseLinks(headers)...)
	for i := range links[:min(len(links), maxLinks)] {
		dst = w.append(dst, &links[i], len(r.Body) == 0)
	}
	return dst
}

// append appends one link. It skips the Location of a response without a body, because
// statusLine already contains it.
func (w *Links) append(dst []byte, l *link, bodiless bool) []byte {
	uri, name, known := w.resolve(l.target)
	if uri != "" && w.Version.SupportsResourceLinks() {
		dst = strictjson.AppendString(append(dst, `,{"type":"resource_link","uri":`...), uri)
		dst = strictjson.AppendString(append(dst, `,"name":`...), cmp.Or(name, l.relation))
		if known && name != "" {
			dst = strictjson.AppendString(append(dst, `,"description":`...), l.relation)
		}
		if l.title != "" {
			dst = strictjson.AppendString(append(dst, `,"title":`...), l.title)
		}
		if l.media != "" {
			dst = strictjson.AppendString(append(dst, `,"mimeType":`...), l.media)
		}
		return append(dst, '}')
	}
	if l.relation == "location" && bodiless && !known {
		return dst
	}
	target := text.Cut(cmp.Or(uri, l.target), maxLocation)
	if l.relation == "location" {
		return AppendText(append(dst, ','), "Location: "+target)
	}
	return AppendText(append(dst, ','), "Link: <"+target+`>; rel="`+l.relation+`"`)
}

// resolve returns the URI with which a client can follow a link:
//
//   - the URI of the MCP resource for the same GET operation of the API
//   - else the link itself, if it is an absolute http or https URL
//   - else "": a relative link refers to the API's own address, which clients may be unable to reach
func (w *Links) resolve(target string) (uri, name string, known bool) {
	u, err := url.Parse(target)
	if err != nil || len(target) > maxLinkURL {
		return "", "", false
	}
	absolute := u.Scheme != ""
	if strings.HasPrefix(u.Path, "/") && (!absolute && u.Host == "" || absolute && w.Origin != "" && u.Scheme+"://"+u.Host == w.Origin) {
		path := u.EscapedPath()
		if u.RawQuery != "" {
			path += "?" + u.RawQuery
		}
		if uri, name, known = w.ResourceAt(path); known {
			return uri, name, true
		}
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return "", "", false
	}
	u.User = nil
	if uri = u.String(); !IsAbsoluteURL(uri) {
		return "", "", false
	}
	return uri, "", false
}
