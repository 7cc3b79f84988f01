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
func (p *passage) recordRefusal(r *refused) {
	if p.agent == nil || !isDecided(r) {
		return
	}
	guard, err := p.guard(p.r.Context())
	if err == nil {
		err = guard.Refuse(p.r.Context(), p.binding, r.Refusal, p.inputs, p.whyRefused(r))
	}
	if err != nil {
		p.logger.Warn("a refusal is not in the record of its Engagement", zap.String("agent", p.agent.Name),
			zap.String("engagement", p.engagementKey()), zap.String("kind", string(r.Kind)), zap.Error(err))
	}
}

// isDecided reports whether a refusal is the handler's decision about the operation or the
// identity of a request.
func isDecided(r *refused) bool {
	switch r.Kind {
	case kindIdentity:
		return true
	case kindUnknownOperation, kindAmbiguous, kindUnreadable, kindUndeclared, kindTooLarge:
		return r.status < http.StatusInternalServerError
	}
	return string(r.Kind) == chat.CodeUnchecked
}

// whyRefused returns the reason for the record. If the request matches no operation, the
// reason describes the request without its query, which may contain credentials.
func (p *passage) whyRefused(r *refused) string {
	if p.operation != nil {
		return r.Message
	}
	return text.Cut(p.r.Method, maxLoggedID) + " " + text.Cut(p.r.URL.Path, maxLoggedInput) + ": " + r.Message
}
