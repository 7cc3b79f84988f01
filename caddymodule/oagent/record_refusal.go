package oagent

import (
	"net/http"

	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/oagent/chat"
)

// recordRefusal records a refusal that the handler itself decided. Refusals by the Guard are
// already in the record. Refusals without a decision, such as errors of the gateway, are not
// recorded.
func (g *governedRequest) recordRefusal(r *refusalError) {
	if g.agent == nil || !isDecided(r) {
		return
	}
	guard, err := g.handler.guard(g.r.Context())
	if err == nil {
		err = guard.Refuse(g.r.Context(), g.binding, r.Refusal, g.inputs, g.recordedReason(r))
	}
	if err != nil {
		g.handler.logger.Warn("recording a refusal failed", zap.String("agent", g.agent.Name),
			zap.String("engagement", g.engagementKey()), zap.String("kind", string(r.Kind)), zap.Error(err))
	}
}

// isDecided reports whether a refusal is the handler's decision about the operation or the
// identity of a request.
func isDecided(r *refusalError) bool {
	switch r.Kind {
	case kindIdentity:
		return true
	case kindUnknownOperation, kindAmbiguous, kindUnreadable, kindUndeclared, kindTooLarge:
		return r.status < http.StatusInternalServerError
	}
	return string(r.Kind) == chat.CodeUnchecked
}

// recordedReason returns the reason for the record. If the request matches no operation, the
// reason describes the request without its query, which may contain credentials.
func (g *governedRequest) recordedReason(r *refusalError) string {
	if g.operation != nil {
		return r.Message
	}
	return text.Cut(g.r.Method, maxLoggedID) + " " + text.Cut(g.r.URL.Path, maxLoggedInput) + ": " + r.Message
}
