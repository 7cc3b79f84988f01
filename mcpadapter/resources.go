package mcpadapter

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/mcpadapter/internal/catalog"
	"github.com/fairwayhq/fairway/mcpadapter/internal/jsonrpc"
	"github.com/fairwayhq/fairway/mcpadapter/library"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// resourceNotFound is the error code for an unknown URI before 2026-07-28. Later revisions use
// InvalidParams (MCP, Resources, Error Handling).
const resourceNotFound = -32002

// A resourceRequest is a request to list or read resources.
type resourceRequest struct{ *message }

// listResources serves resources/list. Files in folders come last, as they currently exist.
func (q resourceRequest) listResources() *jsonrpc.Fault {
	c := q.catalog()
	all := slices.Concat(c.Index().Resources, c.Index().FilesInFolders(time.Now()))
	return q.listItems(c, "resources", all)
}

// listTemplates serves resources/templates/list.
func (q resourceRequest) listTemplates() *jsonrpc.Fault {
	c := q.catalog()
	return q.listItems(c, "resourceTemplates", c.Index().Templates)
}

// listItems writes one page of resources.
func (q resourceRequest) listItems(c *catalog.Catalog, name string, all []*library.Entry) *jsonrpc.Fault {
	items := make([]listed, 0, len(all))
	for _, r := range all {
		if !r.Denied {
			items = append(items, r)
		}
	}
	return listRequest{q.message, name, c}.write(items)
}

// readResource serves resources/read.
func (q resourceRequest) readResource() *jsonrpc.Fault {
	uri, f := q.uri()
	if f != nil {
		return f
	}
	t, ok := q.catalog().Index().Find(uri)
	if !ok {
		return q.noResource(uri)
	}
	r, f := q.openResource(t, "resources/read", uri)
	if f != nil {
		return f
	}
	defer r.Release()
	if r.InputRequired != nil {
		q.writeInputRequired(r.reply)
		return nil
	}
	b := q.appendResultHead(q.beginResult(), "complete", nil)
	if q.version.Stateless() {
		b = r.appendFreshness(b, q.wholeCatalog().Fresh)
	}
	if b, f = q.appendContents(append(b, `"contents":[`...), r); f != nil {
		return f
	}
	q.out.B = append(b, "]}}"...)
	return nil
}

// URI returns the parameter uri.
func (q resourceRequest) uri() (string, *jsonrpc.Fault) {
	raw := wire.MemberOf(q.params.raw, "uri")
	if raw.Kind() != '"' {
		return "", jsonrpc.BadParams("params.uri must be a string that names a resource, not %s", wire.KindName(raw.Kind()))
	}
	uri := wire.Text(raw)
	if len(uri) > library.MaxURI {
		return "", jsonrpc.BadParams("params.uri is longer than %d bytes", library.MaxURI)
	}
	return uri, nil
}

// noResource returns the fault for a URI without a resource.
func (q resourceRequest) noResource(uri string) *jsonrpc.Fault {
	f := jsonrpc.Faultf(http.StatusOK, resourceNotFound,
		"unknown resource %s; resources/list and resources/templates/list return the available ones", text.Cut(uri, 4*text.MaxQuoted))
	if q.version.Stateless() {
		f.Code = jsonrpc.InvalidParams
	}
	f.Data = append(wire.AppendString([]byte(`{"uri":`), uri), '}')
	return f
}

// An opened is the content of a resource. The caller must release it.
type opened struct {
	library.Target
	reply        // for operations
	mime  string // for files
	body  []byte // for files
}

// openResource reads a resource. method and name are those of the client's request (see invocation).
func (q resourceRequest) openResource(t library.Target, method, name string) (opened, *jsonrpc.Fault) {
	if t.Tool != nil {
		return q.openOperation(t, method, name)
	}
	body, mime, err := t.Read()
	switch {
	case err == nil:
		return opened{Target: t, mime: mime, body: body}, nil
	case errors.Is(err, library.ErrFileSize):
		return opened{}, q.unreadable(t.URI, "resource %s %v", text.Cut(t.URI, text.MaxQuoted), err)
	case errors.Is(err, fs.ErrNotExist):
		return opened{}, q.noResource(t.URI)
	}
	return opened{}, q.unreadable(t.URI, "resource %s cannot be read at the moment", text.Cut(t.URI, text.MaxQuoted))
}

