package source

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
)

func TestSiteSource(t *testing.T) {
	html := http.Header{"Content-Type": {"text/html; charset=utf-8"}}
	compressed := http.Header{"Content-Encoding": {"gzip"}}
	cases := []struct {
		rule   string
		status int
		header http.Header
		body   string
		err    error
		want   string
		says   string
	}{
		{rule: "document", status: 200, body: "document", want: "document"},
		{rule: "compressed document", status: 200, header: compressed, body: string(zipped("document")), want: "document"},
		{rule: "error page", status: 404, body: "document", says: "404"},
		{rule: "page", status: 200, header: html, body: "<html>", says: "text/html"},
		{rule: "fault of the site", err: errors.New("upstream is down"), says: "upstream is down"},
		{rule: "empty", status: 200, body: " \n", says: "empty"},
		{rule: "over the limit", status: 200, body: strings.Repeat("x", 101), says: "100 bytes"},
		{rule: "over the limit when decompressed", status: 200, header: compressed, body: string(zipped(strings.Repeat("x", 101))), says: "100 bytes"},
		{rule: "broken compression", status: 200, header: compressed, body: "document", says: "decompressing"},
	}
	for _, c := range cases {
		t.Run(c.rule, func(t *testing.T) {
			source := &Site{Path: "/openapi.json?key=t0ken", MaxSize: 100}
			source.Use(func(_ context.Context, path string, header http.Header) (int, http.Header, []byte, error) {
				if path != "/openapi.json?key=t0ken" || header.Get("User-Agent") != "Fairway" {
					t.Errorf("fetched %s with %v", path, header)
				}
				return c.status, c.header, []byte(c.body), c.err
			})
			snapshot, _, err := source.Fetch(context.Background(), nil)
			if c.want != "" {
				if err != nil || string(snapshot.Data) != c.want || snapshot.Location != "/openapi.json" {
					t.Fatalf("snapshot %v, error %v", snapshot, err)
				}
				return
			}
			if err == nil || !testkit.ContainsAll(err.Error(), c.says) || strings.Contains(err.Error(), "t0ken") {
				t.Errorf("error %v, want it to contain %q", err, c.says)
			}
		})
	}
}

func TestSiteSource_is_conditional(t *testing.T) {
	source := &Site{Path: "/openapi.json"}
	if _, _, err := source.Fetch(context.Background(), nil); !errors.Is(err, errNoSite) {
		t.Errorf("before Use: %v", err)
	}
	source.Use(func(_ context.Context, _ string, header http.Header) (int, http.Header, []byte, error) {
		if header.Get("If-None-Match") == `"1"` {
			return http.StatusNotModified, nil, nil, nil
		}
		return http.StatusOK, http.Header{"Etag": {`"1"`}}, []byte("document"), nil
	})
	first, _ := mustFetch(t, source, nil)
	if _, changed := mustFetch(t, source, first.Keep(nil)); changed {
		t.Error("a 304 counts as changed")
	}
}
