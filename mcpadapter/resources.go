package mcpadapter

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/mcpadapter/library"
	"github.com/fairwayhq/fairway/tools"
)

// resourceNotFound is the error code for an unknown URI before 2026-07-28. Later revisions use
// InvalidParams (MCP, Resources, Error Handling).
const resourceNotFound = -32002

// listResources serves resources/list. Files in folders come last, as they currently exist.
func listResources(q *request, w *response) *protocol.Fault {
	c := q.catalog()
	return writeList(listRequest{q, w, "resources", c}, slices.Concat(c.Index().Resources, c.Index().FilesInFolders(time.Now())))
}

// listTemplates serves resources/templates/list.
func listTemplates(q *request, w *response) *protocol.Fault {
	c := q.catalog()
	return writeList(listRequest{q, w, "resourceTemplates", c}, c.Index().Templates)
}

// readResource serves resources/read.
func readResource(q *request, w *response) *protocol.Fault {
	uri, f := uriOf(q)
	if f != nil {
		return f
	}
	t, ok := q.catalog().Index().Find(uri)
	if !ok {
		return noResource(uri, q.version)
	}
	r, f := openResource(q, t, "resources/read", uri)
	if f != nil {
		return f
	}
	defer r.Release()
	if r.InputRequired != nil {
		w.inputRequired(r.InputRequired)
		return nil
	}
	b := w.result("complete", nil)
	if q.version.Stateless() {
		b = r.appendFreshness(b, q.wholeCatalog().Fresh)
	}
	if b, f = r.appendContents(append(b, `"contents":[`...)); f != nil {
		return f
	}
	w.end(append(b, ']'))
	return nil
}

// uriOf returns the parameter uri.
func uriOf(q *request) (string, *protocol.Fault) {
	raw := strictjson.MemberOf(q.params.raw, "uri")
	if raw.Kind() != '"' {
		return "", protocol.BadParams("params.uri must be a string that names a resource, not %s", strictjson.KindName(raw.Kind()))
	}
	uri := strictjson.Text(raw)
	if len(uri) > library.MaxURI {
		return "", protocol.BadParams("params.uri is longer than %d bytes", library.MaxURI)
	}
	return uri, nil
}

// noResource returns the fault for a URI without a resource.
func noResource(uri string, v protocol.Revision) *protocol.Fault {
	f := protocol.Faultf(http.StatusOK, resourceNotFound,
		"unknown resource %s; resources/list and resources/templates/list return the available ones", text.Cut(uri, 4*text.MaxQuoted))
	if v.Stateless() {
		f.Code = protocol.InvalidParams
	}
	f.Data = append(strictjson.AppendString([]byte(`{"uri":`), uri), '}')
	return f
}

// An opened is the content of a resource. The caller must release it.
type opened struct {
	library.Target
	callResult // for operations
	request    *request
	mime       string // for files
	body       []byte // for files
}

// openResource reads a resource. method and name are those of the client's request (see newCall).
func openResource(q *request, t library.Target, method, name string) (opened, *protocol.Fault) {
	if f := protocol.CheckNeeded(q.site.Access, t.URI, t.Scopes); f != nil {
		return opened{}, f
	}
	if t.Tool != nil {
		return openOperation(q, t, method, name)
	}
	body, mime, err := t.Read(q.ctx)
	switch {
	case err == nil:
		return opened{Target: t, request: q, mime: mime, body: body}, nil
	case errors.Is(err, library.ErrFileSize):
		return opened{}, unreadable(t.URI, "resource %s %v", text.Cut(t.URI, text.MaxQuoted), err)
	case errors.Is(err, fs.ErrNotExist):
		return opened{}, noResource(t.URI, q.version)
	}
	return opened{}, unreadable(t.URI, "resource %s cannot be read at the moment", text.Cut(t.URI, text.MaxQuoted))
}