// openOperation calls the operation of the resource.
func (q resourceRequest) openOperation(t library.Target, method, name string) (opened, *jsonrpc.Fault) {
	r, f := q.invoke(invocation{method: method, target: name, name: t.Tool.Name, callable: q.wholeCatalog().Callable(t.Tool.Name), arguments: t.Call()})
	if f != nil {
		return opened{}, f
	}
	if r.Failure == nil {
		return opened{Target: t, reply: r}, nil
	}
	defer r.Release()
	switch failure := r.Failure; {
	case failure.Status == http.StatusNotFound || failure.Status == http.StatusGone:
		f = q.noResource(t.URI)
		f.Message = fmt.Sprintf("unknown resource %s: %s", text.Cut(t.URI, 4*text.MaxQuoted), failure.Message)
	case failure.Kind == tool.InvalidArguments:
		f = jsonrpc.BadParams("%s", failure.Message)
	default:
		f = q.unreadable(t.URI, "%s", failure.Message)
	}
	f.Data = q.failureData(t.URI, r)
	return opened{}, f
}

// failureData returns the data of the error: the URI, and the members that a failed tool call has in
// _meta.
func (q resourceRequest) failureData(uri string, r reply) []byte {
	data := append(wire.AppendString([]byte(`{"uri":`), uri), ',')
	return append(append(data, q.failureMeta(r)...), '}')
}

// unreadable returns the fault for a resource that exists but cannot be read.
func (q resourceRequest) unreadable(uri, format string, args ...any) *jsonrpc.Fault {
	f := jsonrpc.Faultf(http.StatusOK, jsonrpc.InternalError, format, args...)
	f.Data = append(wire.AppendString([]byte(`{"uri":`), uri), '}')
	return f
}

// appendContents appends the contents of the resource. There is one item, unless the API returns a
// native result with several.
func (q resourceRequest) appendContents(dst []byte, r opened) ([]byte, *jsonrpc.Fault) {
	if r.Target.Tool == nil {
		return library.AppendContentsOf(dst, r.Target, r.mime, r.body, q.version), nil
	}
	if r.Native != nil {
		return q.appendNativeContents(dst, r)
	}
	if r.Result == nil {
		return library.AppendContentsOf(dst, r.Target, cmp.Or(r.Target.Mime, "text/plain"), nil, q.version), nil
	}
	mime := r.Target.ContentType(r.Result.MediaType(), r.Result.Body)
	return library.AppendContentsOf(dst, r.Target, mime, r.Result.Body, q.version), nil
}

// appendNativeContents appends the contents of a ReadResourceResult from the API.
func (q resourceRequest) appendNativeContents(dst []byte, r opened) ([]byte, *jsonrpc.Fault) {
	contents := wire.MemberOf(r.Native, "contents")
	count := 0
	for walk := wire.Into(contents); walk.Next(); count++ {
		if count > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = q.blocks().AppendResourceContents(dst, walk.Value); err != nil {
			return dst, q.unreadable(r.Target.URI, "the API returned invalid contents[%d]: %v", count, err)
		}
	}
	if contents.Kind() != '[' || count == 0 {
		return dst, q.unreadable(r.Target.URI, "the API returned a result without contents")
	}
	return dst, nil
}

// appendFreshness appends ttlMs and cacheScope. Files have the freshness of lists. API responses
// have the lifetime that the API declares and are always private, because they may differ between
// users.
func (r *opened) appendFreshness(dst, ofLists []byte) []byte {
	if r.Target.Tool == nil {
		return append(append(dst, ofLists...), ',')
	}
	var ttl time.Duration
	if r.Result != nil && r.Native == nil {
		ttl = maxAge(r.Result.Header)
	}
	if r.Native != nil {
		ttl = nativeAge(r.Native)
	}
	dst = strconv.AppendInt(append(dst, `"ttlMs":`...), ttl.Milliseconds(), 10)
	return append(dst, `,"cacheScope":"private",`...)
}

// longestAge is the maximum lifetime that an API can declare.
const longestAge = 365 * 24 * time.Hour

// maxAge returns the lifetime of a response from its Cache-Control header, or 0 (RFC 9111, section
// 5.2.2).
func maxAge(header http.Header) time.Duration {
	var age time.Duration
	for _, line := range header["Cache-Control"] {
		for directive := range strings.SplitSeq(line, ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
			switch strings.ToLower(name) {
			case "no-store", "no-cache":
				return 0
			case "max-age":
				if seconds, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 32); err == nil {
					age = min(time.Duration(seconds)*time.Second, longestAge)
				}
			}
		}
	}
	return age
}

// nativeAge returns the lifetime of a native result from its ttlMs, or 0.
func nativeAge(native jsontext.Value) time.Duration {
	ms, err := strconv.ParseUint(string(wire.MemberOf(native, "ttlMs")), 10, 40)
	if err != nil {
		return 0
	}
	return min(time.Duration(ms)*time.Millisecond, longestAge)
}
