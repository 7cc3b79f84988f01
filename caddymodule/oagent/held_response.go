package oagent

import (
	"errors"
	"maps"
	"net/http"
	"strconv"
	"strings"

	"github.com/fairwayhq/fairway/caddymodule/toolcall"
	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/ocp/stream"
)

// heldResponse is the http.ResponseWriter of a request that was allowed. Its mode depends on the
// capability:
//
//   - checked: it holds the whole response until it is checked.
//   - recorded only: it holds the response up to a limit. If the response exceeds the limit or
//     is flushed, it sends what it has and passes on later writes. The record then gets a
//     placeholder.
type heldResponse struct {
	http.ResponseWriter
	header     http.Header // replaces the writer's header until the response is passed on
	body       *buffer.Buffer
	limit      int64 // bytes
	checked    bool  // nothing is sent before the check
	recorded   bool
	bodiless   bool
	passing    bool  // writes go to the client
	incomplete bool  // body is incomplete
	streamed   bool  // body is incomplete because the response is streamed
	tooLarge   bool  // checked, and larger than limit
	switched   bool  // the API responded with 101
	status     int   // 0 until the final header is written
	size       int64 // bytes written
}

// Header returns the header of the response.
func (a *heldResponse) Header() http.Header {
	if a.header == nil {
		return a.ResponseWriter.Header()
	}
	return a.header
}

// WriteHeader keeps the first final status. Informational (1xx) headers are passed on only if
// the response is not held.
func (a *heldResponse) WriteHeader(status int) {
	if a.status != 0 {
		return
	}
	if status < http.StatusOK {
		a.switched = a.switched || status == http.StatusSwitchingProtocols
		if a.passing {
			a.ResponseWriter.WriteHeader(status)
		}
		return
	}
	a.status = status
	delete(a.Header(), headerExposes)
	if status == http.StatusNoContent || status == http.StatusNotModified {
		a.bodiless = true
	}
	if a.passing {
		a.ResponseWriter.WriteHeader(status)
		return
	}
	header := a.Header()
	if header["Trailer"] != nil && a.checked {
		delete(header, "Trailer")
		a.header = maps.Clone(header) // trailers stay in the handler's header
	}
	if a.bodiless {
		return
	}
	var length int64
	if text := header.Get("Content-Length"); text != "" {
		length, _ = strconv.ParseInt(text, 10, 64)
	}
	switch {
	case a.checked:
		a.tooLarge = length > a.limit
	case length > a.limit:
		a.incomplete = true
		a.beginPassing()
	case stream.FormatOf(header.Get("Content-Type")) != 0:
		a.incomplete, a.streamed = true, true
		a.beginPassing()
	}
}

var errWithheld = errors.New("the response is larger than max_output")

// Write holds the data or passes it on.
func (a *heldResponse) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	a.size += int64(len(p))
	switch {
	case a.tooLarge:
		return 0, errWithheld
	case a.bodiless && !a.passing:
		return len(p), nil
	}
	if a.body != nil && !a.incomplete {
		if int64(len(a.body.B)+len(p)) <= a.limit {
			a.body.B = append(a.body.B, p...)
		} else if a.checked {
			a.tooLarge = true
			a.drop()
			return 0, errWithheld
		} else {
			a.incomplete = true
			if !a.passing {
				a.beginPassing()
			}
		}
	}
	if a.passing {
		return a.ResponseWriter.Write(p)
	}
	return len(p), nil
}

// FlushError sends the held data, unless it must be checked first. Later writes are passed on
// immediately and still recorded.
func (a *heldResponse) FlushError() error {
	if a.checked || a.tooLarge {
		return nil
	}
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	if !a.passing {
		a.beginPassing()
	}
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// beginPassing sends the held data. Later writes are passed on.
func (a *heldResponse) beginPassing() {
	a.passing = true
	a.writeHeader()
	a.header = nil
	if a.body != nil && len(a.body.B) > 0 {
		_, _ = a.ResponseWriter.Write(a.body.B)
	}
}

// conceal removes credentials from a response that was not sent yet. So the checked, recorded
// and sent responses are the same.
func (a *heldResponse) conceal(with toolcall.InjectedCredentials) {
	secrets := with.Secrets(a.status)
	if a.passing || a.body == nil || secrets.IsEmpty() {
		return
	}
	if a.header["Content-Encoding"] != nil {
		coded := buffer.Get()
		coded.B = append(coded.B, a.body.B...)
		if plain, err := toolcall.DecodeBody(a.header, coded, a.limit); err == nil {
			buffer.Put(a.body)
			a.body, a.size = plain, int64(len(plain.B))
		}
	}
	if toolcall.ConcealInResponse(secrets, a.header, a.body) {
		delete(a.header, "Content-Length")
		a.size = int64(len(a.body.B))
	}
}

// writeHeader copies the header of the response to the writer.
func (a *heldResponse) writeHeader() {
	header := a.ResponseWriter.Header()
	clear(header)
	for name, values := range a.header {
		if a.passing || !strings.HasPrefix(name, http.TrailerPrefix) {
			header[name] = values
		}
	}
	a.ResponseWriter.WriteHeader(a.status)
}

// release sends all held data.
func (a *heldResponse) release() {
	a.writeHeader()
	if a.body != nil && len(a.body.B) > 0 {
		_, _ = a.ResponseWriter.Write(a.body.B) // the client may have disconnected
	}
}

// drop returns the buffer to the pool.
func (a *heldResponse) drop() {
	buffer.Put(a.body)
	a.body = nil
}
