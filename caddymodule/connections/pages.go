package connections

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/internal/audit"
)

//go:embed page.html
var pageText string

// styleDigest is the digest of the styles of the page, for the policy.
var styleDigest = func() string {
	_, rest, _ := strings.Cut(pageText, "<style>")
	style, _, _ := strings.Cut(rest, "</style>")
	sum := sha256.Sum256([]byte(style))
	return base64.StdEncoding.EncodeToString(sum[:])
}()

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"date": func(t time.Time) string { return t.UTC().Format("2 January 2006") },
}).Parse(pageText))

// maxForm limits the body of a form, in bytes.
const maxForm = maxSecret + 4<<10

// content is what a page shows.
type content struct {
	Base   string // path of the pages
	User   string
	Title  string
	Error  string
	Notice string
	Ask    *asked // a connection that the user is asked for; nil for the list
	List   []listed
}

// asked is an account that the user is asked to connect.
type asked struct {
	*User
	Link  string // sealed; "" if the user began at the list
	Tool  string
	Label string
}

// listed are the accounts of the user at a provider.
type listed struct {
	*User
	*record
}

// A pageError is shown instead of a page.
type pageError struct {
	status int
	text   string
}

func (e *pageError) Error() string { return e.text }

// visit is a request for a page.
type visit struct {
	*Handler
	w    http.ResponseWriter
	r    *http.Request
	user string
}

// ServeHTTP serves the pages, and passes other requests on.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	rest, ok := strings.CutPrefix(r.URL.Path, h.Path)
	if !ok || rest != "" && rest[0] != '/' {
		return next.ServeHTTP(w, r)
	}
	v := &visit{h, w, r, route.AuthenticatedUser(r)}
	if err := v.serve(strings.Trim(rest, "/")); err != nil {
		v.fail(err)
	}
	return nil
}

// serve responds to a request for a path below the pages.
func (v *visit) serve(rest string) error {
	name, argument, _ := strings.Cut(rest, "/")
	isPost := v.r.Method == http.MethodPost
	switch {
	case v.user == "":
		return &pageError{http.StatusUnauthorized, "Log in first. The page does not know who you are; if you are logged in, the operator must put a login for browsers before it."}
	case v.r.Method != http.MethodGet && v.r.Method != http.MethodHead && !isPost:
		return &pageError{http.StatusMethodNotAllowed, "Use GET or POST."}
	case isPost && (v.forms.Check(v.r) != nil || v.r.Header.Get("Origin")+v.r.Header.Get("Sec-Fetch-Site") == ""): // browsers send one of them
		return &pageError{http.StatusForbidden, "Pages of other sites may not change anything here. Open this page and try again there."}
	case isPost:
		v.r.Body = http.MaxBytesReader(v.w, v.r.Body, maxForm)
		if err := v.r.ParseForm(); err != nil {
			return &pageError{http.StatusBadRequest, "The form cannot be read, or is too large."}
		}
	}
	switch {
	case rest == "" && !isPost:
		return v.list()
	case name == "connect" && argument != "" && !isPost:
		return v.ask(argument)
	case rest == "connect" && isPost:
		return v.connect()
	case name == "callback" && argument != "" && !isPost:
		return v.callback(argument)
	case (rest == "select" || rest == "disconnect") && isPost:
		return v.change(rest == "select")
	}
	return &pageError{http.StatusNotFound, "There is no such page."}
}

// list shows the connections of the user.
func (v *visit) list() error {
	shown := &content{Title: "My connections"}
	switch query := v.r.URL.Query(); {
	case v.provider(query.Get("connected")) != nil:
		shown.Notice = v.provider(query.Get("connected")).Title() + " is connected. Go back to your application; it can call the tool now."
	case v.provider(query.Get("disconnected")) != nil:
		shown.Notice = v.provider(query.Get("disconnected")).Title() + " is disconnected."
	case v.provider(query.Get("unrevoked")) != nil:
		shown.Notice = "The gateway has deleted the account, but could not end the access at " + v.provider(query.Get("unrevoked")).Title() + ". End it there, in your settings."
	}
	for _, name := range slices.Sorted(maps.Keys(v.app.Providers)) {
		u := v.provider(name)
		if u == nil {
			continue
		}
		r, _, err := v.vault.get(v.r.Context(), v.user, name)
		if err != nil {
			return err
		}
		shown.List = append(shown.List, listed{u, r})
	}
	return v.show(http.StatusOK, shown)
}

