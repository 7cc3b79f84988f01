package connections

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/internal/seal"
	"github.com/fairwayhq/fairway/internal/tokenclient"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/embedded"
	"github.com/fairwayhq/fairway/store/lease"
)

// SetRecently changes how old a token must be that is renewed after a 401.
func (h *Handler) SetRecently(d time.Duration) { h.recently = d }

// List returns the response of the admin endpoint of the running configuration.
func List(t *testing.T, query string) string {
	t.Helper()
	w := httptest.NewRecorder()
	if err := serveAdmin(w, httptest.NewRequest(http.MethodGet, "/agents/connections"+query, nil)); err != nil {
		t.Fatal(err)
	}
	return w.Body.String()
}

// nodes returns handlers of several nodes with one store.
func nodes(t *testing.T, count int) (all []*Handler) {
	t.Helper()
	st, err := embedded.Open(filepath.Join(t.TempDir(), "store.db"), embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	for range count {
		all = append(all, &Handler{
			logger: zap.NewNop(), recently: renewedRecently,
			vault: vault{open: func(context.Context) (store.Store, error) { return st, nil }, sealer: seal.Derive([]string{"secret"}, "test")},
			terms: lease.Terms{Duration: time.Minute, Pause: time.Second, MaxPause: time.Minute},
		})
	}
	return all
}

// provider runs a token endpoint.
func provider(t *testing.T, respond http.HandlerFunc) *User {
	t.Helper()
	server := httptest.NewServer(respond)
	t.Cleanup(server.Close)
	return &User{Name: "acme", token: server.URL, clientID: "gateway"}
}

func TestRefresh_is_made_by_one_node(t *testing.T) {
	var requests atomic.Int32
	u := provider(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"access_token":"new-%d","refresh_token":"r","token_type":"bearer","expires_in":3600}`, requests.Add(1))
	})
	all := nodes(t, 4)
	old := account{Label: "main", Secret: "old", Refresh: "r", Expires: time.Now().Add(-time.Second)}
	if err := all[0].vault.change(t.Context(), "ann", "acme", func(r *record) error { return r.add(old) }); err != nil {
		t.Fatal(err)
	}
	var calls sync.WaitGroup
	for i := range 40 {
		calls.Go(func() {
			if got, err := all[i%len(all)].secret(t.Context(), u, "ann"); got != "new-1" || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	calls.Wait()
	if n := requests.Load(); n != 1 {
		t.Errorf("%d requests", n)
	}
}

// A node that waits for another one's refresh uses the token that is still valid.
func TestRefresh_does_not_delay_calls_while_the_token_is_valid(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	u := provider(t, func(w http.ResponseWriter, r *http.Request) {
		close(begun)
		<-release
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, `{"access_token":"new","token_type":"bearer","expires_in":3600}`)
	})
	all := nodes(t, 2)
	old := account{Label: "main", Secret: "old", Refresh: "r", Expires: time.Now().Add(50 * time.Second)}
	if err := all[0].vault.change(t.Context(), "ann", "acme", func(r *record) error { return r.add(old) }); err != nil {
		t.Fatal(err)
	}
	done := make(chan string)
	go func() {
		got, _ := all[0].secret(t.Context(), u, "ann")
		done <- got
	}()
	<-begun
	if got, err := all[1].secret(t.Context(), u, "ann"); got != "old" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	close(release)
	if got := <-done; got != "new" {
		t.Errorf("got %q", got)
	}
	r, _, err := all[1].vault.get(t.Context(), "ann", "acme")
	if err != nil || r.selected().Refresh != "r" {
		t.Errorf("the refresh token that the provider does not rotate: %v, %v", r, err)
	}
}

func TestRefresh_does_not_undo_what_the_user_has_done_meanwhile(t *testing.T) {
	h := nodes(t, 1)[0]
	change := func(of func(*record) error) {
		t.Helper()
		if err := h.vault.change(t.Context(), "ann", "acme", of); err != nil {
			t.Error(err)
		}
	}
	u := provider(t, func(w http.ResponseWriter, r *http.Request) {
		change(func(r *record) error { return r.add(account{Label: "main", Secret: "again", Refresh: "other"}) })
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprint(w, `{"error":"invalid_grant"}`)
	})
	change(func(r *record) error {
		return r.add(account{Label: "main", Secret: "old", Refresh: "r", Expires: time.Now().Add(-time.Second)})
	})
	if _, err := h.secret(t.Context(), u, "ann"); !errors.Is(err, errNotConnected) {
		t.Errorf("got %v", err)
	}
	if got, err := h.secret(t.Context(), u, "ann"); got != "again" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestRecord_of_one_user_cannot_be_put_in_the_place_of_another(t *testing.T) {
	h := nodes(t, 1)[0]
	if err := h.vault.change(t.Context(), "ann", "acme", func(r *record) error { return r.add(account{Label: "main", Secret: "a"}) }); err != nil {
		t.Fatal(err)
	}
	_, sealed, err := h.vault.get(t.Context(), "ann", "acme")
	if err != nil {
		t.Fatal(err)
	}
	st, _ := h.vault.open(t.Context())
	if err := st.Put(t.Context(), keyOf("mallory", "acme"), store.Change{Value: sealed, TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if r, _, err := h.vault.get(t.Context(), "mallory", "acme"); err != nil || r.selected() != nil {
		t.Errorf("got %v, %v", r, err)
	}
}

// Some third parties declare their JSON as plain text.
func TestToken_response_of_plain_text_is_read(t *testing.T) {
	body := `{"access_token":"a","token_type":"bearer"}`
	u := provider(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = fmt.Fprint(w, body)
	})
	if token, err := u.renew(t.Context(), "r"); err != nil || token.AccessToken != "a" {
		t.Errorf("%v, %v", token, err)
	}
	body = `{"error":"invalid_grant"}`
	if _, err := u.renew(t.Context(), "r"); !errors.Is(err, errGrant) {
		t.Errorf("an error: %v", err)
	}
}

func TestToken_response_beyond_the_limit_is_refused(t *testing.T) {
	for name, body := range map[string]string{
		"large response": `{"access_token":"a","pad":"` + string(make([]byte, tokenclient.MaxResponse)) + `"}`,
		"large token":    `{"token_type":"bearer","access_token":"` + fmt.Sprintf("%0*d", maxSecret+1, 1) + `"}`,
		"no header":      `{"token_type":"bearer","access_token":"a\nb"}`,
		"no token":       `{"token_type":"bearer"}`,
		"no JSON":        `planted`,
	} {
		u := provider(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprint(w, body)
		})
		if token, err := u.renew(t.Context(), "r"); err == nil || token != nil || len(err.Error()) > 200 {
			t.Errorf("%s: %v, %v", name, token, err)
		}
	}
}
