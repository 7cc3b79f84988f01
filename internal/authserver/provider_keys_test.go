package authserver_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/authserver"
)

// The identity provider publishes a certificate that cannot be parsed beside its key, as WSO2 does.
func TestLogin_at_a_provider_with_a_broken_certificate(t *testing.T) {
	s := newSite(t, func(o *authserver.Options) {
		o.Provider.(*authserver.OIDC).Transport = withCertificates{}
	})
	b := s.browser(t)
	if status, tokens := b.redeem(b.login(asked()).Get("code")); status != http.StatusOK {
		t.Errorf("%d %v", status, tokens)
	}
}

// The identity provider declares all of its JSON as plain text, and its documents begin with a byte order mark.
func TestLogin_at_a_provider_that_declares_plain_text(t *testing.T) {
	s := newSite(t, func(o *authserver.Options) {
		o.Provider.(*authserver.OIDC).Transport = asText{}
	})
	b := s.browser(t)
	if status, tokens := b.redeem(b.login(asked()).Get("code")); status != http.StatusOK {
		t.Errorf("%d %v", status, tokens)
	}
}

type asText struct{}

func (asText) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if response.Header.Set("Content-Type", "text/plain"); r.Method == http.MethodGet {
		response.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(strings.NewReader("\uFEFF"), response.Body), response.Body}
	}
	return response, nil
}

// withCertificates adds a certificate to each key of the provider.
type withCertificates struct{}

func (withCertificates) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil || r.URL.Path != "/jwks" {
		return response, err
	}
	defer response.Body.Close()
	var set struct {
		Keys []map[string]any `json:"keys"`
	}
	if err := json.NewDecoder(response.Body).Decode(&set); err != nil {
		return nil, err
	}
	for _, key := range set.Keys {
		key["x5c"] = []string{"AAAA"}
	}
	changed, err := json.Marshal(set)
	w := httptest.NewRecorder()
	_, _ = w.Write(changed)
	return w.Result(), err
}
