package tool

import (
	"context"

	"github.com/fairwayhq/fairway/internal/wire"
)

// AppendArguments appends the arguments that the API receives, as a JSON object: the
// caller's values, the defaults for absent arguments, and the values that a shape fixes. It
// omits the other arguments that the gateway fills, such as credentials.
func (c *Call) AppendArguments(dst []byte) []byte {
	dst = append(dst, '{')
	start := len(dst)
	member := func(name string) {
		if len(dst) > start {
			dst = append(dst, ',')
		}
		dst = append(wire.AppendString(dst, name), ':')
	}
	for i := range c.values {
		if value := c.value(i); value != nil && (!c.Tool.plans[i].Filled || c.Tool.plans[i].Guarded) {
			member(c.Tool.all[i].Name)
			dst = append(dst, value...)
		}
	}
	for _, m := range c.extra {
		member(m.Name)
		dst = append(dst, m.Value...)
	}
	return append(dst, '}')
}

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
