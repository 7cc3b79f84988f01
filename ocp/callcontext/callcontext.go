// Package callcontext carries the OCP headers that a tool call has in its own message, such as _meta of MCP, to
// the handlers that the call passes.
//
// It does not check the headers: package ocp does, when a handler reads them, as it does for headers of HTTP requests. So a
// tool protocol can pass them on without package ocp.
package callcontext

import (
	"context"
	"net/http"

	"golang.org/x/net/http/httpguts"
)

// The seven headers (OCP 1.0, HTTP Headers), as keys of an http.Header.
const (
	HeaderContextID   = "Ocp-Context-Id"
	HeaderAgentType   = "Ocp-Agent-Type"
	HeaderCurrentGoal = "Ocp-Current-Goal"
	HeaderSession     = "Ocp-Session"
	HeaderUser        = "Ocp-User"
	HeaderWorkspace   = "Ocp-Workspace"
	HeaderVersion     = "Ocp-Version"
)

// MaxSession is the maximum length of an OCP-Session value, in bytes. No header may be longer.
const MaxSession = 8 << 10

// Set replaces the OCP headers of a request by those of its call. It omits values that HTTP does not allow or that
// are longer than MaxSession.
func Set(request, call http.Header) {
	for _, key := range [...]string{
		HeaderContextID, HeaderAgentType, HeaderCurrentGoal, HeaderUser, HeaderWorkspace, HeaderVersion, HeaderSession,
	} {
		delete(request, key)
		if value := call.Get(key); value != "" && len(value) <= MaxSession && httpguts.ValidHeaderFieldValue(value) {
			request[key] = []string{value}
		}
	}
}

type headerKey struct{}

// NewContext returns a context for a call that has OCP headers of its own.
func NewContext(ctx context.Context, call http.Header) context.Context {
	return context.WithValue(ctx, headerKey{}, call)
}

// FromContext returns the OCP headers of the call. It is nil if the call has only the context of its client's request.
func FromContext(ctx context.Context) http.Header {
	call, _ := ctx.Value(headerKey{}).(http.Header)
	return call
}
