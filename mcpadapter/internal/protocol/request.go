package protocol

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/internal/respond"
	"github.com/fairwayhq/fairway/internal/text"
)

// Admit checks a request before its body is read, and sets the CORS headers of the response. Requests
// without an Origin header do not come from a page, so the rules for pages do not apply to them (MCP,
// Streamable HTTP, Security Warning).
func (p *PageRules) Admit(header http.Header, r *http.Request) *Fault {
	if len(r.Header["Origin"]) > 0 {
		if f := p.check(r); f != nil {
			return f
		}
	}
	if len(p.origins) > 0 {
		p.setCORSHeaders(header, r)
	}
	return checkRequest(r)
}

// checkRequest checks the method and the headers of a request before its body is read.
func checkRequest(r *http.Request) *Fault {
	switch r.Method {
	case http.MethodPost:
	case http.MethodGet:
		return admitStream(r)
	case http.MethodDelete:
		return nil
	case http.MethodOptions:
		return &Fault{Status: http.StatusNoContent, Allow: true}
	default:
		f := Faultf(http.StatusMethodNotAllowed, InvalidRequest,
			"this endpoint accepts POST, GET (opens a stream) and DELETE (ends a session), not %s", text.Cut(r.Method, text.MaxQuoted))
		f.Anonymous, f.Allow = true, true
		return f
	}
	if contentType := r.Header.Get("Content-Type"); contentType != "application/json" && httpheader.MediaType(contentType) != "application/json" {
		return Faultf(http.StatusUnsupportedMediaType, InvalidRequest,
			"the Content-Type must be application/json, not %q", text.Cut(contentType, text.MaxQuoted))
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return Faultf(http.StatusUnsupportedMediaType, InvalidRequest,
			"Content-Encoding %q is not supported: send the body uncompressed", text.Cut(coding, text.MaxQuoted))
	}
	if !acceptsJSON(r.Header["Accept"]) {
		return Faultf(http.StatusNotAcceptable, InvalidRequest,
			"the Accept header excludes application/json, the type of responses: send \"application/json, text/event-stream\"")
	}
	return nil
}

// admitStream checks a GET request. A GET can only open an event stream, so the Accept header must
// list text/event-stream.
func admitStream(r *http.Request) *Fault {
	if AcceptsStream(r.Header["Accept"]) {
		return nil
	}
	return Faultf(http.StatusNotAcceptable, InvalidRequest,
		"GET opens a stream of events: add text/event-stream to the Accept header, or send a request with POST").WithoutID()
}

// usualAccept is the Accept header that most clients send. It allows both types of responses.
const usualAccept = "application/json, text/event-stream"

// AcceptsStream reports whether an Accept header lists text/event-stream.
func AcceptsStream(accept []string) bool {
	for _, line := range accept {
		if line == usualAccept {
			return true
		}
		for part := range strings.SplitSeq(line, ",") {
			if httpheader.MediaType(part) == "text/event-stream" && !refusedByWeight(part) {
				return true
			}
		}
	}
	return false
}

// acceptsJSON reports whether an Accept header allows application/json. MCP requires clients to list
// it beside text/event-stream; a client that sends no Accept header is served too.
func acceptsJSON(accept []string) bool {
	asked := false
	for _, line := range accept {
		if line == usualAccept {
			return true
		}
		for part := range strings.SplitSeq(line, ",") {
			asked = asked || strings.TrimSpace(part) != ""
			switch httpheader.MediaType(part) {
			case "application/json", "application/*", "*/*":
				if !refusedByWeight(part) {
					return true
				}
			}
		}
	}
	return !asked
}

// refusedByWeight reports whether an element of an Accept header has the weight 0 (q=0).
func refusedByWeight(part string) bool {
	_, parameters, _ := strings.Cut(part, ";")
	for parameter := range strings.SplitSeq(parameters, ";") {
		name, weight, _ := strings.Cut(strings.TrimSpace(parameter), "=")
		if strings.EqualFold(name, "q") {
			return strings.Trim(weight, "0.") == "" && weight != ""
		}
	}
	return false
}

// firstRead is the largest buffer, in bytes, that is allocated for a body before any of it arrives.
// A large Content-Length alone must not reserve memory.
const firstRead = 64 << 10

// ReadBody reads the whole body of a request into b, up to limit bytes.
func ReadBody(b *buffer.Buffer, r *http.Request, limit int64) *Fault {
	if r.ContentLength > limit {
		return TooLarge(limit)
	}
	if r.Body == nil {
		return nil
	}
	if want := int(min(max(r.ContentLength+1, 512), firstRead)); cap(b.B) < want {
		b.B = make([]byte, 0, want)
	}
	switch err := b.ReadAll(r.Body, limit); {
	case err == nil:
		return nil
	case errors.Is(err, buffer.ErrTooLarge):
		return TooLarge(limit)
	default:
		return incompleteBody(err, len(b.B))
	}
}

// incompleteBody returns the fault for a body that ended early: either a handler in front of this server
// limits bodies, or the client stopped sending.
func incompleteBody(err error, read int) *Fault {
	if tooLong := (*http.MaxBytesError)(nil); errors.As(err, &tooLong) {
		return TooLarge(tooLong.Limit)
	}
	if status, message := respond.BodyFailure(err); status != 0 {
		f := Faultf(status, InvalidRequest, "%s", message).WithoutID()
		f.RetryAfter = time.Second
		return f
	}
	return Faultf(http.StatusBadRequest, ParseError, "the body ended after %d bytes, before its end; send it again", read)
}

// TooLarge returns the Fault for a body that is larger than the limit.
func TooLarge(limit int64) *Fault {
	return Faultf(http.StatusRequestEntityTooLarge, InvalidRequest,
		"the body is larger than the limit of %d bytes: send a smaller one", limit)
}

// IsBrowser reports whether an Accept header is that of a browser that opens a page: it lists text/html,
// and no event streams.
func IsBrowser(accept []string) bool {
	return !AcceptsStream(accept) && slices.ContainsFunc(accept, func(line string) bool { return strings.Contains(strings.ToLower(line), "text/html") })
}
