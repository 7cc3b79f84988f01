package mcpdiscovery_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// discovered fetches a card or a catalog.
func discovered(s *sitetest.Site, method, path string, header map[string]string) sitetest.Response {
	s.T.Helper()
	r, err := http.NewRequest(method, s.URL+path, nil)
	if err != nil {
		s.T.Fatal(err)
	}
	for name, value := range header {
		r.Header.Set(name, value)
	}
	return s.Do(r)
}

func TestMCP_server_card(t *testing.T) {
	s := sitetest.Run(t, "", `
		mcp /mcp TRIPS {
			versions 2025-06-18 2026-07-28
			discovery
		}
		mcp /named TRIPS {
			title "Journeys by Train"
			version 7
			discovery {
				name com.example/trains
				url https://api.example.com/named/
			}
		}
		mcp /plain TRIPS
		respond "behind {path}"`)
	for _, test := range []struct{ path, want string }{
		{"/mcp/server-card", fmt.Sprintf(`{"$schema":"https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json",`+
			`"name":"127.0.0.1/trips","title":"Trips","description":"Trips by train.","version":"1.2.3",`+
			`"remotes":[{"type":"streamable-http","url":"http://127.0.0.1:%d/mcp","supportedProtocolVersions":["2026-07-28","2025-06-18"]}]}`, s.Port)},
		{"/named/server-card", `{"$schema":"https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json",` +
			`"name":"com.example/trains","title":"Journeys by Train","description":"Trips by train.","version":"7",` +
			`"remotes":[{"type":"streamable-http","url":"https://api.example.com/named","supportedProtocolVersions":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"]}]}`},
		{"/plain/server-card", "behind /plain/server-card"},
		{"/mcp/server-card/", "behind /mcp/server-card/"},
	} {
		if a := s.Get(test.path); a.Status != 200 || a.Body != test.want {
			t.Errorf("%s: %d %s, want %s", test.path, a.Status, a.Body, test.want)
		}
	}

	a := discovered(s, "GET", "/mcp/server-card", nil)
	for name, want := range map[string]string{
		"Content-Type":                  "application/mcp-server-card+json",
		"Cache-Control":                 "public, max-age=3600",
		"Access-Control-Allow-Origin":   "*",
		"Access-Control-Allow-Methods":  "GET",
		"Access-Control-Allow-Headers":  "Content-Type, If-None-Match",
		"Access-Control-Expose-Headers": "ETag",
	} {
		if got := a.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	tag := map[string]string{"If-None-Match": a.Header.Get("Etag")}
	if a := discovered(s, "GET", "/mcp/server-card", tag); a.Status != http.StatusNotModified || a.Body != "" {
		t.Errorf("unchanged: %d %s", a.Status, a.Body)
	}
	if a := discovered(s, "HEAD", "/mcp/server-card", nil); a.Status != 200 || a.Body != "" || a.Header.Get("Content-Length") == "0" {
		t.Errorf("HEAD: %d %s", a.Status, a.Body)
	}
	if a := discovered(s, "OPTIONS", "/mcp/server-card", nil); a.Status != 204 || a.Header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("OPTIONS: %d %v", a.Status, a.Header)
	}
	if a := discovered(s, "POST", "/mcp/server-card", nil); a.Status != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d %s", a.Status, a.Body)
	}
}

// TestMCPCatalog wants the catalog to name each server that is to be found, and
// what the API's own catalog has.
func TestMCPCatalog(t *testing.T) {
	for name, test := range map[string]struct {
		behind string // what answers for the catalog itself
		want   string // identifiers
		host   bool   // the members of the API's catalog stay
	}{
		"none":      {`respond 404`, "urn:air:example.com:mcp:trains urn:air:127.0.0.1:mcp:trips", false},
		"broken":    {`error 500`, "urn:air:example.com:mcp:trains urn:air:127.0.0.1:mcp:trips", false},
		"a page":    {"respond `<html>`", "urn:air:example.com:mcp:trains urn:air:127.0.0.1:mcp:trips", false},
		"no object": {"respond `[]`", "urn:air:example.com:mcp:trains urn:air:127.0.0.1:mcp:trips", false},
		"its own": {
			"respond `{\"specVersion\":\"1.0\",\"host\":{\"displayName\":\"Railway\"},\"entries\":[{\"identifier\":\"urn:x:y\",\"type\":\"text/plain\",\"url\":\"https://a.test/\"}]}`",
			"urn:air:example.com:mcp:trains urn:air:127.0.0.1:mcp:trips urn:x:y", true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := sitetest.Run(t, "", `
				mcp /named TRIPS {
					discovery {
						name com.example/trains
					}
				}
				mcp /plain TRIPS
				mcp /mcp TRIPS {
					discovery
				}
				`+test.behind)
			a := discovered(s, "GET", "/.well-known/ai-catalog.json", map[string]string{"If-None-Match": "*"})
			if a.Status == http.StatusNotModified {
				a = s.Get("/.well-known/ai-catalog.json")
			}
			var catalog struct {
				SpecVersion string          `json:"specVersion"`
				Host        json.RawMessage `json:"host"`
				Entries     []struct {
					Identifier, DisplayName, Type, URL string
				} `json:"entries"`
			}
			if err := json.Unmarshal([]byte(a.Body), &catalog); err != nil || a.Status != 200 {
				t.Fatalf("%d %s: %v", a.Status, a.Body, err)
			}
			var identifiers []string
			for _, e := range catalog.Entries {
				identifiers = append(identifiers, e.Identifier)
			}
			if got := strings.Join(identifiers, " "); got != test.want || catalog.SpecVersion != "1.0" || (catalog.Host != nil) != test.host {
				t.Errorf("got %s", a.Body)
			}
			if got := a.Header.Get("Content-Type"); got != "application/ai-catalog+json" {
				t.Errorf("Content-Type %q", got)
			}
			for _, e := range catalog.Entries[:2] {
				if e.Type != "application/mcp-server-card+json" || !strings.HasSuffix(e.URL, "/server-card") || e.DisplayName != "Trips" {
					t.Errorf("entry %+v", e)
				}
				if a := s.Get(strings.TrimPrefix(e.URL, s.URL)); a.Status != 200 || !strings.Contains(a.Body, `"description":"Trips by train."`) {
					t.Errorf("%s: %d %s", e.URL, a.Status, a.Body)
				}
			}
		})
	}
}

// TestMCP_catalog_is_the_sites leaves the catalog to the API where no server is to be
// found.
func TestMCP_catalog_is_the_sites(t *testing.T) {
	s := sitetest.Run(t, "", "mcp /mcp TRIPS\nrespond own")
	if a := s.Get("/.well-known/ai-catalog.json"); a.Body != "own" {
		t.Errorf("got %d %s", a.Status, a.Body)
	}
}

// Card and catalog name the URL that the client asked, with what handlers took off
// its path.
func TestMCP_discovery_below_a_path(t *testing.T) {
	s := sitetest.Run(t, "", `
		handle_path /apis/* {
			mcp /mcp TRIPS {
				discovery
			}
		}`)
	for path, want := range map[string]string{
		"/apis/mcp/server-card":             fmt.Sprintf(`"url":"http://127.0.0.1:%d/apis/mcp"`, s.Port),
		"/apis/.well-known/ai-catalog.json": fmt.Sprintf(`"url":"http://127.0.0.1:%d/apis/mcp/server-card"`, s.Port),
	} {
		if a := s.Get(path); a.Status != http.StatusOK || !strings.Contains(a.Body, want) {
			t.Errorf("%s: %d %s, want %s in it", path, a.Status, a.Body, want)
		}
	}
}
