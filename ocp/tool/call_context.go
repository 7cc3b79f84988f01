package tool

import "context"

type callKey struct{}

// ContextWithCall returns a context that carries the call. Handlers that run after an
// adapter read the tool and the arguments of the request from it.
func ContextWithCall(ctx context.Context, call *Call) context.Context {
	return context.WithValue(ctx, callKey{}, call)
}

// CallFromContext returns the tool call that a request was made for, or nil if the request
// was not made for a tool call.
func CallFromContext(ctx context.Context) *Call {
	call, _ := ctx.Value(callKey{}).(*Call)
	return call
}
