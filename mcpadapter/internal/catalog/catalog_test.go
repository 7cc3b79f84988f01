package catalog

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/mcpadapter/library"
	"github.com/fairwayhq/fairway/tools"
)

// document has a tool for each kind of security requirement.
const document = `{"openapi":"3.1.0","info":{"title":"Trains & Co.","version":"1.2","description":"Books trains."},
	"components":{"securitySchemes":{
		"login":{"type":"oauth2","flows":{"clientCredentials":{"tokenUrl":"https://login.example.com","scopes":{"read":"","write":""}}}},
		"key":{"type":"apiKey","in":"header","name":"X-Key"}}},
	"paths":{"/trips":{
		"get":{"operationId":"list"},
		"post":{"operationId":"book","security":[{"login":["write","read"]}]},
		"put":{"operationId":"either","security":[{},{"login":["read"]},{"login":["read"]}]},
		"patch":{"operationId":"keyed","security":[{"key":[]}]},
		"delete":{"operationId":"both","security":[{"login":["write"],"key":[]}]}}}}`

func toolset(t *testing.T, text string) *tools.Toolset {
	t.Helper()
	set, err := tools.Build([]byte(text), tools.BuildOptions{Name: "trains"})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func newLibrary(t *testing.T) *library.Library {
	t.Helper()
	l, err := library.NewLibrary(library.LibraryOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestCache_shares_catalogs_of_equal_callers(t *testing.T) {
	cache, set, lib := NewCache(Options{}), toolset(t, document), newLibrary(t)
	access := func(scopes ...string) *tools.Access { return &tools.Access{Scopes: scopes} }
	first := cache.Restricted(set, lib, access("read", "write"), nil)
	for name, c := range map[string]struct {
		same bool
		got  *Catalog
	}{
		"the same scopes in another order": {true, cache.Restricted(set, lib, access("write", "read", "read"), nil)},
		"other scopes":                     {false, cache.Restricted(set, lib, access("read"), nil)},
		"no token":                         {false, cache.Restricted(set, lib, nil, &Login{OAuth: true})},
		"another login":                    {false, cache.Restricted(set, lib, access("read", "write"), &Login{OAuth: true})},
		"no caller":                        {false, cache.Shared(set, lib)},
		"another toolset":                  {false, cache.Restricted(toolset(t, document), lib, access("read", "write"), nil)},
	} {
		if (c.got == first) != c.same {
			t.Errorf("%s: the same catalog: %t, want %t", name, c.got == first, c.same)
		}
	}
	if once, again := cache.Shared(set, lib), cache.Shared(set, lib); once != again {
		t.Error("the shared catalog is made for each request")
	}
}

func TestCache_is_bounded(t *testing.T) {
	cache, set, lib := NewCache(Options{}), toolset(t, document), newLibrary(t)
	for i := range 3 * maxRestricted {
		cache.Restricted(set, lib, &tools.Access{Scopes: []string{fmt.Sprint("scope", i)}}, nil)
	}
	if n := len(cache.whole.byKey); n != maxRestricted {
		t.Errorf("%d catalogs are kept, want %d", n, maxRestricted)
	}
}

func TestCatalog_lists_what_the_token_allows(t *testing.T) {
	set, lib := toolset(t, document), newLibrary(t)
	for scopes, want := range map[string]string{"": "list either keyed", "read": "list either keyed", "write": "list either keyed both", "read write": "list book either keyed both"} {
		c := New(&Options{}, set, lib, &tools.Access{Scopes: strings.Fields(scopes)}, nil)
		var names []string
		for _, tool := range c.Visible {
			names = append(names, tool.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("scopes %q: got %s, want %s", scopes, got, want)
		}
		if !strings.Contains(string(c.Fresh), `"private"`) {
			t.Errorf("scopes %q: a list that depends on the token may be shared: %s", scopes, c.Fresh)
		}
	}
}

func TestCatalog_pages_name_the_next_one(t *testing.T) {
	lib := newLibrary(t)
	c := New(&Options{PageSize: 2, PublicLists: true, ListTTL: time.Minute}, toolset(t, document), lib, nil, nil)
	pages := c.Pages(protocol.V20251125)
	if len(pages) != 3 || string(c.Fresh) != `"ttlMs":60000,"cacheScope":"public"` {
		t.Fatalf("%d pages of 5 tools, freshness %s", len(pages), c.Fresh)
	}
	for i, page := range pages {
		_, after, more := strings.Cut(string(page), `"nextCursor":"`)
		cursor, _, _ := strings.Cut(after, `"`)
		if more != (i < 2) {
			t.Errorf("page %d: %s", i, page)
		}
		if next, ok := PageOf(c.Stamp, cursor); more && (!ok || next != i+1) {
			t.Errorf("the cursor of page %d is of page %d (%t)", i, next, ok)
		}
	}
	other := New(&Options{PageSize: 3}, c.Tools, lib, nil, nil)
	for _, cursor := range []string{Cursor(other.Stamp, 1), "", "x", "****", Cursor(c.Stamp, 1) + "AAAA"} {
		if page, ok := PageOf(c.Stamp, cursor); ok {
			t.Errorf("the cursor %q of another list is taken as page %d", cursor, page)
		}
	}
}

func TestSecuritySchemes_say_which_token_a_call_needs(t *testing.T) {
	set := toolset(t, document)
	withoutOAuth := toolset(t, strings.ReplaceAll(document, `"oauth2"`, `"http"`))
	for _, c := range []struct {
		tool  string
		login *Login
		want  string
	}{
		{"list", nil, `[{"type":"noauth"}]`},
		{"book", nil, `[{"type":"oauth2","scopes":["read","write"]}]`},
		{"either", nil, `[{"type":"noauth"},{"type":"oauth2","scopes":["read"]}]`},
		{"keyed", nil, ``},
		{"both", nil, `[{"type":"oauth2","scopes":["write"]}]`},
		{"list", &Login{OAuth: true, Scopes: []string{"use"}}, `[{"type":"oauth2","scopes":["use"]}]`},
		{"book", &Login{OAuth: true, Scopes: []string{"use", "read"}}, `[{"type":"oauth2","scopes":["read","use","write"]}]`},
		{"keyed", &Login{OAuth: true}, `[{"type":"oauth2"}]`},
		{"book", &Login{}, ``}, // the site takes API keys only
	} {
		tool, ok := set.Tool(c.tool)
		if !ok {
			t.Fatalf("no tool %s", c.tool)
		}
		if got := string(securitySchemes(tool, set, c.login, false)); got != c.want {
			t.Errorf("%s with login %+v: got %s, want %s", c.tool, c.login, got, c.want)
		}
	}
	if tool, _ := withoutOAuth.Tool("list"); securitySchemes(tool, withoutOAuth, nil, false) != nil {
		t.Error("a document without OAuth has securitySchemes")
	}
}

func TestIdentity_comes_from_the_options_or_the_document(t *testing.T) {
	set, lib := toolset(t, document), newLibrary(t)
	for _, c := range []struct {
		options  Options
		revision protocol.Revision
		want     string
	}{
		{Options{}, protocol.V20241105, `{"name":"trains-co","version":"1.2"}`},
		{Options{}, protocol.V20251125, `{"name":"trains-co","title":"Trains & Co.","version":"1.2"}`},
		{Options{Name: "n", Title: "T", Version: "3"}, protocol.V20251125, `{"name":"n","title":"T","version":"3"}`},
	} {
		if got := string(New(&c.options, set, lib, nil, nil).AppendIdentity(nil, c.revision)); got != c.want {
			t.Errorf("%s: got %s, want %s", c.revision, got, c.want)
		}
	}
	if got := string(New(&Options{}, set, lib, nil, nil).AppendInstructions(nil)); got != `,"instructions":"Books trains."` {
		t.Errorf("instructions %s", got)
	}
	for title, want := range map[string]string{
		"": "", "§§": "", "  A  b!": "a-b", "Zürich API v2": "z-rich-api-v2", strings.Repeat("ab ", 100): strings.Repeat("ab-", 21) + "a",
	} {
		if got := nameOfTitle(title); got != want {
			t.Errorf("title %.20q: got %s, want %s", title, got, want)
		}
	}
}

func TestCallable_finds_tools_by_their_encoded_name(t *testing.T) {
	c := New(&Options{}, toolset(t, document), newLibrary(t), nil, nil)
	for raw, want := range map[string]string{`"book"`: "book", `"b\u006fok"`: "book", `"other"`: "", `"Book"`: ""} {
		found, name := c.CallableNamed([]byte(raw))
		if (found == nil) != (want == "") || found != nil && (name != want || found.Tool.Name != want || !found.Plain) {
			t.Errorf("%s: got %+v named %s, want %q", raw, found, name, want)
		}
	}
}

func TestCatalog_lists_without_a_document_are_not_cached(t *testing.T) {
	trains := toolset(t, document)
	var names []string
	for _, tool := range trains.Tools() {
		names = append(names, tool.Name)
	}
	for want, parts := range map[string][]*tools.Toolset{`"ttlMs":60000,`: {trains}, `"ttlMs":0,`: {trains, nil}} {
		joined := tools.Join(parts, [][]string{names, nil}[:len(parts)])
		c := New(&Options{ListTTL: time.Minute}, joined, newLibrary(t), nil, nil)
		if !strings.HasPrefix(string(c.Fresh), want) {
			t.Errorf("lists of %d documents have %s; want %s", len(parts), c.Fresh, want)
		}
	}
}
