package otcadapter

import (
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/toolsearch"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// listPartOf requests a part of the list.
func listPartOf(t *testing.T, s *Server, tools *tool.Toolset, query string) answer {
	t.Helper()
	recorder := httptest.NewRecorder()
	s.ServeHTTP(recorder, httptest.NewRequest("GET", "/otc/tools"+query, nil), "/tools", siteOf(tools, nil))
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
	s, tools := New(Options{}), calculator()
	whole := list(t, s, tools).json()
	for _, limit := range []string{"1", "2", "4", "5", "100"} {
		var otc, oxp []any
		pages := 0
		for query := "?limit=" + limit; query != ""; pages++ {
			page := listPartOf(t, s, tools, query)
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
	tools := calculator()
	tools.Finder = toolsearch.NewFinder(tools.Tools())
	found := listPartOf(t, New(Options{}), tools, "?query=add+numbers&limit=1").json()
	otc, oxp := found["tools"].([]any), found["items"].([]any)
	if len(otc) != 1 || len(oxp) != 1 || otc[0].(map[string]any)["name"] != "Add" || oxp[0].(map[string]any)["name"] != "Add" {
		t.Errorf("got %v, want the tool Add in both forms", found)
	}
	if none := listPartOf(t, New(Options{}), tools, "?query=xyzzy").json(); len(none["tools"].([]any)) != 0 {
		t.Errorf("a query that fits nothing finds %v", none)
	}
}

func TestTools_wrong_parts(t *testing.T) {
	s, tools := New(Options{}), calculator()
	cursor := nextPage(listPartOf(t, s, tools, "?limit=2"))
	changed := calculator()
	changed.Tools()[0].Description = "Another one."
	for _, c := range []struct {
		rule, query, word string
		tools             *tool.Toolset
	}{
		{"limit of nothing", "?limit=0", "limit", tools},
		{"no number", "?limit=many", "limit", tools},
		{"limit of too much", "?limit=1001", "limit", tools},
		{"limit of too much for a query", "?query=add&limit=101", "limit", tools},
		{"limit twice", "?limit=1&limit=2", "limit", tools},
		{"empty query", "?query=+", "query", tools},
		{"long query", "?query=" + strings.Repeat("a", maxQuery+1), "query", tools},
		{"query and cursor", "?query=add&cursor=x", "cursor", tools},
		{"made-up cursor", "?cursor=eHl6enk", "cursor", tools},
		{"cursor that is no base64", "?cursor=%21", "cursor", tools},
		{"cursor of another list", cursor, "cursor", changed},
		{"query that cannot be read", "?limit=%zz", "query", tools},
	} {
		got := listPartOf(t, s, c.tools, c.query)
		if message, _ := got.json()["message"].(string); got.Code != 400 || !strings.Contains(message, c.word) {
			t.Errorf("%s: got %d %q, want 400 with the word %s", c.rule, got.Code, message, c.word)
		}
	}
	if got := listPartOf(t, s, tools, "?unknown=1"); got.Code != 200 || got.Header().Get("Etag") == "" {
		t.Errorf("an unknown parameter: got %d, want the whole list", got.Code)
	}
}
