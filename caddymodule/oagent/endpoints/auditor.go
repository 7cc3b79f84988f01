package endpoints

import "context"

type auditorKey struct{}

// ContextWithAuditor returns the context of a request that another handler has allowed to see all
// Engagements.
func ContextWithAuditor(ctx context.Context) context.Context {
	return context.WithValue(ctx, auditorKey{}, true)
}

// isAuditor reports whether the context is one of ContextWithAuditor.
func isAuditor(ctx context.Context) bool {
	is, _ := ctx.Value(auditorKey{}).(bool)
	return is
}
