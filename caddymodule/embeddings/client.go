package embeddings

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/text"
)

// Limits of a request.
const (
	maxText       = 2000     // bytes of a text that are sent
	maxResponse   = 32 << 20 // bytes
	maxDimensions = 8192     // numbers of a vector
	maxReason     = 200      // bytes of an error response that are shown
)

// address returns the URL that requests for vectors go to. Base is the URL of the API, such as
// https://api.openai.com/v1.
func address(base string) (string, error) {
	u, err := url.Parse(base)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return "", errors.New("the URL of the server must be written as https://api.openai.com/v1")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return "", errors.New("the URL of the server must not have a user, a query or a fragment; give the key with api_key")
	}
	return strings.TrimSuffix(strings.TrimRight(base, "/"), "/embeddings") + "/embeddings", nil
}

// client does not follow redirects, which would send the key elsewhere.
var client = http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// Embed implements embeddings.Embedder.
func (s *Server) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	short := make([]string, len(texts))
	for i, t := range texts {
		short[i] = text.Cut(t, maxText)
	}
	body, err := json.Marshal(map[string]any{"model": s.Model, "input": short, "encoding_format": "float"})
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	key, err := caddy.NewReplacer().ReplaceOrErr(s.APIKey, true, true)
	if err != nil {
		return nil, fmt.Errorf("api_key: %w", err)
	}
	if key = strings.TrimSpace(key); key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	response, err := client.Do(r)
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return nil, failed.Err
	}
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	content, err := buffer.ReadLimited(response.Body, maxResponse)
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the response: %w", err)
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("the server responds with %s: %s", text.StatusLine(response.StatusCode), text.Cut(strings.TrimSpace(string(content)), maxReason))
	}
	return readVectors(content, len(texts))
}

// readVectors reads the vectors of a response.
func readVectors(content []byte, count int) ([][]float32, error) {
	var response struct {
		Data []struct {
			Index     int       `json:"index"`
			Embedding []float32 `json:"embedding"`
		} `json:"data"`
	}
	if err := json.Unmarshal(content, &response); err != nil {
		return nil, fmt.Errorf("the response is not that of an embeddings API: %w", err)
	}
	if len(response.Data) != count {
		return nil, fmt.Errorf("the response has %d vectors for %d texts", len(response.Data), count)
	}
	vectors := make([][]float32, count)
	for _, d := range response.Data {
		switch {
		case d.Index < 0 || d.Index >= count || vectors[d.Index] != nil:
			return nil, fmt.Errorf("the response has a vector with the index %d, which is not one of a further text", d.Index)
		case len(d.Embedding) == 0 || len(d.Embedding) > maxDimensions || len(d.Embedding) != len(response.Data[0].Embedding):
			return nil, fmt.Errorf("the response has a vector of %d numbers; all must have the same length, at most %d", len(d.Embedding), maxDimensions)
		}
		vectors[d.Index] = normalize(d.Embedding)
	}
	return vectors, nil
}

// normalize divides the vector by its norm, in place.
func normalize(v []float32) []float32 {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if norm := math.Sqrt(sum); norm > 0 {
		for i := range v {
			v[i] = float32(float64(v[i]) / norm)
		}
	}
	return v
}
