package library

import (
	"context"
	"encoding/base64"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/mcpadapter/internal/content"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/mcpadapter/skills"
	"github.com/fairwayhq/fairway/tools"
)

// An Entry is an entry of resources/list or, if it has a template, of resources/templates/list.
// Its content comes from a file, a folder, or a GET operation of the API.
type Entry struct {
	uri         string       // "" for a template
	template    *uriTemplate // nil for a resource with a fixed URI
	name        string
	title       string
	description string
	Mime        string // "" if unknown
	icons       []content.Icon
	meta        jsontext.Value // _meta of the resource and of its contents; nil for none
	annotations jsontext.Value // of a resource of an MCP server; nil for none
	size        int64          // -1 if unknown
	modified    time.Time      // zero if unknown

	file   *file
	folder *folder
	skill  *skills.File
	Live   func(context.Context) ([]byte, error)
	Tool   *tools.Tool
	Scopes []string // that a token needs, besides those of the tool
	Denied bool     // the token lacks scopes, so the resource is not listed

	arguments arguments // of the tool, by variable of the template
}

// A Live is a resource whose content is made for each caller. The context of Read is that of the HTTP request.
type Live struct {
	URI, Name, Description, Mime string
	Read                         func(context.Context) ([]byte, error)
}

// forToken returns the entry as a caller with the token sees it.
func (r *Entry) forToken(access *tools.Access) *Entry {
	if access.Lacks(r.Scopes) == nil {
		return r
	}
	denied := *r
	denied.Denied = true
	return &denied
}

// A Target is the resource that a URI refers to, with the values of the template's variables.
type Target struct {
	*Entry
	URI      string
	bindings []binding
}

// IsDenied reports whether the token lacks scopes, so that the entry is not listed.
func (r *Entry) IsDenied() bool { return r.Denied }

// AppendTo appends the resource as the lists return it.
func (r *Entry) AppendTo(dst []byte, v protocol.Revision) []byte {
	if r.template != nil {
		dst = strictjson.AppendString(append(dst, `{"uriTemplate":`...), r.template.text)
	} else {
		dst = strictjson.AppendString(append(dst, `{"uri":`...), r.uri)
	}
	dst = AppendNamed(append(dst, ','), r.name, r.title, r.description, v)
	if r.Mime != "" {
		dst = strictjson.AppendString(append(dst, `,"mimeType":`...), r.Mime)
	}
	if r.size >= 0 && r.template == nil {
		dst = strconv.AppendInt(append(dst, `,"size":`...), r.size, 10)
	}
	switch {
	case r.annotations != nil && v.SupportsAnnotations():
		dst = append(append(dst, `,"annotations":`...), r.annotations...)
	case !r.modified.IsZero() && v.SupportsTitles():
		dst = append(dst, `,"annotations":{"lastModified":"`...)
		dst = append(r.modified.UTC().AppendFormat(dst, time.RFC3339), `"}`...)
	}
	dst = content.AppendIcons(dst, r.icons, v)
	return append(appendMeta(dst, r.meta, v), '}')
}

// appendMeta appends _meta if the revision allows it on resources.
func appendMeta(dst []byte, meta jsontext.Value, v protocol.Revision) []byte {
	if meta == nil || !v.SupportsTitles() {
		return dst
	}
	return append(append(dst, `,"_meta":`...), meta...)
}

// AppendContentsOf appends one item of contents, as text if possible and otherwise as a blob.
func AppendContentsOf(dst []byte, t Target, mediaType string, body []byte, v protocol.Revision) []byte {
	dst = strictjson.AppendString(append(dst, `{"uri":`...), t.URI)
	dst = strictjson.AppendString(append(dst, `,"mimeType":`...), mediaType)
	if readable(mediaType, body) || len(body) == 0 {
		dst = strictjson.AppendString(append(dst, `,"text":`...), body)
	} else {
		dst = append(dst, `,"blob":"`...)
		dst = append(base64.StdEncoding.AppendEncode(dst, body), '"')
	}
	return append(appendMeta(dst, t.meta, v), '}')
}
