// Package admission decides by its headers whether an HTTP request to an MCP endpoint is served. It checks which web pages may
// call the server (PageRules), the method and the media types (CheckRequest), and reads the body up to a limit (ReadBody).
package admission

import (
	"net/http"
	"strings"

	"github.com/fairwayhq/fairway/internal/mediatype"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/mcpadapter/internal/jsonrpc"
)

// CheckRequest checks the method and the headers of a request before its body is read.
func CheckRequest(r *http.Request) *jsonrpc.Fault {
	switch r.Method {
	case http.MethodPost:
	case http.MethodGet:
		return admitStream(r)
	case http.MethodDelete:
		return nil
	case http.MethodOptions:
		return &jsonrpc.Fault{Status: http.StatusNoContent, Allow: true}
	default:
		f := jsonrpc.Faultf(http.StatusMethodNotAllowed, jsonrpc.InvalidRequest,
			"this endpoint answers POST, a stream on GET and the end of a session on DELETE, not %s", text.Cut(r.Method, text.MaxQuoted))
		f.Anonymous, f.Allow = true, true
		return f
	}
	if mediatype.Base(r.Header.Get("Content-Type")) != "application/json" {
		return jsonrpc.Faultf(http.StatusUnsupportedMediaType, jsonrpc.InvalidRequest,
			"the Content-Type must be application/json, not %q", text.Cut(r.Header.Get("Content-Type"), text.MaxQuoted))
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return jsonrpc.Faultf(http.StatusUnsupportedMediaType, jsonrpc.InvalidRequest,
			"Content-Encoding %q is not supported: send the body as it is", text.Cut(coding, text.MaxQuoted))
	}
	if !acceptsJSON(r.Header["Accept"]) {
		return jsonrpc.Faultf(http.StatusNotAcceptable, jsonrpc.InvalidRequest,
			"answers are application/json, which the Accept header excludes: send \"application/json, text/event-stream\"")
	}
	return nil
}

// admitStream checks a GET request. A GET can only open an event stream, so the Accept header must
// list text/event-stream.
func admitStream(r *http.Request) *jsonrpc.Fault {
	if AcceptsStream(r.Header["Accept"]) {
		return nil
	}
	f := jsonrpc.Faultf(http.StatusNotAcceptable, jsonrpc.InvalidRequest,
		"GET opens a stream of events for MCP clients: let the Accept header list text/event-stream, or POST a request")
	f.Anonymous = true
	return f
}

// AcceptsStream reports whether an Accept header lists text/event-stream.
func AcceptsStream(accept []string) bool {
	for _, line := range accept {
		if line == "application/json, text/event-stream" { // the spelling that most clients use
			return true
		}
		for part := range strings.SplitSeq(line, ",") {
			if mediatype.Base(part) == "text/event-stream" && !refusedByWeight(part) {
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
		for part := range strings.SplitSeq(line, ",") {
			asked = asked || strings.TrimSpace(part) != ""
			switch mediatype.Base(part) {
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
