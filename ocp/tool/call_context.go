package tool

import "context"

type callKey struct{}

// ContextWithCall returns a context that carries the call. Handlers that run after an
// adapter read the tool and the arguments of the request from it.
func ContextWithCall(ctx context.Context, call *Call) context.Context {
	return context.WithValue(ctx, callKey{}, call)
}

// CallContext is a context that carries a call, like the one that ContextWithCall returns. It can
// be part of another struct, to save an allocation.
type CallContext struct {
	context.Context
	Call *Call
}

// Value implements context.Context.
func (c *CallContext) Value(key any) any {
	if key == any(callKey{}) {
		return c.Call
	}
	return c.Context.Value(key)
}

// CallFromContext returns the tool call that a request was made for, or nil if the request
// was not made for a tool call.
func CallFromContext(ctx context.Context) *Call {
	call, _ := ctx.Value(callKey{}).(*Call)
	return call
}
