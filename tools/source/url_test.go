package source

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit"
)

func urlSource(t *testing.T, address string, options URLOptions) *URL {
	t.Helper()
	source, err := NewURL(address, options)
	if err != nil {
		t.Fatal(err)
	}
	return source
}

func zipped(content string) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	fmt.Fprint(w, content)
	_ = w.Close()
	return b.Bytes()
}

func TestURLSource_is_conditional(t *testing.T) {
	var asked http.Header
	content, etag := "one", `"1"`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Header.Clone()
		w.Header().Set("Etag", etag)
		w.Header().Set("Last-Modified", "Fri, 20 Nov 2026 12:00:00 GMT")
		if r.Header.Get("If-None-Match") == etag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		fmt.Fprint(w, content)
	}))
	defer server.Close()
	source := urlSource(t, server.URL+"/openapi.yaml", URLOptions{})

	first, changed := mustFetch(t, source, nil)
	if !changed || string(first.Data) != "one" || first.Location != server.URL+"/openapi.yaml" {
		t.Fatalf("changed %v, data %q, location %q", changed, first.Data, first.Location)
	}
	if asked.Get("User-Agent") != "Fairway" || !strings.Contains(asked.Get("Accept"), "openapi") || asked.Get("If-None-Match") != "" {
		t.Errorf("the first request had %v", asked)
	}
	second, changed := mustFetch(t, source, first.Keep(nil))
	if changed {
		t.Error("a 304 counts as changed")
	}
	if asked.Get("If-None-Match") != `"1"` || asked.Get("If-Modified-Since") != "Fri, 20 Nov 2026 12:00:00 GMT" {
		t.Errorf("the second request had %v", asked)
	}
	etag = `"2"` // of the same content
	third, changed := mustFetch(t, source, second)
	if changed {
		t.Error("the same bytes with another ETag count as changed")
	}
	mustFetch(t, source, third)
	if asked.Get("If-None-Match") != `"2"` {
		t.Errorf("the newer ETag was not kept: %v", asked)
	}
	content, etag = "two", `"3"`
	if fourth, changed := mustFetch(t, source, third); !changed || string(fourth.Data) != "two" {
		t.Errorf("changed %v, data %q", changed, fourth.Data)
	}
}

func TestURLSource_answers(t *testing.T) {
	handlers := map[string]http.HandlerFunc{
		"/gzip": func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Accept-Encoding") != "gzip" {
				w.WriteHeader(http.StatusNotAcceptable)
			}
			w.Header().Set("Content-Encoding", "gzip")
			fmt.Fprintf(w, "%s", zipped("document"))
		},
		"/bomb": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			fmt.Fprintf(w, "%s", zipped(strings.Repeat(" ", 1<<20)))
		},
		"/brotli": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "br")
			fmt.Fprint(w, "document")
		},
		"/error": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
			fmt.Fprint(w, "document")
		},
		"/created": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusCreated)
			fmt.Fprint(w, "document")
		},
		"/unwanted": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) },
		"/empty":    func(http.ResponseWriter, *http.Request) {},
		"/html": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "<!DOCTYPE html><title>Log in</title>")
		},
		"/big":      func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Repeat("x", 1001)) },
		"/limit":    func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Repeat("x", 1000)) },
		"/endless":  func(w http.ResponseWriter, _ *http.Request) { endless(w) },
		"/announce": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "9999999999") },
		"/truncated": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, "docu")
		},
		"/broken": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "docu")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		},
		"/once": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/limit", http.StatusFound) },
		"/loop": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop", http.StatusFound) },
		"/file": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
		},
		"/other": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "ftp://127.0.0.1/x", http.StatusFound)
		},
	}
	for n := range 7 {
		handlers[fmt.Sprintf("/hop%d", n)] = func(w http.ResponseWriter, r *http.Request) {
			if n == 0 {
				fmt.Fprint(w, "document")
				return
			}
			http.Redirect(w, r, fmt.Sprintf("/hop%d", n-1), http.StatusFound)
		}
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handlers[r.URL.Path](w, r) }))
	defer server.Close()
	cases := []struct {
		path string
		want string // the document's beginning; "" for an error
		says string
	}{
		{"/gzip", "document", ""},
		{"/limit", "xxx", ""},
		{"/once", "xxx", ""},
		{"/hop5", "document", ""},
		{"/hop6", "", "5 redirects"},
		{"/loop", "", "5 redirects"},
		{"/file", "", "scheme file"},
		{"/other", "", "scheme ftp"},
		{"/bomb", "", "1000 bytes"},
		{"/big", "", "1000 bytes"},
		{"/endless", "", "1000 bytes"},
		{"/announce", "", "1000 bytes"},
		{"/brotli", "", "br"},
		{"/error", "", "502"},
		{"/created", "", "201"},
		{"/unwanted", "", "304"},
		{"/empty", "", "empty"},
		{"/html", "", "text/html"},
		{"/truncated", "", "unexpected EOF"},
		{"/broken", "", "EOF"},
	}
	for _, c := range cases {
		t.Run(c.path, func(t *testing.T) {
			source := urlSource(t, server.URL+c.path, URLOptions{MaxSize: 1000})
			snapshot, _, err := source.Fetch(context.Background(), nil)
			if c.want != "" {
				if err != nil || !strings.HasPrefix(string(snapshot.Data), c.want) {
					t.Fatalf("snapshot %v, error %v", snapshot, err)
				}
				return
			}
			if err == nil || !testkit.ContainsAll(err.Error(), c.says) || !strings.Contains(err.Error(), server.URL+c.path) {
				t.Errorf("error %v, want it to name the URL and contain %q", err, c.says)
			}
		})
	}
}

