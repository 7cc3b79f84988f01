package fetch

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit"
)

// newServer returns a server of a few documents and redirects.
func newServer(t *testing.T) *httptest.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("/document", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Etag", r.Header.Get("If-None-Match"))
		fmt.Fprint(w, "12345")
	})
	mux.HandleFunc("/missing", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, strings.Repeat("x", 1000))
	})
	mux.HandleFunc("/chunked", func(w http.ResponseWriter, _ *http.Request) {
		for range 2 {
			fmt.Fprint(w, "123")
			_ = http.NewResponseController(w).Flush()
		}
	})
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/to", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Query().Get("url"), http.StatusFound)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

func TestGet(t *testing.T) {
	server := newServer(t)
	other := newServer(t)
	for path, test := range map[string]struct {
		sameHost bool
		status   int    // 0 for an error
		want     string // the body, or words of the error
	}{
		"/document":                          {false, 200, "12345"},
		"/missing":                           {false, 404, ""},
		"/chunked":                           {false, 0, ErrTooLarge.Error()},
		"/slow":                              {false, 0, "100ms"},
		"/to?url=/document":                  {true, 200, "12345"},
		"/to?url=/to?url=/document":          {true, 0, "1 redirects"},
		"/to?url=" + other.URL + "/document": {false, 200, "12345"},
		"/to?url=" + other.URL + "/document&same":         {true, 0, "another host"},
		"/to?url=ftp://127.0.0.1/document":                {false, 0, "scheme ftp"},
		"/to?url=" + other.URL + "/document?secret=token": {true, 0, "another host"},
	} {
		t.Run(path, func(t *testing.T) {
			timeout := testkit.Patience
			if path == "/slow" {
				timeout = 100 * time.Millisecond
			}
			client := New(Options{MaxSize: 5, MaxRedirects: 1, SameHost: test.sameHost, Timeout: timeout})
			defer client.Close()
			response, err := client.Get(t.Context(), server.URL+path, http.Header{"If-None-Match": {`"1"`}})
			switch {
			case test.status == 0 && (err == nil || !testkit.ContainsAll(err.Error(), test.want)):
				t.Errorf("error %v, want one with %q", err, test.want)
			case test.status == 0 && strings.Contains(err.Error(), "url="):
				t.Errorf("the error contains the URL: %v", err)
			case test.status == 0:
			case err != nil:
				t.Error(err)
			case response.Status != test.status || string(response.Body) != test.want:
				t.Errorf("status %d, body %q", response.Status, response.Body)
			case test.status == 200 && response.Header.Get("Etag") != `"1"`:
				t.Errorf("the request had not the given header: %v", response.Header)
			}
		})
	}
}

func TestGet_announced_size(t *testing.T) {
	server := newServer(t)
	client := New(Options{MaxSize: 4, Timeout: testkit.Patience})
	defer client.Close()
	if _, err := client.Get(t.Context(), server.URL+"/document", nil); !errors.Is(err, ErrTooLarge) {
		t.Errorf("error %v", err)
	}
}

func TestGet_rejects_redirect_from_https_to_http(t *testing.T) {
	plain := newServer(t)
	secure := httptest.NewTLSServer(http.RedirectHandler(plain.URL+"/document?key=secret", http.StatusFound))
	defer secure.Close()
	client := New(Options{MaxSize: 5, MaxRedirects: 5, Timeout: testkit.Patience, Transport: secure.Client().Transport})
	_, err := client.Get(t.Context(), secure.URL, nil)
	if err == nil || !testkit.ContainsAll(err.Error(), "https http") || strings.Contains(err.Error(), "secret") {
		t.Errorf("error %v", err)
	}
}
