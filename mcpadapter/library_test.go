package mcpadapter

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/mcpadapter/internal/content"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/mcpadapter/library"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/build"
	"github.com/fairwayhq/fairway/tools/security"
)

// stationsDocument has an operation of each kind that x-mcp knows.
const stationsDocument = `
openapi: 3.1.0
info: {title: Stations, version: 1.0.0}
x-mcp:
  icons: [{src: "https://example.com/logo.png", mimeType: image/png, sizes: [48x48]}, {src: "javascript:alert(1)"}]
components:
  securitySchemes:
    login:
      type: oauth2
      flows: {authorizationCode: {authorizationUrl: "https://a.test", tokenUrl: "https://a.test", scopes: {read: r, write: w}}}
    key: {type: apiKey, in: header, name: X-Key}
  schemas:
    kind: {type: string, enum: [main, branch]}
paths:
  /stations:
    get:
      operationId: list_stations
      summary: All stations
      description: Lists stations.
      tags: [stations]
      parameters:
        - {name: kind, in: query, schema: {$ref: '#/components/schemas/kind'}}
        - {name: open, in: query, schema: {type: boolean}}
        - {name: limit, in: query, schema: {type: integer}}
      x-mcp: {resource: true}
      responses: {'200': {description: ok, content: {application/json: {}}}}
  /stations/{station-id}:
    get:
      operationId: get_station
      summary: A station
      description: Returns a station.
      tags: [stations]
      parameters: [{name: station-id, in: path, required: true, schema: {type: string}}]
      x-mcp: {resource: true}
      responses: {'200': {description: ok, content: {application/json: {}}}}
  /photos/{id}:
    get:
      operationId: get_photo
      description: Returns a photo.
      parameters: [{name: id, in: path, required: true, schema: {type: integer}}]
      x-mcp: {tool: false, resource: {uri: 'photos://all/{id}.png', name: photo, title: Photo, mimeType: image/png}}
      responses: {'200': {description: ok, content: {image/png: {}}}}
  /notice:
    get:
      operationId: get_notice
      description: Returns a notice.
      x-mcp: {tool: false, resource: {uri: 'notice://today', mimeType: text/plain}}
      responses: {'200': {description: ok, content: {text/plain: {}}}}
  /native:
    get:
      operationId: get_native
      description: Returns contents.
      x-mcp: {tool: false, resource: {uri: 'native://all'}}
      responses: {'200': {description: ok, content: {application/vnd.mcp.result+json: {}}}}
  /secret:
    get:
      operationId: get_secret
      description: Returns a secret.
      security: [{login: [write, read]}, {key: []}]
      x-mcp: {resource: {uri: 'secret://one'}}
      responses: {'200': {description: ok, content: {text/plain: {}}}}
  /greeting:
    get:
      operationId: get_greeting
      description: Makes a greeting.
      parameters:
        - {name: who, in: query, required: true, description: Whom, schema: {type: string}}
        - {name: times, in: query, schema: {type: integer, enum: [1, 2, 3]}}
      x-mcp:
        tool: false
        prompt: {name: greeting, title: Greeting, description: Greets.}
      responses: {'200': {description: ok, content: {text/plain: {}}}}
  /conversation:
    post:
      operationId: make_conversation
      description: Makes a conversation.
      x-mcp: {tool: false, prompt: true}
      responses: {'200': {description: ok, content: {application/vnd.mcp.result+json: {}}}}
  /board:
    get:
      operationId: get_board
      description: Returns the board.
      security: [{}]
      x-mcp:
        icons: [{src: "data:image/png;base64,AAAA", theme: dark}]
        ui: {resourceUri: "ui://board"}
        openai: {outputTemplate: "ui://board", "openai/widgetAccessible": true, widgetAccessible: false}
      responses: {'200': {description: ok, content: {application/json: {}}}}
  /wrong/{id}:
    get:
      operationId: wrong_template
      description: Cannot be a resource.
      parameters: [{name: id, in: path, required: true, schema: {type: string}}]
      x-mcp: {resource: {uri: 'wrong://{other}'}}
      responses: {'200': {description: ok, content: {application/json: {}}}}
    post:
      operationId: wrong_method
      description: Cannot be a resource either.
      parameters: [{name: id, in: path, required: true, schema: {type: string}}]
      x-mcp: {resource: true}
      responses: {'200': {description: ok, content: {application/json: {}}}}
`

