package otcadapter

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/fairwayhq/fairway/tools"
)

// getTools requests the list of definitions.
func getTools(s *Server, method string, toolset *tools.Toolset, ifNoneMatch string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(method, "/otc/tools", http.NoBody)
	if ifNoneMatch != "" {
		request.Header.Set("If-None-Match", ifNoneMatch)
	}
	recorder := httptest.NewRecorder()
	s.ServeHTTP(recorder, request, "/tools", siteOf(toolset, nil))
	return recorder
}

func TestTools_entity_tag(t *testing.T) {
	s, toolset := New(Options{}), calculator()
	whole := getTools(s, "GET", toolset, "")
	tag := whole.Header().Get("Etag")
	if whole.Code != 200 || len(tag) < 10 || tag[0] != '"' {
		t.Fatalf("status %d, ETag %q, want a strong one", whole.Code, tag)
	}
	if again := getTools(New(Options{}), "GET", calculator(), "").Header().Get("Etag"); again != tag {
		t.Errorf("the same definitions of another server have the ETag %s, want %s", again, tag)
	}
	for _, c := range []struct {
		rule, method, known string
		status              int
	}{
		{"the known tag", "GET", tag, 304},
		{"one of the known tags", "GET", `"other", ` + tag, 304},
		{"a weak form of it", "GET", "W/" + tag, 304},
		{"any", "GET", "*", 304},
		{"HEAD", "HEAD", tag, 304},
		{"HEAD without a tag", "HEAD", "", 200},
		{"another tag", "GET", `"other"`, 200},
	} {
		t.Run(c.rule, func(t *testing.T) {
			got := getTools(s, c.method, toolset, c.known)
			if got.Code != c.status || got.Header().Get("Etag") != tag {
				t.Errorf("status %d, ETag %s, want %d and %s", got.Code, got.Header().Get("Etag"), c.status, tag)
			}
			if c.status == 304 && got.Body.Len() > 0 {
				t.Errorf("304 has a body: %.100s", got.Body)
			}
		})
	}
	changed := calculator()
	changed.Tools()[0].Definition.Description = "Another one."
	if got := getTools(s, "GET", changed, tag); got.Code != 200 || got.Header().Get("Etag") == tag {
		t.Errorf("other definitions: status %d, ETag %s", got.Code, got.Header().Get("Etag"))
	}
}
