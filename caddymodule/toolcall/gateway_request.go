package toolcall

import (
	"context"
)

type gatewayKey struct{}

// contextOfGateway returns the context of a request that the gateway makes for
// itself: for a document of the site, say. No agent governs it.
func contextOfGateway(ctx context.Context) context.Context {
	return context.WithValue(ctx, gatewayKey{}, true)
}

func IsGatewayRequest(ctx context.Context) bool {
	of, _ := ctx.Value(gatewayKey{}).(bool)
	return of
}
