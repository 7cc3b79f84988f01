package embeddings_test

import (
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/caddymodule/embeddings"
)

// serve starts a server with one response.
func serve(t *testing.T, status int, response string) (base string, received func() (path, key, body string)) {
	t.Helper()
	var path, key, body string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content, _ := io.ReadAll(r.Body)
		path, key, body = r.URL.Path, r.Header.Get("Authorization"), string(content)
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, response)
	}))
	t.Cleanup(server.Close)
	return server.URL, func() (string, string, string) { return path, key, body }
}

// provision returns the provisioned module for a server.
func provision(t *testing.T, base, key string) (*embeddings.Server, error) {
	t.Helper()
	s := &embeddings.Server{URL: base, Model: "small", APIKey: key}
	return s, s.Provision(caddy.Context{Context: t.Context()})
}

func TestEmbed(t *testing.T) {
	base, received := serve(t, 200, `{"data":[{"index":1,"embedding":[0,2]},{"index":0,"embedding":[3,4]}]}`)
	client, err := provision(t, base+"/v1/", "s3cret")
	if err != nil {
		t.Fatal(err)
	}
	vectors, err := client.Embed(t.Context(), []string{"a", strings.Repeat("b", 5000)})
	if err != nil {
		t.Fatal(err)
	}
	if len(vectors) != 2 || math.Abs(float64(vectors[0][0])-0.6) > 1e-6 || vectors[1][1] != 1 {
		t.Errorf("got %v, want the vectors in the order of the texts, with the norm 1", vectors)
	}
	path, key, body := received()
	if path != "/v1/embeddings" || key != "Bearer s3cret" {
		t.Errorf("sent %s with %s, want /v1/embeddings with the key", path, key)
	}
	if !strings.Contains(body, `"model":"small"`) || len(body) > 3000 {
		t.Errorf("sent %d bytes, want at most 3000 with the model: %.100s", len(body), body)
	}
}

func TestEmbed_wrong_responses(t *testing.T) {
	for _, c := range []struct {
		rule, response, word string
		status               int
	}{
		{"an error", `{"error":{"message":"no such model"}}`, "model", 404},
		{"a redirect", "", "302", 302},
		{"no JSON", "hello", "embeddings", 200},
		{"too few vectors", `{"data":[{"index":0,"embedding":[1]}]}`, "1", 200},
		{"an index twice", `{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]}`, "index", 200},
		{"an index of no text", `{"data":[{"index":0,"embedding":[1]},{"index":2,"embedding":[1]}]}`, "index", 200},
		{"an empty vector", `{"data":[{"index":0,"embedding":[]},{"index":1,"embedding":[]}]}`, "length", 200},
		{"vectors of different lengths", `{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[1,2]}]}`, "length", 200},
		{"too many numbers", `{"data":[{"index":0,"embedding":[` + strings.Repeat("1,", 9000) + `1]},{"index":1,"embedding":[1]}]}`, "length", 200},
	} {
		base, _ := serve(t, c.status, c.response)
		client, err := provision(t, base, "s3cret")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Embed(t.Context(), []string{"a", "b"}); err == nil || !strings.Contains(err.Error(), c.word) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: got %v, want an error with the word %s", c.rule, err, c.word)
		}
	}
	client, err := provision(t, "http://127.0.0.1:1", "{env.NO_SUCH_KEY}")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Embed(t.Context(), []string{"a"}); err == nil || !strings.Contains(err.Error(), "api_key") {
		t.Errorf("without a key: got %v, want an error with the word api_key", err)
	}
}

func TestProvision_wrong_addresses(t *testing.T) {
	for _, base := range []string{"", "api.openai.com", "ftp://a", "https://", "https://user:pw@a/v1", "https://a/v1?key=1", "https://a/v1#b"} {
		if _, err := provision(t, base, "s3cret"); err == nil || strings.Contains(err.Error(), "pw") {
			t.Errorf("%q: got %v, want an error", base, err)
		}
	}
}