// openOperation calls the operation of the resource.
func openOperation(q *request, t library.Target, method, name string) (opened, *protocol.Fault) {
	r, f := q.newCall(method, name, q.wholeCatalog().Callable(t.Tool.Name), t.Call()).run()
	if f != nil {
		return opened{}, f
	}
	if r.Failure == nil {
		return opened{Target: t, request: q, callResult: r}, nil
	}
	defer r.Release()
	switch failure := r.Failure; {
	case failure.Status == http.StatusNotFound || failure.Status == http.StatusGone:
		f = noResource(t.URI, q.version)
		f.Message = fmt.Sprintf("unknown resource %s: %s", text.Cut(t.URI, 4*text.MaxQuoted), failure.Message)
	case failure.Kind == tools.InvalidArguments:
		f = protocol.BadParams("%s", failure.Message)
	default:
		f = unreadable(t.URI, "%s", failure.Message)
	}
	// The data of the error are the URI, and the members that a failed tool call has in _meta.
	data := append(strictjson.AppendString([]byte(`{"uri":`), t.URI), ',')
	f.Data = append(append(data, failureMeta(q.site, r)...), '}')
	return opened{}, f
}

// unreadable returns the fault for a resource that exists but cannot be read.
func unreadable(uri, format string, args ...any) *protocol.Fault {
	f := protocol.Faultf(http.StatusOK, protocol.InternalError, format, args...)
	f.Data = append(strictjson.AppendString([]byte(`{"uri":`), uri), '}')
	return f
}

// appendContents appends the contents of the resource. There is one item, unless the API returns a
// native result with several.
func (r *opened) appendContents(dst []byte) ([]byte, *protocol.Fault) {
	if r.Target.Tool == nil {
		return library.AppendContentsOf(dst, r.Target, r.mime, r.body, r.request.version), nil
	}
	if r.Native != nil {
		return r.appendNativeContents(dst)
	}
	if r.Result == nil {
		return library.AppendContentsOf(dst, r.Target, cmp.Or(r.Target.Mime, "text/plain"), nil, r.request.version), nil
	}
	mime := r.Target.ContentType(r.Result.MediaType(), r.Result.Body)
	return library.AppendContentsOf(dst, r.Target, mime, r.Result.Body, r.request.version), nil
}

// appendNativeContents appends the contents of a ReadResourceResult from the API.
func (r *opened) appendNativeContents(dst []byte) ([]byte, *protocol.Fault) {
	contents := strictjson.MemberOf(r.Native, "contents")
	count := 0
	for walk := strictjson.Into(contents); walk.Next(); count++ {
		item := r.withURI(walk.Value)
		dst = strictjson.Comma(dst)
		var err error
		if dst, err = r.request.blocks().AppendResourceContents(dst, item); err != nil {
			return dst, unreadable(r.Target.URI, "the API returned invalid contents[%d]: %v", count, err)
		}
	}
	if contents.Kind() != '[' || count == 0 {
		return dst, unreadable(r.Target.URI, "the API returned a result without contents")
	}
	return dst, nil
}

// withURI returns an item of contents with the URI of the request, if an MCP server has another URI for its resource.
func (r *opened) withURI(item jsontext.Value) jsontext.Value {
	foreign := r.Target.Tool.Foreign
	if foreign == nil || foreign.Kind != tools.ForeignResource || foreign.Name == r.Target.URI || strictjson.Text(strictjson.MemberOf(item, "uri")) != foreign.Name {
		return item
	}
	renamed := append(strictjson.AppendString([]byte(`{"uri":`), r.Target.URI), ',')
	return append(strictjson.AppendWithout(renamed, item, func(w *strictjson.Walk) bool { return w.Is("uri") }), '}')
}

// appendFreshness appends ttlMs and cacheScope. Files have the freshness of lists. API responses and
// live resources have the lifetime that the API declares and are always private, because they may differ between
// users.
func (r *opened) appendFreshness(dst, ofLists []byte) []byte {
	if r.Target.Tool == nil && r.Live == nil {
		return append(append(dst, ofLists...), ',')
	}
	var ttl time.Duration
	if r.Result != nil && r.Native == nil {
		age, _ := httpheader.MaxAge(r.Result.Header)
		ttl = min(age, longestAge)
	}
	if r.Native != nil {
		ttl = nativeAge(r.Native)
	}
	dst = strconv.AppendInt(append(dst, `"ttlMs":`...), ttl.Milliseconds(), 10)
	return append(dst, `,"cacheScope":"private",`...)
}

// longestAge is the maximum lifetime that an API can declare.
const longestAge = 365 * 24 * time.Hour

// nativeAge returns the lifetime of a native result from its ttlMs, or 0.
func nativeAge(native jsontext.Value) time.Duration {
	ms, err := strconv.ParseUint(string(strictjson.MemberOf(native, "ttlMs")), 10, 40)
	if err != nil {
		return 0
	}
	return min(time.Duration(ms)*time.Millisecond, longestAge)
}
