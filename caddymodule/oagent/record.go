package oagent

import (
	"net/http"

	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/oagent/chat"
)

// recordRefusal has the record of the Engagement tell of a refusal that the handler has
// decided by itself. Those of the guard are in it already, and what nothing has
// been decided about is not of it.
func (p *passage) recordRefusal(r *refused) {
	if p.agent == nil || !isDecided(r) {
		return
	}
	guard, err := p.guard(p.r)
	if err == nil {
		err = guard.Refuse(p.r.Context(), p.binding, r.Refusal, p.inputs, p.whyRefused(r))
	}
	if err != nil {
		p.logger.Warn("a refusal is not in the record of its Engagement", zap.String("agent", p.agent.Name),
			zap.String("engagement", p.engagementKey()), zap.String("kind", string(r.Kind)), zap.Error(err))
	}
}

// isDecided reports whether a refusal is a decision of the handler's about what a
// request is or whose it is.
func isDecided(r *refused) bool {
	switch r.Kind {
	case kindIdentity:
		return true
	case kindUnknownOperation, kindAmbiguous, kindUnreadable, kindUndeclared, kindTooLarge:
		return r.status < http.StatusInternalServerError
	}
	return string(r.Kind) == chat.CodeUnchecked
}

// whyRefused returns what the record says of a refusal: of a request that is no
// known call, what it was. The query is not of it, as it may hold credentials.
func (p *passage) whyRefused(r *refused) string {
	if p.operation != nil {
		return r.Message
	}
	return text.Cut(p.r.Method, maxLoggedID) + " " + text.Cut(p.r.URL.Path, maxLoggedInput) + ": " + r.Message
}
