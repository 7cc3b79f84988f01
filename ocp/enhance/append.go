package enhance

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/ocp"
	"github.com/fairwayhq/fairway/tools"
)

// An Exchange is a request and its response, without the response body.
type Exchange struct {
	Incoming *ocp.Incoming // the request's context; if it is not valid, nothing is enhanced
	Request  *http.Request
	Status   int
	Header   http.Header // the response header
	Tool     *tools.Tool // the operation; nil if it is unknown
}

// Suits decides from the status and header whether a response can be enhanced, if the request has a valid context. It
// returns "" if it can, and the caller must then buffer the whole body for Append.
// Otherwise it returns the reason. It does not use x.Incoming.
func (e *Enhancer) Suits(x *Exchange) Reason {
	switch {
	case !e.applies(x.Tool):
		return NoProperty
	case x.Request.Method == http.MethodHead || x.Status == http.StatusNoContent || x.Status == http.StatusResetContent:
		return NoBody
	case x.Status == http.StatusPartialContent || x.Header.Get("Content-Range") != "":
		return Status
	case x.Status < 200 || 300 <= x.Status && (x.Status < 400 || !e.options.Errors):
		return Status
	case !httpheader.IsJSON(httpheader.MediaType(x.Header.Get("Content-Type"))):
		return NotJSON
	}
	if encoding := x.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return Encoded
	}
	if length, err := strconv.ParseInt(x.Header.Get("Content-Length"), 10, 64); err == nil && length > int64(e.options.Limits.Body) {
		return TooLarge
	}
	return ""
}

func (e *Enhancer) applies(tool *tools.Tool) bool {
	for i := range e.properties {
		if e.properties[i].appliesTo(tool) {
			return true
		}
	}
	return false
}

// MaxBody returns the maximum size of a response to buffer, in bytes.
func (e *Enhancer) MaxBody() int {
	return e.options.Limits.Body
}

// Append appends the body with its properties to dst. If the outcome is not
// Enhanced, dst is returned unchanged and the caller should send the original body.
//
// The body must be strict JSON: an object, or an array if Options.Lists allows it.
// Its bytes stay unchanged. New members are added at the end of an object, and
// existing members are never replaced. A property that fails is left out; in a list,
// only from the items for which it fails. Outcome.Failures lists such properties.
func (e *Enhancer) Append(ctx context.Context, dst, body []byte, x *Exchange) ([]byte, Outcome) {
	switch {
	case x.Incoming == nil || !x.Incoming.Valid():
		return dst, Outcome{Reason: NoContext}
	case !e.applies(x.Tool):
		return dst, Outcome{Reason: NoProperty}
	case len(body) > e.options.Limits.Body:
		return dst, Outcome{Reason: TooLarge}
	case strictjson.Check(body) != nil:
		return dst, Outcome{Reason: NotJSON}
	}
	scratch := buffer.Get()
	defer buffer.Put(scratch)
	ctx, cancel := context.WithTimeout(ctx, e.options.Limits.Time) // for all expressions of the response
	defer cancel()
	i := insertion{
		enhancer:  e,
		exchange:  x,
		dst:       dst,
		body:      body,
		scratch:   scratch,
		variables: variables{exchange: x, reads: e.reads},
		ctx:       ctx,
	}
	i.variables.body.Raw = trim(body)
	i.run()
	if i.outcome.Reason != "" {
		return dst, i.outcome
	}
	return i.dst, i.outcome
}