// endless writes until the client goes away.
func endless(w io.Writer) {
	for {
		if _, err := w.Write(bytes.Repeat([]byte("x"), 4096)); err != nil {
			return
		}
	}
}

func TestURLSource_slow_server(t *testing.T) {
	for _, when := range []string{"before the answer", "within the body"} {
		t.Run(when, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if when == "within the body" {
					fmt.Fprint(w, "docu")
					_ = http.NewResponseController(w).Flush()
				}
				<-r.Context().Done()
			}))
			defer server.Close()
			source := urlSource(t, server.URL, URLOptions{Timeout: 50 * time.Millisecond})
			if _, _, err := source.Fetch(context.Background(), nil); err == nil || !testkit.ContainsAll(err.Error(), "50ms") {
				t.Errorf("error %v", err)
			}
			source = urlSource(t, server.URL, URLOptions{})
			ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			defer cancel()
			if _, _, err := source.Fetch(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("canceled by the caller: %v", err)
			}
		})
	}
}

func TestURLSource_credentials(t *testing.T) {
	var user, password string
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ = r.BasicAuth()
		w.WriteHeader(status)
		fmt.Fprint(w, "document")
	}))
	address := strings.Replace(server.URL, "http://", "http://alice:s3cret@", 1) + "/openapi.json?key=t0ken#frag"
	source := urlSource(t, address, URLOptions{})
	snapshot, _ := mustFetch(t, source, nil)
	if user != "alice" || password != "s3cret" {
		t.Errorf("sent %q, %q", user, password)
	}
	shown := []string{source.Location(), snapshot.Location}
	status = http.StatusUnauthorized
	_, _, unauthorized := source.Fetch(context.Background(), nil)
	server.Close()
	_, _, unreachable := source.Fetch(context.Background(), nil)
	for _, err := range []error{unauthorized, unreachable} {
		if err == nil {
			t.Fatal("no error")
		}
		shown = append(shown, err.Error())
	}
	for _, text := range shown {
		for _, secret := range []string{"alice", "s3cret", "t0ken"} {
			if strings.Contains(text, secret) {
				t.Errorf("%q shows %q", text, secret)
			}
		}
	}
}

func TestNewURLSource_refuses(t *testing.T) {
	for _, address := range []string{"ftp://alice:s3cret@host/x", "http://", "/openapi.json", "openapi.json", "http://alice:s3cret@host:port/", "https://alice:s3cret@ho st/"} {
		_, err := NewURL(address, URLOptions{})
		if err == nil {
			t.Errorf("%s was taken", address)
			continue
		}
		if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q shows the password", err)
		}
	}
}
