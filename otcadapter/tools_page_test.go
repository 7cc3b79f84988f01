package otcadapter

import (
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/search"
)

// listPartOf requests a part of the list.
func listPartOf(t *testing.T, s *Server, toolset *tools.Toolset, query string) answer {
	t.Helper()
	recorder := httptest.NewRecorder()
	s.ServeHTTP(recorder, httptest.NewRequest("GET", "/otc/tools"+query, nil), "/tools", siteOf(toolset, nil))
	return answer{recorder, t}
}

// nextPage returns the query of the next page, "" if there is none.
func nextPage(a answer) string {
	link, found := strings.CutSuffix(a.Header().Get("Link"), `>; rel="next"`)
	if !found {
		return ""
	}
	return strings.TrimPrefix(link, "<")
}

func TestTools_pages(t *testing.T) {
	s, toolset := New(Options{}), calculator()
	whole := list(t, s, toolset).json()
	for _, limit := range []string{"1", "2", "4", "5", "100"} {
		var otc, oxp []any
		pages := 0
		for query := "?limit=" + limit; query != ""; pages++ {
			page := listPartOf(t, s, toolset, query)
			members := page.json()
			otc, oxp = append(otc, members["tools"].([]any)...), append(oxp, members["items"].([]any)...)
			query = nextPage(page)
		}
		if !reflect.DeepEqual(otc, whole["tools"]) || !reflect.DeepEqual(oxp, whole["items"]) {
			t.Errorf("limit %s: %d pages differ from the whole list", limit, pages)
		}
	}
}

func TestTools_query(t *testing.T) {
	toolset := calculator()
	toolset.Finder = search.NewFinder(toolset.Tools())
	found := listPartOf(t, New(Options{}), toolset, "?query=add+numbers&limit=1").json()
	otc, oxp := found["tools"].([]any), found["items"].([]any)
	if len(otc) != 1 || len(oxp) != 1 {
		t.Fatalf("got %v, want one tool in both forms", found)
	}
	if a, b := otc[0].(map[string]any)["name"], oxp[0].(map[string]any)["name"]; a != "Add" || b != "Add" {
		t.Errorf("got the tools %v and %v, want Add in both forms", a, b)
	}
	if none := listPartOf(t, New(Options{}), toolset, "?query=xyzzy").json(); len(none["tools"].([]any)) != 0 {
		t.Errorf("a query that fits nothing finds %v", none)
	}
}

func TestTools_wrong_parts(t *testing.T) {
	s, toolset := New(Options{}), calculator()
	cursor := nextPage(listPartOf(t, s, toolset, "?limit=2"))
	changed := calculator()
	changed.Tools()[0].Definition.Description = "Another one."
	for _, c := range []struct {
		rule, query, word string
		tools             *tools.Toolset
	}{
		{"limit of nothing", "?limit=0", "limit", toolset},
		{"no number", "?limit=many", "limit", toolset},
		{"limit of too much", "?limit=1001", "limit", toolset},
		{"limit of too much for a query", "?query=add&limit=101", "limit", toolset},
		{"limit twice", "?limit=1&limit=2", "limit", toolset},
		{"empty query", "?query=+", "query", toolset},
		{"long query", "?query=" + strings.Repeat("a", maxQuery+1), "query", toolset},
		{"query and cursor", "?query=add&cursor=x", "cursor", toolset},
		{"made-up cursor", "?cursor=eHl6enk", "cursor", toolset},
		{"cursor that is no base64", "?cursor=%21", "cursor", toolset},
		{"cursor of another list", cursor, "cursor", changed},
		{"query that cannot be read", "?limit=%zz", "query", toolset},
	} {
		got := listPartOf(t, s, c.tools, c.query)
		if message, _ := got.json()["message"].(string); got.Code != 400 || !strings.Contains(message, c.word) {
			t.Errorf("%s: got %d %q, want 400 with the word %s", c.rule, got.Code, message, c.word)
		}
	}
	if got := listPartOf(t, s, toolset, "?unknown=1"); got.Code != 200 || got.Header().Get("Etag") == "" {
		t.Errorf("an unknown parameter: got %d, want the whole list", got.Code)
	}
}
