package ocp

import "context"

type callKey struct{}

// ContextWithCall returns a context that carries the call: handlers behind an
// adapter read there which tool a request comes from, and with what arguments.
func ContextWithCall(ctx context.Context, call *Call) context.Context {
	return context.WithValue(ctx, callKey{}, call)
}

// CallFromContext returns the call that a request was made for, nil if it is a
// request of its own.
func CallFromContext(ctx context.Context) *Call {
	call, _ := ctx.Value(callKey{}).(*Call)
	return call
}
