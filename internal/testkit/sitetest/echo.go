package sitetest

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// Upstream runs an API and returns its host:port.
func Upstream(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// Echo answers what it was asked.
func Echo(w http.ResponseWriter, r *http.Request) {
	body := new(bytes.Buffer)
	_, _ = body.ReadFrom(r.Body)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"method": r.Method,
		"uri":    r.RequestURI,
		"host":   r.Host,
		"header": r.Header,
		"body":   body.String(),
	})
}

// Echoed is what echo answered.
type Echoed struct {
	Method, URI, Host, Body string
	Header                  http.Header
}

func (s *Site) Echo(r *http.Request) Echoed {
	s.T.Helper()
	result := s.Result(s.Do(r))
	if result.IsError {
		s.T.Fatal(result.Text())
	}
	var e Echoed
	if err := json.Unmarshal([]byte(result.Text()), &e); err != nil {
		s.T.Fatalf("%v: %s", err, result.Text())
	}
	return e
}

func Gzipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	io.WriteString(z, text)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// An API is an upstream that remembers what it was asked.
type API struct {
	*httptest.Server
	Mu   sync.Mutex
	Seen []*http.Request
}

// NewAPI starts an API, which answers 200 {"path":…} where answer is nil.
func NewAPI(t *testing.T, answer http.HandlerFunc) *API {
	t.Helper()
	a := new(API)
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.Mu.Lock()
		a.Seen = append(a.Seen, r.Clone(r.Context()))
		a.Mu.Unlock()
		if answer != nil {
			answer(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"path":%q}`, r.URL.Path)
	}))
	t.Cleanup(a.Close)
	return a
}

// Last returns the request that came last.
func (a *API) Last(t *testing.T) *http.Request {
	t.Helper()
	a.Mu.Lock()
	defer a.Mu.Unlock()
	if len(a.Seen) == 0 {
		t.Fatal("the API was not asked")
	}
	return a.Seen[len(a.Seen)-1]
}
