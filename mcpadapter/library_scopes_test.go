package mcpadapter

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/mcpadapter/library"
)

// TestLibrary_scopes lists and reads files and prompts that need scopes, with different tokens.
func TestLibrary_scopes(t *testing.T) {
	files := writeFiles(t, map[string]string{"plan.md": "plan", "open.md": "open", "board/minutes.md": "minutes"})
	prompts, err := library.ReadPrompts([]byte(`
- {name: budget, scopes: [board, finance], messages: [{role: user, content: Spend it}]}
- {name: quote, messages: [{role: user, content: {type: resource, resource: {uri: "docs:///plan"}}}]}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	lib, err := library.NewLibrary(library.LibraryOptions{
		Resources: []library.Resource{
			{URI: "docs:///plan", File: filepath.Join(files, "plan.md"), Scopes: []string{"board", "finance"}},
			{URI: "docs:///open", File: filepath.Join(files, "open.md")},
		},
		Folders: []library.Folder{{Path: filepath.Join(files, "board"), Prefix: "board:///", Scopes: []string{"board", "finance"}}},
		Prompts: prompts,
	})
	if err != nil {
		t.Fatal(err)
	}
	server := New(Options{})
	server.SetLibrary(lib)
	send := func(access *Access, method, params string) *httptest.ResponseRecorder {
		r := shelved(t, server, protocol.V20251125, method, params)
		post := httptest.NewRequest(http.MethodPost, "http://api.example.com/mcp", strings.NewReader(r.body))
		post.Header.Set("Content-Type", "application/json")
		post.Header.Set(versionHeader, protocol.V20251125.String())
		site := siteOf(r.tools, r.caller)
		site.Access = access
		w := httptest.NewRecorder()
		server.ServeHTTP(w, post, site)
		return w
	}
	const (
		challenge = `Bearer error="insufficient_scope", scope="board finance`
		metadata  = `, resource_metadata="https://a.example/meta"`
	)
	for rule, c := range map[string]struct {
		access    *Access
		challenge string // "" if the token suffices
	}{
		"all scopes":                {&Access{Scopes: []string{"board", "finance"}}, ""},
		"one is missing":            {&Access{Scopes: []string{"board", "x"}, Metadata: "https://a.example/meta"}, challenge + ` x"` + metadata},
		"included, but not granted": {&Access{Scopes: []string{"board", "all"}, Granted: []string{"all"}}, challenge + ` all"`},
		"scopes of tools are off":   {&Access{AllTools: true, Metadata: "https://a.example/meta"}, challenge + `"` + metadata},
		"no token":                  {nil, challenge + `"`},
	} {
		t.Run(rule, func(t *testing.T) {
			for _, request := range []struct{ method, params, list, listed string }{
				{"resources/read", `"uri":"docs:///plan"`, "resources/list", "docs:///plan"},
				{"resources/read", `"uri":"board:///minutes.md"`, "resources/list", "board:///minutes.md"},
				{"resources/read", `"uri":"board:///minutes.md"`, "resources/templates/list", "board:///"},
				{"prompts/get", `"name":"budget"`, "prompts/list", "budget"},
				{"prompts/get", `"name":"quote"`, "", ""}, // it contains docs:///plan
			} {
				w := send(c.access, request.method, request.params)
				status := map[bool]int{true: http.StatusOK, false: http.StatusForbidden}[c.challenge == ""]
				if w.Code != status || w.Header().Get("Www-Authenticate") != c.challenge || status == http.StatusOK && strings.Contains(w.Body.String(), `"error"`) {
					t.Errorf("%s %s: got %d %q %s; want %d %q", request.method, request.params, w.Code, w.Header().Get("Www-Authenticate"), w.Body, status, c.challenge)
				}
				if request.list == "" {
					continue
				}
				if list := send(c.access, request.list, "").Body.String(); strings.Contains(list, request.listed) != (c.challenge == "") {
					t.Errorf("%s: %s", request.list, list)
				}
			}
			if w := send(c.access, "resources/read", `"uri":"docs:///open"`); w.Code != http.StatusOK {
				t.Errorf("a file without scopes: got %d", w.Code)
			}
			completion := send(c.access, "completion/complete", `"ref":{"type":"ref/resource","uri":"board:///{+path}"},"argument":{"name":"path","value":""}`).Body.String()
			if strings.Contains(completion, "minutes") != (c.challenge == "") {
				t.Errorf("completion: %s", completion)
			}
		})
	}
}

func TestLibrary_invalid_scopes(t *testing.T) {
	file := filepath.Join(writeFiles(t, map[string]string{"a.md": "a"}), "a.md")
	for rule, o := range map[string]library.LibraryOptions{
		"resource": {Resources: []library.Resource{{URI: "docs:a", File: file, Scopes: []string{"a b"}}}},
		"folder":   {Folders: []library.Folder{{Path: filepath.Dir(file), Scopes: []string{`"`}}}},
		"prompt":   {Prompts: []library.Prompt{{Name: "p", Messages: []library.PromptMessage{{Role: "user", Content: library.PromptContent{Type: "text"}}}, Scopes: []string{""}}}},
	} {
		if _, err := library.NewLibrary(o); err == nil || !strings.Contains(err.Error(), "is not a scope") {
			t.Errorf("%s: %v", rule, err)
		}
	}
}
