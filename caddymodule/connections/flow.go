package connections

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"
	"golang.org/x/net/http/httpguts"
	"golang.org/x/oauth2"

	"github.com/fairwayhq/fairway/store"
)

// defaultLabel is the label of an account to which the user has given none.
const defaultLabel = "main"

// connect begins a connection, whose form the user has sent. Of a request with a link, this is the one use. With OAuth, the browser goes to the
// provider next; an API key is stored.
func (v *visit) connect() error {
	form := v.r.PostForm
	q, link := newRequest(v.user, form.Get("provider"), ""), form.Get("link")
	if link != "" {
		var err error
		if q, err = v.unsealed(link, bindLink, v.user); err != nil {
			return err
		}
	}
	u := v.provider(q.Provider)
	if u == nil {
		return &pageError{http.StatusNotFound, "There is no such provider."}
	}
	label := cmp.Or(strings.TrimSpace(form.Get("label")), defaultLabel)
	if len(label) > maxLabel {
		return &pageError{http.StatusBadRequest, "The name of the account is too long."}
	}
	key := strings.TrimSpace(form.Get("key"))
	if u.APIKey && (key == "" || len(key) > maxSecret || !httpguts.ValidHeaderFieldValue(key)) {
		if link == "" && key == "" {
			return v.show(http.StatusOK, &content{Title: "Connect your " + u.Title() + " account", Ask: &asked{User: u, Label: label}})
		}
		return &pageError{http.StatusBadRequest, "This is not an API key: paste the key without anything else."}
	}
	if link != "" {
		if err := v.useOnce(q.ID); err != nil {
			return err
		}
	}
	if u.APIKey {
		now := time.Now().UTC()
		return v.keep(u, account{Label: label, Secret: key, Obtained: now, Connected: now})
	}
	begun := newRequest(v.user, u.Name, "")
	begun.Label, begun.Verifier = label, oauth2.GenerateVerifier()
	v.setCookie(v.w, begun.ID, v.sealed(begun, bindCookie+begun.ID))
	return v.redirect(u.authorizeURL(v.callbackOf(u), begun.ID, begun.Verifier))
}

// callbackOf returns where the provider sends the browser. Each provider has its own address, so that none can pass off another one's response as its
// own (RFC 9700, section 4.4).
func (h *Handler) callbackOf(u *User) string { return h.origin + h.Path + "/callback/" + u.Name }

// useOnce refuses an ID that was used before.
func (v *visit) useOnce(id string) error {
	err := v.vault.once(v.r.Context(), v.user, id)
	if errors.Is(err, errUsedOnce) {
		return &pageError{http.StatusBadRequest, "This link was used before. Call the tool again to get a new one, or begin at My connections."}
	}
	return full(err)
}

// full returns the page for a user whose share of the store is used up.
func full(err error) error {
	if errors.Is(err, store.ErrShare) || errors.Is(err, store.ErrFull) {
		return &pageError{http.StatusServiceUnavailable, "The gateway has no room for another connection of yours at the moment."}
	}
	return err
}

// callback completes a connection when the provider has sent the browser back. The browser must be the one that began, and its user the one who
// was asked.
func (v *visit) callback(name string) error {
	query := v.r.URL.Query()
	state := query.Get("state")
	if len(state) != len(newRequest("", "", "").ID) {
		return errLink
	}
	cookie, err := v.r.Cookie(v.cookieName(state))
	if err != nil {
		return &pageError{http.StatusBadRequest, "This browser has not begun the connection, or took longer than 10 minutes. Call the tool again, and use the link in one browser."}
	}
	q, err := v.unsealed(cookie.Value, bindCookie+state, v.user)
	if err != nil {
		return err
	}
	v.setCookie(v.w, state, "")
	u := v.provider(q.Provider)
	if u == nil || u.Name != name {
		return errLink
	}
	if err := v.useOnce(state); err != nil {
		return err
	}
	if code := query.Get("error"); code != "" {
		v.logger.Info("a provider did not connect an account", zap.String("user", v.user), zapProvider(u), zap.String("code", cut(code)))
		return &pageError{http.StatusBadRequest, u.Title() + " did not give access: you declined, or it refused the request of the gateway."}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(v.r.Context()), providerWait) // the code can be used only once
	defer cancel()
	token, err := u.exchange(ctx, v.callbackOf(u), query.Get("code"), q.Verifier)
	if err != nil {
		v.logger.Warn("a provider did not issue a token", zapProvider(u), zap.Error(err))
		return &pageError{http.StatusBadGateway, u.Title() + " did not complete the connection. Begin again; if this repeats, the gateway's log has the reason."}
	}
	a := account{Label: q.Label, Connected: time.Now().UTC()}
	a.set(token, a.Connected)
	return v.keep(u, a)
}

// keep stores an account.
func (v *visit) keep(u *User, a account) error {
	err := v.vault.change(v.r.Context(), v.user, u.Name, func(r *record) error { return r.add(a) })
	switch {
	case errors.Is(err, errTooMany):
		return &pageError{http.StatusBadRequest, "You have too many accounts at " + u.Title() + ". Disconnect one first."}
	case err != nil:
		return full(err)
	}
	v.app.Connected(v.user, u.Name)
	if err := v.audit("made", u); err != nil {
		return err
	}
	v.logger.Info("a user has connected an account", zap.String("user", v.user), zapProvider(u))
	return v.redirect(v.Path + "?connected=" + u.Name)
}
