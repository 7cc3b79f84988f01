package login

import (
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/internal/authserver"
)

// fromBrowser takes the session of a browser out of a request, so that the handlers after this one and the API never see it. Pages of the
// gateway on this site get what the session says.
func (h *Handler) fromBrowser(r *http.Request) *http.Request {
	sessions := authserver.NewSessions(h.server)
	session := sessions.Take(r.Header)
	path, ok := h.app.PagesAt(h.site, r)
	if !ok {
		return r
	}
	if d, err := h.decide(r.Context()); err != nil || !d.isOurs {
		return r
	}
	b := &site.Browser{Audience: sessions.Audience(path)}
	b.Begin = func(w http.ResponseWriter, r *http.Request) {
		back := r.URL.RequestURI()
		if original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok && original.URL != nil {
			back = original.URL.RequestURI()
		}
		sessions.Begin(w, r, b.Audience, back)
	}
	if session != nil {
		if token, err := h.tokens.Verify(r.Context(), session.Token, b.Audience); err == nil && sessions.IsOpen(r.Context(), session) {
			b.Token, b.Text = token, session.Token
			b.End = func(w http.ResponseWriter, again string) { sessions.End(w, r, session, again) }
		}
	}
	return r.WithContext(site.ContextWithBrowser(r.Context(), b))
}
