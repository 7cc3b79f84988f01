package mcpadapter

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// resourceNotFound is the error code for an unknown URI before 2026-07-28. Later revisions use
// invalidParams (MCP, Resources, Error Handling).
const resourceNotFound = -32002

// readResource serves resources/read.
func (x *exchange) readResource() *fault {
	uri, f := x.uri()
	if f != nil {
		return f
	}
	t, ok := x.catalog().shelf().find(uri)
	if !ok {
		return x.noResource(uri)
	}
	r, f := x.openResource(t, "resources/read", uri)
	if f != nil {
		return f
	}
	defer r.Release()
	if r.asks != nil {
		x.answerAsks(r.reply)
		return nil
	}
	b := x.appendResultHead(x.begin(), "complete", nil)
	if x.version.selfDescribing() {
		b = r.appendFreshness(b, x.server)
	}
	if b, f = x.appendContents(append(b, `"contents":[`...), r); f != nil {
		return f
	}
	x.out.B = append(b, "]}}"...)
	return nil
}

// uri returns the parameter uri.
func (x *exchange) uri() (string, *fault) {
	raw := member(x.params.raw, "uri")
	if raw.Kind() != '"' {
		return "", badParams("params.uri must be a string that names a resource, not %s", wire.KindName(raw.Kind()))
	}
	uri := text(raw)
	if len(uri) > maxURI {
		return "", badParams("params.uri is longer than %d bytes", maxURI)
	}
	return uri, nil
}

// noResource returns the fault for a URI without a resource.
func (x *exchange) noResource(uri string) *fault {
	f := faultf(http.StatusOK, resourceNotFound,
		"there is no resource %s: resources/list and resources/templates/list name those there are", clip(uri, 4*maxQuoted))
	if x.version.selfDescribing() {
		f.code = invalidParams
	}
	f.data = append(wire.AppendString([]byte(`{"uri":`), uri), '}')
	return f
}

// An opened is the content of a resource. The caller must release it.
type opened struct {
	target
	reply        // for operations
	mime  string // for files
	body  []byte // for files
}

// openResource reads a resource. method and name are those of the client's request (see invocation).
func (x *exchange) openResource(t target, method, name string) (opened, *fault) {
	if t.tool != nil {
		return x.openOperation(t, method, name)
	}
	f := t.file
	if t.folder != nil {
		var ok bool
		if f, ok = t.folder.file(t.bindings[0].value); !ok {
			return opened{}, x.noResource(t.uri)
		}
		t.mime = mimeOf(t.uri, f.path)
	}
	body, err := f.read()
	switch {
	case err == nil:
	case errors.Is(err, errFileSize):
		return opened{}, x.unreadable(t.uri, "the resource is larger than the %d bytes that are read", f.limit)
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNotRegular) || t.folder != nil:
		// this includes a path that leads out of its folder
		return opened{}, x.noResource(t.uri)
	default:
		return opened{}, x.unreadable(t.uri, "the resource cannot be read now")
	}
	return opened{target: t, mime: typeOf(t.mime, body), body: body}, nil
}

// openOperation calls the operation of the resource.
func (x *exchange) openOperation(t target, method, name string) (opened, *fault) {
	r, f := x.invoke(invocation{method: method, target: name, tool: t.tool.Name, arguments: t.call()})
	if f != nil {
		return opened{}, f
	}
	if r.Failure == nil {
		return opened{target: t, reply: r}, nil
	}
	defer r.Release()
	switch failure := r.Failure; {
	case failure.Status == http.StatusNotFound || failure.Status == http.StatusGone:
		f = x.noResource(t.uri)
		f.message = fmt.Sprintf("there is no resource %s: %s", clip(t.uri, 4*maxQuoted), failure.Message)
	case failure.Kind == tool.InvalidArguments:
		f = badParams("%s", failure.Message)
	default:
		f = x.unreadable(t.uri, "%s", failure.Message)
	}
	f.data = x.failureData(t.uri, r)
	return opened{}, f
}

// failureData returns the data of the error: the URI, and the members that a failed tool call has in
// _meta.
func (x *exchange) failureData(uri string, r reply) []byte {
	data := append(wire.AppendString([]byte(`{"uri":`), uri), ',')
	return append(append(data, x.failureMeta(r)...), '}')
}

// unreadable returns the fault for a resource that exists but cannot be read.
func (x *exchange) unreadable(uri, format string, args ...any) *fault {
	f := faultf(http.StatusOK, internalError, format, args...)
	f.data = append(wire.AppendString([]byte(`{"uri":`), uri), '}')
	return f
}

// appendContents appends the contents of the resource. There is one item, unless the API returns a
// native result with several.
func (x *exchange) appendContents(dst []byte, r opened) ([]byte, *fault) {
	if r.tool == nil {
		return appendContentsOf(dst, r.target, r.mime, r.body, x.version), nil
	}
	if r.native != nil {
		return x.appendNativeContents(dst, r)
	}
	if r.Result == nil {
		return appendContentsOf(dst, r.target, first(r.target.mime, "text/plain"), nil, x.version), nil
	}
	declared := first(r.Result.MediaType(), r.target.mime)
	if isPage(r.target.uri, declared) {
		declared = first(pageType(r.target.mime), appType)
	}
	return appendContentsOf(dst, r.target, typeOf(declared, r.Result.Body), r.Result.Body, x.version), nil
}

// appendNativeContents appends the contents of a ReadResourceResult from the API.
func (x *exchange) appendNativeContents(dst []byte, r opened) ([]byte, *fault) {
	contents := member(r.native, "contents")
	count := 0
	for walk := wire.Into(contents); walk.Next(); count++ {
		if count > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = x.appendResourceContents(dst, walk.Value); err != nil {
			return dst, x.unreadable(r.target.uri, "the API's contents[%d] cannot be used: %v", count, err)
		}
	}
	if contents.Kind() != '[' || count == 0 {
		return dst, x.unreadable(r.target.uri, "the API answered with a result that has no contents")
	}
	return dst, nil
}

// appendContentsOf appends one item of contents, as text if possible and otherwise as a blob.
func appendContentsOf(dst []byte, t target, mediaType string, body []byte, v revision) []byte {
	dst = wire.AppendString(append(dst, `{"uri":`...), t.uri)
	dst = wire.AppendString(append(dst, `,"mimeType":`...), mediaType)
	if readable(mediaType, body) || len(body) == 0 {
		dst = wire.AppendString(append(dst, `,"text":`...), body)
	} else {
		dst = append(dst, `,"blob":"`...)
		dst = append(base64.StdEncoding.AppendEncode(dst, body), '"')
	}
	return append(appendMeta(dst, t.meta, v), '}')
}

// appendFreshness appends ttlMs and cacheScope. Files have the freshness of lists. API responses
// have the lifetime that the API declares and are always private, because they may differ between
// users.
func (r *opened) appendFreshness(dst []byte, s *Server) []byte {
	if r.tool == nil {
		return append(s.appendFreshness(dst), ',')
	}
	var ttl time.Duration
	if r.Result != nil && r.native == nil {
		ttl = maxAge(r.Result.Header)
	}
	if r.native != nil {
		ttl = nativeAge(r.native)
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
	ms, err := strconv.ParseUint(string(member(native, "ttlMs")), 10, 40)
	if err != nil {
		return 0
	}
	return min(time.Duration(ms)*time.Millisecond, longestAge)
}
