package connections

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/fairwayhq/fairway/caddymodule/app/credential"
)

const (
	// linkLifetime is how long a link can be used, and how long the user may take at the provider.
	linkLifetime = 10 * time.Minute

	// maxLabel limits the label of an account, and what is shown of the name of a tool, in bytes.
	maxLabel = 64
)

// A request is a user's way to an account. As a link it is in the address of a page; while the user is at the provider it is in a cookie. Both forms are
// sealed, so they tell nothing about the user, and the gateway keeps nothing.
type request struct {
	ID       string `json:"id"` // used once; in a cookie, the parameter state
	User     string `json:"user"`
	Provider string `json:"provider"`
	Tool     string `json:"tool,omitempty"`     // that needs the account; "" if the user began at the list of connections
	Label    string `json:"label,omitempty"`    // in a cookie: of the account
	Verifier string `json:"verifier,omitempty"` // in a cookie: of PKCE
	Until    int64  `json:"until"`              // time in Unix seconds
}

// Bindings of sealed requests. The one of a cookie continues with its state.
const (
	bindLink   = "link"
	bindCookie = "cookie "
)

// Errors of sealed requests.
var (
	errLink  = &pageError{http.StatusBadRequest, "The link has expired or is incomplete. Call the tool again to get a new one."}
	errOther = &pageError{http.StatusForbidden, "This link was made for another user. Someone may have tried to get access to your account: do not use links that you did not ask for."}
)

// newRequest returns a request of a user for an account at a provider.
func newRequest(user, provider, tool string) *request {
	return &request{ID: rand.Text(), User: user, Provider: provider, Tool: tool, Until: time.Now().Add(linkLifetime).Unix()}
}

// linkFor returns the page where the caller connects an account.
func (h *Handler) linkFor(u *User, by *credential.UserCall) string {
	return h.origin + h.Path + "/connect/" + h.sealed(newRequest(by.User, u.Name, cut(by.Tool)), bindLink)
}

func (h *Handler) sealed(q *request, binding string) string {
	plain, err := json.Marshal(q)
	if err != nil {
		panic(err) // cannot happen: the members are texts and numbers
	}
	return h.vault.sealer.Seal(plain, binding)
}

// unsealed returns a request of this user. The errors are errLink and errOther.
func (h *Handler) unsealed(sealed, binding, user string) (*request, error) {
	q := new(request)
	plain, err := h.vault.sealer.Unseal(sealed, binding)
	switch {
	case err != nil || json.Unmarshal(plain, q) != nil || time.Now().Unix() > q.Until:
		return nil, errLink
	case q.User != user:
		return nil, errOther
	}
	return q, nil
}

// cookieName returns the name of the cookie of a request. The prefix __Host- keeps other hosts of the domain from setting it.
func (h *Handler) cookieName(state string) string {
	if h.isSecure() {
		return "__Host-connect-" + state
	}
	return "connect-" + state
}

func (h *Handler) isSecure() bool { return strings.HasPrefix(h.origin, "https://") }

// setCookie sets the cookie of a request, or deletes it if the value is empty.
func (h *Handler) setCookie(w http.ResponseWriter, state, value string) {
	age := int(linkLifetime.Seconds())
	if value == "" {
		age = -1
	}
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure is left out for an origin on this machine without https only
		Name: h.cookieName(state), Value: value, Path: "/", MaxAge: age, Secure: h.isSecure(), HttpOnly: true,
		SameSite: http.SameSiteLaxMode, // Lax, because the provider sends the browser back from another site
	})
}

// cut shortens a text for a page.
func cut(text string) string { return strings.ToValidUTF8(text[:min(len(text), maxLabel)], "") }
