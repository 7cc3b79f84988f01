package mcpadapter

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// A resource is an entry of resources/list or, if it has a template, of resources/templates/list.
// Its content comes from a file, a folder, or a GET operation of the API.
type resource struct {
	uri         string       // "" for a template
	template    *uriTemplate // nil for a resource with a fixed URI
	name        string
	title       string
	description string
	mime        string // "" if unknown
	icons       []Icon
	meta        jsontext.Value // _meta of the resource and of its contents; nil for none
	size        int64          // -1 if unknown
	modified    time.Time      // zero if unknown

	file   *file
	folder *folder
	tool   *tool.Tool
	denied bool // the token does not allow the tool, so the resource is not listed

	arguments map[string]*tool.Argument // arguments of tool, by variable of the template
}

// A target is the resource that a URI refers to, with the values of the template's variables.
type target struct {
	*resource
	uri      string
	bindings []binding
}

// appendTo appends the resource as the lists return it.
func (r *resource) appendTo(dst []byte, v revision) []byte {
	if r.template != nil {
		dst = wire.AppendString(append(dst, `{"uriTemplate":`...), r.template.text)
	} else {
		dst = wire.AppendString(append(dst, `{"uri":`...), r.uri)
	}
	dst = wire.AppendString(append(dst, `,"name":`...), r.name)
	if r.title != "" && v.titles() {
		dst = wire.AppendString(append(dst, `,"title":`...), r.title)
	}
	if r.description != "" {
		dst = wire.AppendString(append(dst, `,"description":`...), r.description)
	}
	if r.mime != "" {
		dst = wire.AppendString(append(dst, `,"mimeType":`...), r.mime)
	}
	if r.size >= 0 && r.template == nil {
		dst = strconv.AppendInt(append(dst, `,"size":`...), r.size, 10)
	}
	if !r.modified.IsZero() && v.titles() {
		dst = append(dst, `,"annotations":{"lastModified":"`...)
		dst = append(r.modified.UTC().AppendFormat(dst, time.RFC3339), `"}`...)
	}
	dst = appendIcons(dst, r.icons, v)
	return append(appendMeta(dst, r.meta, v), '}')
}

// appendMeta appends _meta if the revision allows it on resources.
func appendMeta(dst []byte, meta jsontext.Value, v revision) []byte {
	if meta == nil || !v.titles() {
		return dst
	}
	return append(append(dst, `,"_meta":`...), meta...)
}

// listResources serves resources/list. Files in folders come last, as they currently exist.
func (x *exchange) listResources() *fault {
	c := x.catalog()
	all := slices.Concat(c.shelf().resources, c.shelf().filesInFolders(time.Now()))
	return x.listItems(c, "resources", all)
}

// listTemplates serves resources/templates/list.
func (x *exchange) listTemplates() *fault {
	c := x.catalog()
	return x.listItems(c, "resourceTemplates", c.shelf().templates)
}

// listItems writes one page of resources.
func (x *exchange) listItems(c *catalog, name string, all []*resource) *fault {
	items := make([]listed, 0, len(all))
	for _, r := range all {
		if !r.denied {
			items = append(items, r)
		}
	}
	return x.listPage(c, name, items)
}

// listed is an entry of a list.
type listed interface {
	appendTo(dst []byte, v revision) []byte
}

// listPage writes one page of a list. Unlike tools/list, these lists are short or change without a
// reload, so they are encoded for each request.
func (x *exchange) listPage(c *catalog, name string, items []listed) *fault {
	var encoded []byte
	ends := make([]int, len(items))
	for i, item := range items {
		encoded = append(item.appendTo(encoded, x.version), ',')
		ends[i] = len(encoded)
	}
	sum := sha256.New()
	sum.Write(c.stamp[:])
	sum.Write([]byte(name))
	sum.Write(encoded)
	stamp := [8]byte(sum.Sum(nil)[:8])
	size := x.server.options.PageSize
	if size <= 0 {
		size = max(len(items), 1)
	}
	page, f := x.pageOf(stamp, name)
	if f != nil {
		return f
	}
	if page > 0 && page*size >= len(items) {
		return staleList(name)
	}
	from, to := page*size, min((page+1)*size, len(items))
	b := x.begin()
	if x.version.selfDescribing() {
		b = append(append(b, c.complete...), ',')
		b = append(append(b, c.fresh...), ',')
	}
	b = append(append(append(b, '"'), name...), `":[`...)
	if from < to {
		start := 0
		if from > 0 {
			start = ends[from-1]
		}
		b = append(b, encoded[start:ends[to-1]-1]...)
	}
	b = append(b, ']')
	if to < len(items) {
		b = wire.AppendString(append(b, `,"nextCursor":`...), cursorOf(stamp, page+1))
	}
	x.out.B = append(b, "}}"...)
	return nil
}

// cursorOf returns the cursor for a page. The stamp makes it invalid for other lists.
func cursorOf(stamp [8]byte, page int) string {
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint32(stamp[:], uint32(page)))
}

// pageOf returns the page number of the request's cursor.
func (x *exchange) pageOf(stamp [8]byte, name string) (int, *fault) {
	switch x.params.cursor.Kind() {
	case 0, 'n':
		return 0, nil
	case '"':
	default:
		return 0, badParams("params.cursor must be a string, not %s", wire.KindName(x.params.cursor.Kind()))
	}
	cursor := text(x.params.cursor)
	if cursor == "" {
		return 0, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(raw) != len(stamp)+4 || string(raw[:len(stamp)]) != string(stamp[:]) {
		return 0, staleList(name)
	}
	return int(binary.BigEndian.Uint32(raw[len(stamp):])), nil
}

// staleList returns the fault for a cursor of another or a changed list.
func staleList(name string) *fault {
	return badParams("params.cursor is not of this list, or the %s have changed since: "+
		"drop what you have and list them again without a cursor", name)
}
