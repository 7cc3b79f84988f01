package toolcall

import (
	"context"
)

// gatewayKey is the context key of withGatewayRequest.
type gatewayKey struct{}

// withGatewayRequest returns the context of a request that the gateway makes for itself, for
// example to fetch a document of the site. Agent documents do not govern such requests.
func withGatewayRequest(ctx context.Context) context.Context {
	return context.WithValue(ctx, gatewayKey{}, true)
}

// IsGatewayRequest reports whether the gateway makes the request for itself.
func IsGatewayRequest(ctx context.Context) bool {
	is, _ := ctx.Value(gatewayKey{}).(bool)
	return is
}