func stationTools(t testing.TB) *tools.Toolset {
	t.Helper()
	toolset, err := tools.Build([]byte(stationsDocument), tools.BuildOptions{Name: "trains", Location: "stations.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	return toolset
}

// stationsAPI answers as the API of stationsDocument, with what it was asked.
func stationsAPI(w http.ResponseWriter, r *http.Request) {
	switch path := r.URL.Path; {
	case strings.HasPrefix(path, "/photos/"):
		w.Header().Set("Content-Type", "image/png")
		_, _ = w.Write([]byte("\x89PNG"))
	case path == "/native":
		w.Header().Set("Content-Type", content.NativeType)
		_, _ = w.Write([]byte(`{"contents":[{"uri":"native://1","text":"one"},{"uri":"native://2","blob":"AAEC","mimeType":"image/png"}]}`))
	case path == "/conversation":
		w.Header().Set("Content-Type", content.NativeType)
		_, _ = w.Write([]byte(`{"description":"Native","messages":[{"role":"user","content":{"type":"text","text":"hi"}},{"role":"assistant","content":{"type":"text","text":"ho"}}]}`))
	case path == "/stations/none":
		w.WriteHeader(http.StatusNotFound)
	case path == "/stations/broken":
		w.WriteHeader(http.StatusInternalServerError)
	case path == "/notice" || path == "/greeting":
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "public, max-age=60")
		_, _ = w.Write([]byte("asked " + r.URL.RequestURI() + " in " + r.Header.Get("Accept-Language")))
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"asked":"` + r.URL.RequestURI() + `"}`))
	}
}

// through is a Caller that hands the requests of calls to a handler.
func through(toolset *tools.Toolset, handler http.HandlerFunc) tools.Caller {
	return callerFunc(func(ctx context.Context, t string, arguments []byte) tools.Outcome {
		return tools.Execute(ctx, toolset, t, arguments, invokeFunc(func(ctx context.Context, call *tools.Call) (*tools.Result, error) {
			r, err := call.Request(ctx)
			if err != nil {
				return nil, err
			}
			security.SupplementFromContext(ctx).Apply(r)
			w := httptest.NewRecorder()
			handler(w, r)
			return &tools.Result{Status: w.Code, Header: w.Header(), Body: w.Body.Bytes()}, nil
		}))
	})
}

type invokeFunc func(context.Context, *tools.Call) (*tools.Result, error)

func (f invokeFunc) Invoke(ctx context.Context, call *tools.Call) (*tools.Result, error) {
	return f(ctx, call)
}

// writeFiles makes the files of a folder of the test.
func writeFiles(t testing.TB, files map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for name, blocks := range files {
		path := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(blocks), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func fixturePrompts(t testing.TB) []library.Prompt {
	t.Helper()
	const folder = "../testdata/prompts"
	data, err := os.ReadFile(filepath.Join(folder, "trains.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	prompts, err := library.ReadPrompts(data, func(name string) ([]byte, error) { return os.ReadFile(filepath.Join(folder, name)) })
	if err != nil {
		t.Fatal(err)
	}
	return prompts
}

// stocked returns a server with a library of every kind of thing.
func stocked(t testing.TB, options Options) *Server {
	t.Helper()
	files := writeFiles(t, map[string]string{
		"fares.md":            "# Fares",
		"dot.png":             "\x89PNG",
		"board.html":          "<p>Board</p>",
		"guide/intro.md":      "Intro",
		"guide/deep/a b.txt":  "deep",
		"guide/.hidden":       "hidden",
		"guide/.git/config":   "hidden",
		"guide/data.bin":      "\xff\x00",
		"guide/unknownformat": "text",
	})
	border := true
	lib, err := library.NewLibrary(library.LibraryOptions{
		Resources: []library.Resource{
			{URI: "docs:///fares", File: filepath.Join(files, "fares.md"), Title: "Fares", Description: "All fares", Icons: []content.Icon{{Source: "https://example.com/f.png"}}},
			{URI: "docs:///dot.png", File: filepath.Join(files, "dot.png"), Name: "dot"},
			{URI: "docs:///gone", File: filepath.Join(files, "gone.md")},
		},
		Folders: []library.Folder{{Path: filepath.Join(files, "guide"), Prefix: "guide://all"}},
		Apps: []library.App{{
			URI: "ui://trains/board.html", File: filepath.Join(files, "board.html"), Description: "Shows stations", Tools: []string{"list_stations"},
			ConnectDomains: []string{"https://api.example.com"}, ResourceDomains: []string{"https://cdn.example.com"},
			Domain: "https://app.example.com", PrefersBorder: &border,
			Invoking: "Looking", Invoked: "Found", WidgetAccessible: true, Visibility: []string{"app"},
		}},
		Prompts: fixturePrompts(t),
		Locales: []string{"en", "de", "pt-BR"},
		Hints:   library.Hints{UserAgent: "x-client", Location: "X-Place"},
	})
	if err != nil {
		t.Fatal(err)
	}
	server := New(options)
	server.SetLibrary(lib)
	return server
}

// shelved is a request to a stocked server.
func shelved(t testing.TB, server *Server, v protocol.Revision, method, params string) testRequest {
	r := conformant(v, method, params)
	var p struct{ Name, URI string }
	if v.Stateless() && json.Unmarshal([]byte("{"+params+"}"), &p) == nil && methods[method].name != "" {
		r.header[nameHeader] = p.Name + p.URI
	}
	r.server, r.tools = server, stationTools(t)
	r.caller = through(r.tools, stationsAPI)
	return r
}

func TestCapabilities_are_those_of_the_revision(t *testing.T) {
	server := stocked(t, Options{})
	for _, v := range revisions {
		t.Run(v.String(), func(t *testing.T) {
			var got struct {
				Capabilities struct {
					Resources   struct{ Subscribe, ListChanged bool }
					Prompts     struct{ ListChanged bool }
					Completions *struct{}
					Extensions  map[string]any
				}
			}
			if v.Stateless() {
				shelved(t, server, v, "server/discover", "").result(t, "DiscoverResult", &got)
			} else {
				params := `"protocolVersion":"` + v.String() + `","capabilities":{},"clientInfo":{"name":"x","version":"1"}`
				shelved(t, server, v, "initialize", params).result(t, "InitializeResult", &got)
			}
			c := got.Capabilities
			if !c.Resources.Subscribe || !c.Resources.ListChanged || !c.Prompts.ListChanged {
				t.Errorf("got %+v", c)
			}
			if (c.Completions != nil) != (v >= protocol.V20250326) || (c.Extensions != nil) != (v >= protocol.V20260728) {
				t.Errorf("got %+v", c)
			}
		})
	}
}

func TestLists_without_a_library(t *testing.T) {
	for _, v := range revisions {
		for method, definition := range map[string]string{
			"resources/list": "ListResourcesResult", "resources/templates/list": "ListResourceTemplatesResult", "prompts/list": "ListPromptsResult",
		} {
			var got struct {
				Resources, ResourceTemplates, Prompts []any
			}
			conformant(v, method, "").result(t, definition, &got)
			if len(got.Resources)+len(got.ResourceTemplates)+len(got.Prompts) != 0 {
				t.Errorf("%v %s: %+v", v, method, got)
			}
		}
	}
}

func TestDocumentWarnings(t *testing.T) {
	server := stocked(t, Options{})
	var reasons []string
	for _, w := range server.Warnings(stationTools(t)) {
		reasons = append(reasons, w.Operation+": "+w.Reason)
	}
	all := strings.Join(reasons, "\n")
	for _, want := range []string{
		"GET /wrong/{id}: x-mcp: uri variable other",
		"POST /wrong/{id}: x-mcp: GET resource",
		": x-mcp: icons[1] src",
		"GET /board: x-mcp: ui.resourceUri: ui://board",
		"GET /board: x-mcp: openai.outputTemplate: ui://board",
		"GET /board: x-mcp: openai.widgetAccessible twice",
	} {
		if !anyHas(reasons, want) {
			t.Errorf("no warning has the words %s:\n%s", want, all)
		}
	}
	if len(reasons) != 6 {
		t.Errorf("%d warnings:\n%s", len(reasons), all)
	}
	if warnings := server.Warnings(tools.NewToolset("x", nil)); len(warnings) != 1 || !testkit.ContainsAll(warnings[0].Reason, "list_stations") {
		t.Errorf("of an app without its tool: %v", warnings)
	}
}

func TestNewLibrary_invalid(t *testing.T) {
	file := filepath.Join(writeFiles(t, map[string]string{"a.html": "x"}), "a.html")
	message := []library.PromptMessage{{Role: "user", Content: library.PromptContent{Type: "text"}}}
	for rule, c := range map[string]struct {
		options library.LibraryOptions
		want    string
	}{
		"uri":            {library.LibraryOptions{Resources: []library.Resource{{URI: "no uri", File: file}}}, "URI %"},
		"scheme":         {library.LibraryOptions{Resources: []library.Resource{{URI: "/fares", File: file}}}, "scheme"},
		"template":       {library.LibraryOptions{Resources: []library.Resource{{URI: "docs:///{id}", File: file}}}, "URI {variables}"},
		"no-file":        {library.LibraryOptions{Resources: []library.Resource{{URI: "docs:///a"}}}, "docs:///a file"},
		"twice":          {library.LibraryOptions{Resources: []library.Resource{{URI: "docs:///a", File: file}, {URI: "docs:///a", File: file}}}, "docs:///a twice"},
		"icon":           {library.LibraryOptions{Resources: []library.Resource{{URI: "docs:///a", File: file, Icons: []content.Icon{{Source: "javascript:x"}}}}}, "icon"},
		"no-folder":      {library.LibraryOptions{Folders: []library.Folder{{Path: file + "x"}}}, "folder a.htmlx"},
		"folder-is-file": {library.LibraryOptions{Folders: []library.Folder{{Path: file}}}, "folder a.html"},
		"app-uri":        {library.LibraryOptions{Apps: []library.App{{URI: "https://a", File: file}}}, "ui://"},
		"app-origin":     {library.LibraryOptions{Apps: []library.App{{URI: "ui://a", File: file, ConnectDomains: []string{"cdn.example.com"}}}}, "cdn.example.com origin"},
		"app-injection":  {library.LibraryOptions{Apps: []library.App{{URI: "ui://a", File: file, ResourceDomains: []string{"https://a;script-src *"}}}}, "script-src origin"},
		"app-visibility": {library.LibraryOptions{Apps: []library.App{{URI: "ui://a", File: file, Visibility: []string{"all"}}}}, "visibility"},
		"app-twice":      {library.LibraryOptions{Apps: []library.App{{URI: "ui://a", File: file, Tools: []string{"x"}}, {URI: "ui://b", File: file, Tools: []string{"x"}}}}, "ui://a ui://b tool x"},
		"prompt-twice":   {library.LibraryOptions{Prompts: []library.Prompt{{Name: "a", Messages: message}, {Name: "a", Messages: message}}}, "prompt twice"},
		"locale":         {library.LibraryOptions{Locales: []string{"english please"}}, "locale english"},
		"hint":           {library.LibraryOptions{Hints: library.Hints{UserAgent: "authorization"}}, "hint authorization"},
		"hint-name":      {library.LibraryOptions{Hints: library.Hints{Location: "a b"}}, "hint name"},
		"hints-same":     {library.LibraryOptions{Hints: library.Hints{Location: "x-a", UserAgent: "X-A"}}, "hint same"},
		"selector":       {library.LibraryOptions{Operations: []build.Selector{{By: "label", Value: "x"}}}, "selector"},
	} {
		t.Run(rule, func(t *testing.T) {
			if _, err := library.NewLibrary(c.options); err == nil || !testkit.ContainsAll(err.Error(), c.want) {
				t.Errorf("got %v, want the words %s", err, c.want)
			}
		})
	}
}

func TestSetLibrary_replaces(t *testing.T) {
	server := stocked(t, Options{})
	count := func() int {
		var got struct{ Prompts []any }
		shelved(t, server, protocol.V20251125, "prompts/list", "").result(t, "ListPromptsResult", &got)
		return len(got.Prompts)
	}
	before := count()
	server.SetLibrary(nil)
	if after := count(); before != 5 || after != 2 {
		t.Errorf("%d prompts, then %d", before, after)
	}
}

func TestChanges(t *testing.T) {
	server := New(Options{})
	before := stationTools(t)
	buildSet := func(old, text string) *tools.Toolset {
		toolset, err := tools.Build([]byte(strings.ReplaceAll(stationsDocument, old, text)), tools.BuildOptions{Name: "trains"})
		if err != nil {
			t.Fatal(err)
		}
		return toolset
	}
	for rule, c := range map[string]struct {
		old, text string
		want      Change
	}{
		"nothing":  {"title: Stations", "title: Stops", 0},
		"prompt":   {"description: Greets.", "description: Greets all.", PromptsChanged},
		"resource": {"title: Photo", "title: Picture", ResourcesChanged},
		"tool":     {"Returns the board.", "Shows the board.", ToolsChanged},
		"both":     {"Lists stations.", "Lists all.", ToolsChanged | ResourcesChanged},
	} {
		t.Run(rule, func(t *testing.T) {
			if got := server.Changes(before, buildSet(c.old, c.text)); got != c.want {
				t.Errorf("got %b, want %b", got, c.want)
			}
		})
	}
}