// ask shows what the user is asked to connect.
func (v *visit) ask(link string) error {
	q, err := v.unsealed(link, bindLink, v.user)
	if err != nil {
		return err
	}
	u := v.provider(q.Provider)
	if u == nil {
		return errLink
	}
	return v.show(http.StatusOK, &content{Title: "Connect your " + u.Title() + " account", Ask: &asked{User: u, Link: link, Tool: q.Tool}})
}

// change selects or removes an account.
func (v *visit) change(isSelect bool) error {
	u, label := v.provider(v.r.PostForm.Get("provider")), v.r.PostForm.Get("label")
	if u == nil {
		return &pageError{http.StatusNotFound, "There is no such connection."}
	}
	var removed *account
	err := v.vault.change(v.r.Context(), v.user, u.Name, func(r *record) error {
		a := r.account(label)
		switch {
		case a == nil:
			removed = nil
		case isSelect:
			r.Selected = label
		default:
			copied := *a
			removed = &copied
			r.remove(label)
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case isSelect || removed == nil:
		return v.redirect(v.Path)
	}
	if err := v.audit("revoked", u); err != nil {
		return err
	}
	v.logger.Info("a user has disconnected an account", zap.String("user", v.user), zapProvider(u))
	if err := v.end(u, removed); err != nil {
		v.logger.Warn("the tokens of a connection could not be revoked", zapProvider(u), zap.Error(err))
		return v.redirect(v.Path + "?unrevoked=" + u.Name)
	}
	return v.redirect(v.Path + "?disconnected=" + u.Name)
}

// audit records a change of the user's accounts at a provider.
func (v *visit) audit(event string, u *User) error {
	if v.recorder == nil {
		return nil
	}
	return v.recorder.Record(v.r.Context(), audit.Entry{Type: audit.TypeConnection, Event: event, User: v.user, Provider: u.Name})
}

// end revokes the tokens of an account (RFC 7009). With the refresh token, providers revoke the access tokens too.
func (v *visit) end(u *User, a *account) error {
	if u.revoke == "" {
		return nil
	}
	token := a.Refresh
	if token == "" {
		token = a.Secret
	}
	return u.revokeToken(v.r.Context(), token)
}

// fail shows an error.
func (v *visit) fail(err error) {
	f, ok := errors.AsType[*pageError](err)
	if !ok {
		v.logger.Error("a page of the connections failed", zap.Error(err))
		f = &pageError{http.StatusServiceUnavailable, "The connections cannot be read or changed at the moment. Try again later."}
	}
	if err := v.show(f.status, &content{Title: "This did not work", Error: f.text}); err != nil {
		v.logger.Error("a page of the connections cannot be shown", zap.Error(err))
	}
}

// contentPolicy allows what the pages have: their own styles, and forms. It has no form-action, because browsers apply that to the redirects of the
// provider too; the cookie and the check of the origin bind the form.
const contentPolicy = "default-src 'none'; style-src 'sha256-STYLE'; frame-ancestors 'none'; base-uri 'none'"

func (v *visit) secure() {
	header := v.w.Header()
	header.Set("Content-Security-Policy", strings.Replace(contentPolicy, "STYLE", styleDigest, 1))
	header.Set("X-Frame-Options", "DENY")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
}

// show responds with a page.
func (v *visit) show(status int, c *content) error {
	c.Base, c.User = v.Path, v.user
	var text bytes.Buffer
	if err := page.Execute(&text, c); err != nil {
		return err
	}
	v.secure()
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.WriteHeader(status)
	if v.r.Method != http.MethodHead {
		_, _ = v.w.Write(text.Bytes()) // the browser may have disconnected
	}
	return nil
}

// redirect sends the browser to another page.
func (v *visit) redirect(to string) error {
	v.secure()
	v.w.Header().Set("Location", to)
	v.w.WriteHeader(http.StatusSeeOther)
	return nil
}
