package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit"
)

const secret = "whsec_c2VjcmV0LW9mLXRoZS1lbmRwb2ludA==" // secret-of-the-endpoint

func newClient(t *testing.T, url string, timeout time.Duration) *Client {
	t.Helper()
	c, err := New(url, secret, timeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// TestPost_is_signed checks the signature as a receiver does.
func TestPost_is_signed(t *testing.T) {
	var got http.Header
	var body []byte
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = r.Header
		body, _ = io.ReadAll(r.Body)
	}))
	t.Cleanup(server.Close)
	if err := newClient(t, server.URL, 0).Post(t.Context(), "msg_1", "application/json", []byte(`{"a":1}`)); err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, []byte("secret-of-the-endpoint"))
	mac.Write([]byte("msg_1." + got.Get("Webhook-Timestamp") + `.{"a":1}`))
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); got.Get("Webhook-Signature") != want || got.Get("Webhook-Id") != "msg_1" {
		t.Errorf("header %v, want the signature %s", got, want)
	}
	if string(body) != `{"a":1}` || got.Get("Content-Type") != "application/json" {
		t.Errorf("%s %s", got.Get("Content-Type"), body)
	}
}

func TestNew_refuses(t *testing.T) {
	for name, c := range map[string]struct {
		url, secret string
		timeout     time.Duration
		want        string
	}{
		"no scheme":    {"hooks.example.com", secret, 0, "https://"},
		"user":         {"https://ada:pass-word@hooks.example.com/", secret, 0, "no user"},
		"fragment":     {"https://hooks.example.com/#pass-word", secret, 0, "no fragment"},
		"no secret":    {"https://hooks.example.com/", "", 0, "0 bytes"},
		"short secret": {"https://hooks.example.com/", "pass-word", 0, "at least 16"},
		"no base64":    {"https://hooks.example.com/", "whsec_pass-word!pass-word!", 0, "base64"},
		"timeout":      {"https://hooks.example.com/", secret, maxTimeout + 1, "at most 1m"},
		"negative":     {"https://hooks.example.com/", secret, -1, "more than 0"},
	} {
		_, err := New(c.url, c.secret, c.timeout)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "pass-word") {
			t.Errorf("%s: %v, want %q and no secret", name, err, c.want)
		}
	}
}

// TestAsk_errors has endpoints that are slow, wrong or not there. No error contains the URL, which may be secret.
func TestAsk_errors(t *testing.T) {
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"redirect": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/other", http.StatusFound) }, "redirect"},
		"status":   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }, "418"},
		"large":    {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, strings.Repeat("x", 11)) }, "more than 10 bytes"},
		"slow": {func(_ http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body) // the server notices only then that the client has left
			<-r.Context().Done()
		}, "timeout"},
		"breaks off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "10")
			io.WriteString(w, "x")
		}, "incomplete"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(c.handler)
			t.Cleanup(server.Close)
			timeout := time.Minute
			if name == "slow" {
				timeout = 50 * time.Millisecond
			}
			_, _, err := newClient(t, server.URL+"/secret-path", timeout).Ask(t.Context(), "application/json", []byte("{}"), 10)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret-path") {
				t.Errorf("%v, want %q and no URL", err, c.want)
			}
		})
	}
	if err := newClient(t, fmt.Sprintf("http://127.0.0.1:%d/secret-path", testkit.FreePort(t)), 0).Post(t.Context(), "1", "text/plain", nil); err == nil || strings.Contains(err.Error(), "secret-path") {
		t.Errorf("an endpoint that is not there: %v", err)
	}
}

func TestAsk_returns_the_response(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "0123456789") }))
	t.Cleanup(server.Close)
	_, response, err := newClient(t, server.URL, 0).Ask(t.Context(), "text/plain", nil, 10)
	if string(response) != "0123456789" || err != nil {
		t.Errorf("%q, %v", response, err)
	}
}
