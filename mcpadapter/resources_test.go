package mcpadapter

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/mcpadapter/library"
	"github.com/fairwayhq/fairway/tools"
)

type listedResource struct {
	URI, URITemplate, Name, Title, Description, MIMEType string
	Size                                                 *int64
	Annotations                                          struct{ LastModified string }
	Icons                                                []any
	Meta                                                 map[string]any `json:"_meta"`
}

type resourceList struct {
	Resources, ResourceTemplates []listedResource
	NextCursor                   string
	TTLMS                        *int64 `json:"ttlMs"`
	CacheScope                   string
}

func TestResources_are_listed(t *testing.T) {
	server := stocked(t, Options{})
	for _, v := range revisions {
		t.Run(v.String(), func(t *testing.T) {
			var got resourceList
			shelved(t, server, v, "resources/list", "").result(t, "ListResourcesResult", &got)
			byURI := make(map[string]listedResource)
			var uris []string
			for _, r := range got.Resources {
				byURI[r.URI] = r
				uris = append(uris, r.URI)
			}
			want := "docs:///fares docs:///dot.png docs:///gone ui://trains/board.html ui://trains/board.skybridge.html " +
				"trains:///stations notice://today native://all secret://one " +
				"guide://all/data.bin guide://all/deep/a%20b.txt guide://all/intro.md guide://all/unknownformat"
			if all := strings.Join(uris, " "); all != want {
				t.Errorf("got  %s\nwant %s", all, want)
			}
			fares, intro := byURI["docs:///fares"], byURI["guide://all/intro.md"]
			if got, want := [...]string{fares.Name, fares.MIMEType, fares.Description}, [...]string{"fares", "text/markdown", "All fares"}; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			if got, want := [...]bool{fares.Title == "Fares", len(fares.Icons) == 1}, [...]bool{v >= protocol.V20250618, v >= protocol.V20251125}; got != want {
				t.Errorf("title and icon: got %t, want %t: %+v", got, want, fares)
			}
			if intro.Size == nil || *intro.Size != 5 || (intro.Annotations.LastModified != "") != (v >= protocol.V20250618) {
				t.Errorf("got %+v", intro)
			}
			if app := byURI["ui://trains/board.html"]; app.MIMEType != "text/html;profile=mcp-app" || (app.Meta["ui"] != nil) != (v >= protocol.V20250618) {
				t.Errorf("got %+v", app)
			}
			if (got.TTLMS != nil && got.CacheScope == "private") != v.Stateless() {
				t.Errorf("may be kept for %v by %q", got.TTLMS, got.CacheScope)
			}
		})
	}
}

func TestTemplates_are_listed(t *testing.T) {
	server := stocked(t, Options{})
	for _, v := range revisions {
		var got resourceList
		shelved(t, server, v, "resources/templates/list", "").result(t, "ListResourceTemplatesResult", &got)
		var templates []string
		for _, r := range got.ResourceTemplates {
			templates = append(templates, r.URITemplate)
		}
		want := "guide://all/{+path} trains:///stations{?kind,open,limit} trains:///stations/{station_id} photos://all/{id}.png"
		if all := strings.Join(templates, " "); all != want {
			t.Errorf("got  %s\nwant %s", all, want)
		}
	}
}

type readAnswer struct {
	Contents []struct {
		URI, MIMEType string
		Text          *string
		Blob          *string
		Meta          map[string]any `json:"_meta"`
	}
	TTLMS      *int64 `json:"ttlMs"`
	CacheScope string
	ResultType string
}

func TestResources_are_read(t *testing.T) {
	server := stocked(t, Options{})
	png := base64.StdEncoding.EncodeToString([]byte("\x89PNG"))
	for _, c := range []struct{ uri, mime, text, blob string }{
		{"docs:///fares", "text/markdown", "# Fares", ""},
		{"docs:///dot.png", "image/png", "", png},
		{"guide://all/intro.md", "text/markdown", "Intro", ""},
		{"guide://all/deep/a%20b.txt", "text/plain", "deep", ""},
		{"guide://all/deep%2Fa%20b.txt", "text/plain", "deep", ""},
		{"guide://all/data.bin", "application/octet-stream", "", base64.StdEncoding.EncodeToString([]byte("\xff\x00"))},
		{"guide://all/unknownformat", "text/plain", "text", ""},
		{"ui://trains/board.html", "text/html;profile=mcp-app", "<p>Board</p>", ""},
		{"ui://trains/board.skybridge.html", "text/html+skybridge", "<p>Board</p>", ""},
		{"notice://today", "text/plain", "asked /notice in ", ""},
		{"trains:///stations", "application/json", `{"asked":"/stations"}`, ""},
		{"trains:///stations?limit=5&open=true", "application/json", `{"asked":"/stations?open=true&limit=5"}`, ""},
		{"trains:///stations/a%2Fb%20c", "application/json", `{"asked":"/stations/a%2Fb%20c"}`, ""},
		{"photos://all/7.png", "image/png", "", png},
	} {
		for _, v := range revisions {
			t.Run(v.String()+" "+c.uri, func(t *testing.T) {
				var got readAnswer
				shelved(t, server, v, "resources/read", `"uri":"`+c.uri+`"`).result(t, "ReadResourceResult", &got)
				if len(got.Contents) != 1 {
					t.Fatalf("got %+v", got)
				}
				content := got.Contents[0]
				if content.URI != c.uri || content.MIMEType != c.mime {
					t.Errorf("got %+v", content)
				}
				if c.blob == "" && (content.Text == nil || *content.Text != c.text) || c.blob != "" && (content.Blob == nil || *content.Blob != c.blob) {
					body, _ := json.Marshal(content)
					t.Errorf("got %s", body)
				}
				if v.Stateless() && (got.TTLMS == nil || got.CacheScope != "private" || got.ResultType != "complete") {
					t.Errorf("got %+v", got)
				}
				if c.uri == "notice://today" && v.Stateless() && *got.TTLMS != 60_000 {
					t.Errorf("may be kept for %d ms", *got.TTLMS)
				}
			})
		}
	}
}

func TestNative_contents_are_read_as_they_are(t *testing.T) {
	server := stocked(t, Options{})
	for _, v := range revisions {
		var got readAnswer
		shelved(t, server, v, "resources/read", `"uri":"native://all"`).result(t, "ReadResourceResult", &got)
		if len(got.Contents) != 2 || got.Contents[0].URI != "native://1" {
			t.Fatalf("%v: got %+v, want native://1 and another", v, got)
		}
		if one, two := *got.Contents[0].Text, *got.Contents[1].Blob; one != "one" || two != "AAEC" {
			t.Errorf("%v: got %q and %q, want one and AAEC", v, one, two)
		}
	}
}

func TestUnknownResources(t *testing.T) {
	server := stocked(t, Options{})
	for _, uri := range []string{
		"docs:///nothing", "docs:///gone", "docs:///", "", "nothing",
		"guide://all/../fares.md", "guide://all/%2e%2e/fares.md", "guide://all/..%2ffares.md", "guide://all//fares.md", "guide://all//etc/passwd",
		"guide://all/.hidden", "guide://all/.git/config", "guide://all/deep", "guide://all/deep/", "guide://all/%00", "guide://all/\\u0000",
		"trains:///stations/none", "trains:///stations/", "trains:///stations/a/b", "trains:///stations?unknown=1", "trains:///stations?limit=1&limit=2",
		"photos://all/7.jpg", "trains:///stations/%zz",
	} {
		for _, v := range []protocol.Revision{protocol.V20251125, protocol.V20260728} {
			t.Run(v.String()+" "+uri, func(t *testing.T) {
				r := shelved(t, server, v, "resources/read", `"uri":"`+uri+`"`)
				if v.Stateless() && (uri == "" || strings.Contains(uri, "u0000")) {
					t.Skip("a header cannot contain it")
				}
				code := resourceNotFound
				if v.Stateless() {
					code = protocol.InvalidParams
				}
				a := r.fault(t, 200, code)
				var data struct{ URI string }
				if err := json.Unmarshal(a.Error.Data, &data); err != nil || data.URI != uri && !strings.Contains(uri, "u0000") {
					t.Errorf("data %s", a.Error.Data)
				}
			})
		}
	}
}

func TestLink_out_of_a_folder_is_not_followed(t *testing.T) {
	folder := writeFiles(t, map[string]string{"secret": "s", "in/a": "a"})
	if err := os.Symlink("../secret", filepath.Join(folder, "in", "out")); err != nil {
		t.Skip(err)
	}
	if err := os.Symlink("a", filepath.Join(folder, "in", "same")); err != nil {
		t.Fatal(err)
	}
	lib, err := library.NewLibrary(library.LibraryOptions{Folders: []library.Folder{{Path: filepath.Join(folder, "in")}}})
	if err != nil {
		t.Fatal(err)
	}
	server := New(Options{})
	server.SetLibrary(lib)
	shelved(t, server, protocol.V20251125, "resources/read", `"uri":"file:///in/out"`).fault(t, 200, resourceNotFound)
	var list resourceList
	shelved(t, server, protocol.V20251125, "resources/list", "").result(t, "ListResourcesResult", &list)
	for _, r := range list.Resources {
		if r.URI == "file:///in/out" {
			t.Error("the link is listed")
		}
	}
	var got readAnswer
	shelved(t, server, protocol.V20251125, "resources/read", `"uri":"file:///in/same"`).result(t, "ReadResourceResult", &got)
}

func TestReadFaults(t *testing.T) {
	server := stocked(t, Options{})
	for rule, c := range map[string]struct {
		params string
		code   int
	}{
		"no-uri":           {``, protocol.InvalidParams},
		"uri-no-string":    {`"uri":7`, protocol.InvalidParams},
		"uri-too-long":     {`"uri":"docs:///` + strings.Repeat("a", library.MaxURI) + `"`, protocol.InvalidParams},
		"arguments-do-not": {`"uri":"photos://all/x.png"`, protocol.InvalidParams},
		"api-fails":        {`"uri":"trains:///stations/broken"`, protocol.InternalError},
	} {
		t.Run(rule, func(t *testing.T) {
			shelved(t, server, protocol.V20251125, "resources/read", c.params).fault(t, 200, c.code)
		})
	}
}

func TestLarge_file_is_not_read(t *testing.T) {
	folder := writeFiles(t, map[string]string{"a": "12345"})
	lib, err := library.NewLibrary(library.LibraryOptions{MaxFile: 4, Resources: []library.Resource{{URI: "docs:a", File: filepath.Join(folder, "a")}}})
	if err != nil {
		t.Fatal(err)
	}
	server := New(Options{})
	server.SetLibrary(lib)
	a := shelved(t, server, protocol.V20251125, "resources/read", `"uri":"docs:a"`).fault(t, 200, protocol.InternalError)
	if !strings.Contains(a.Error.Message, "4 bytes") {
		t.Errorf("message %q", a.Error.Message)
	}
}

func TestToken_without_scopes(t *testing.T) {
	server := stocked(t, Options{})
	r := shelved(t, server, protocol.V20251125, "resources/read", `"uri":"secret://one"`)
	send := func(access *Access, body string) *httptest.ResponseRecorder {
		post := httptest.NewRequest(http.MethodPost, "http://api.example.com/mcp", strings.NewReader(body))
		post.Header.Set("Content-Type", "application/json")
		post.Header.Set(versionHeader, protocol.V20251125.String())
		site := siteOf(r.tools, r.caller)
		site.Access = access
		w := httptest.NewRecorder()
		server.ServeHTTP(w, post, site)
		return w
	}
	some := &Access{Scopes: []string{"other"}}
	// One of the alternatives is a key, which no token has anything to do with.
	toolset := r.tools
	secret, _ := toolset.Tool("get_secret")
	secret.Plan.Security = secret.Plan.Security[:1]
	if w := send(some, r.body); w.Code != http.StatusForbidden || !strings.Contains(w.Header().Get("Www-Authenticate"), "insufficient_scope") {
		t.Errorf("got %d %v %s", w.Code, w.Header(), w.Body)
	}
	list := conformant(protocol.V20251125, "resources/list", "").body
	if w := send(some, list); strings.Contains(w.Body.String(), "secret://one") {
		t.Errorf("listed: %s", w.Body)
	}
	if w := send(&Access{Scopes: []string{"read", "write"}}, list); !strings.Contains(w.Body.String(), "secret://one") {
		t.Errorf("not listed: %s", w.Body)
	}
}

func TestResources_are_listed_in_pages(t *testing.T) {
	server := stocked(t, Options{PageSize: 5})
	var uris []string
	cursor, pages := "", 0
	for {
		var got resourceList
		shelved(t, server, protocol.V20260728, "resources/list", cursor).result(t, "ListResourcesResult", &got)
		for _, r := range got.Resources {
			uris = append(uris, r.URI)
		}
		pages++
		if got.NextCursor == "" {
			break
		}
		cursor = fmt.Sprintf("%q:%q", "cursor", got.NextCursor)
		shelved(t, server, protocol.V20260728, "prompts/list", cursor).fault(t, 200, protocol.InvalidParams)
	}
	if len(uris) != 13 || pages != 3 {
		t.Errorf("%d on %d pages", len(uris), pages)
	}
	for _, wrong := range []string{`"cursor":7`, `"cursor":"x"`} {
		shelved(t, server, protocol.V20260728, "resources/list", wrong).fault(t, 200, protocol.InvalidParams)
	}
	server.SetLibrary(nil)
	shelved(t, server, protocol.V20260728, "resources/list", cursor).fault(t, 200, protocol.InvalidParams)
}

func TestPath_of_the_API_is_a_resource(t *testing.T) {
	server := stocked(t, Options{})
	m := scope{server: server, site: &Site{}, tools: stationTools(t)}
	for path, want := range map[string]string{
		"/stations/7":           "trains:///stations/7",
		"/stations/a%20b":       "trains:///stations/a%20b",
		"/stations":             "trains:///stations",
		"/stations?limit=5":     "trains:///stations?limit=5",
		"/stations?unknown=5":   "",
		"/stations/7?unknown=5": "",
		"/notice":               "notice://today",
		"/notice?x=1":           "",
		"/photos/7":             "photos://all/7.png",
		"/board":                "",
		"/nothing":              "",
		"":                      "",
	} {
		if uri, _, ok := m.catalog().Index().ResourceAt(m.tools.Tools()[0], path); uri != want || ok != (want != "") {
			t.Errorf("%s is %q, %v; want %q", path, uri, ok, want)
		}
	}
}

// Of folders that lie in one another the inner one has what both could have, and a
// resource with the URI of a file is in its place: what is listed can be read, and
// is listed once.
func TestFolders_that_overlap(t *testing.T) {
	files := writeFiles(t, map[string]string{
		"outer/a.txt": "outer", "outer/fixed": "outer", "outer/in/hidden.txt": "outer", "inner/b.txt": "inner", "page/w.html": "<p>", "fixed": "fixed",
	})
	for rule, folders := range map[string][]library.Folder{
		"outer-first": {{Path: filepath.Join(files, "outer"), Prefix: "docs:///"}, {Path: filepath.Join(files, "inner"), Prefix: "docs:///in"}},
		"inner-first": {{Path: filepath.Join(files, "inner"), Prefix: "docs:///in"}, {Path: filepath.Join(files, "outer"), Prefix: "docs:///"}},
	} {
		t.Run(rule, func(t *testing.T) {
			lib, err := library.NewLibrary(library.LibraryOptions{
				Resources: []library.Resource{{URI: "docs:///fixed", File: filepath.Join(files, "fixed")}},
				Folders:   append(folders, library.Folder{Path: filepath.Join(files, "page"), Prefix: "ui://page"}),
			})
			if err != nil {
				t.Fatal(err)
			}
			server := New(Options{})
			server.SetLibrary(lib)
			want := map[string]string{"docs:///fixed": "fixed", "docs:///a.txt": "outer", "docs:///in/b.txt": "inner", "ui://page/w.html": "<p>"}
			var list resourceList
			shelved(t, server, protocol.V20251125, "resources/list", "").result(t, "ListResourcesResult", &list)
			for _, r := range list.Resources {
				content, known := want[r.URI]
				delete(want, r.URI)
				if !known {
					if !strings.HasPrefix(r.URI, "docs:") && !strings.HasPrefix(r.URI, "ui:") {
						continue // of the document
					}
					t.Errorf("%s is listed, or twice", r.URI)
				}
				var got readAnswer
				shelved(t, server, protocol.V20251125, "resources/read", `"uri":"`+r.URI+`"`).result(t, "ReadResourceResult", &got)
				if *got.Contents[0].Text != content || r.MIMEType != "" && got.Contents[0].MIMEType != r.MIMEType {
					t.Errorf("%s as %q is %+v", r.URI, r.MIMEType, got.Contents[0])
				}
			}
			if len(want) > 0 {
				t.Errorf("not listed: %v", want)
			}
		})
	}
}

const bankDocument = `
openapi: 3.1.0
info: {title: Bank, version: "1"}
paths:
  /one:
    get:
      operationId: one
      parameters: [{name: id, in: query, required: true, schema: {type: string}}]
      x-mcp: {resource: {uri: 'bank://{id}'}}
      responses: {'200': {description: ok}}
  /other:
    get:
      operationId: other
      parameters: [{name: id, in: query, required: true, schema: {type: string}}]
      x-mcp: {resource: {uri: 'bank://{id}'}}
      responses: {'200': {description: ok}}
  /accounts/{account}:
    get:
      operationId: get_account
      parameters: [{name: account, in: path, required: true, schema: {type: string}, x-otc-non-inferrable: true}]
      x-mcp: {resource: true, prompt: {arguments: [{name: account}]}}
      responses: {'200': {description: ok, content: {text/plain: {}}}}
  /balance:
    get:
      operationId: get_balance
      parameters:
        - {name: pin, in: query, required: true, schema: {type: string}, x-otc-non-inferrable: true}
        - {name: day, in: query, schema: {type: string}}
      x-mcp: {resource: true, prompt: true}
      responses: {'200': {description: ok, content: {text/plain: {}}}}
`

// Two templates that are the same are one, and a warning is logged.
func TestTemplate_is_listed_once(t *testing.T) {
	toolset, server := buildTools(t, bankDocument, tools.BuildOptions{Name: "bank"}), New(Options{})
	r := conformant(protocol.V20251125, "resources/templates/list", "")
	r.server, r.tools = server, toolset
	var got resourceList
	r.result(t, "ListResourceTemplatesResult", &got)
	var all []string
	for _, template := range got.ResourceTemplates {
		all = append(all, template.URITemplate+" "+template.Name)
	}
	if want := "bank://{id} one, bank:///balance{?day} get_balance"; strings.Join(all, ", ") != want {
		t.Errorf("got %s", strings.Join(all, ", "))
	}
	warned := false
	for _, w := range server.Warnings(toolset) {
		warned = warned || w.Operation == "GET /other" && testkit.ContainsAll(w.Reason, "template bank://{id}")
	}
	if !warned {
		t.Errorf("no warning: %v", server.Warnings(toolset))
	}
}

// Non-inferrable arguments are neither variables of a URI nor arguments of a prompt, because a model
// could fill them in there. The user is asked for them.
func TestNonInferrable_in_resources_and_prompts(t *testing.T) {
	toolset, server := buildTools(t, bankDocument, tools.BuildOptions{Name: "bank"}), New(Options{})
	ask := func(method, params, name string) testRequest {
		r := conformant(protocol.V20260728, method, params)
		r.header[nameHeader] = name
		r.body = strings.Replace(r.body, `"io.modelcontextprotocol/clientCapabilities":{}`, `"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}`, 1)
		r.server, r.tools, r.caller = server, toolset, through(toolset, paid)
		return r
	}
	for rule, r := range map[string]testRequest{
		"resource": ask("resources/read", `"uri":"bank:///balance?day=monday"`, "bank:///balance?day=monday"),
		"prompt":   ask("prompts/get", `"name":"get_balance","arguments":{"day":"monday"}`, "get_balance"),
	} {
		var first struct {
			ResultType, RequestState string
			InputRequests            map[string]any
		}
		r.result(t, "InputRequiredResult", &first)
		if first.ResultType != "input_required" || first.InputRequests["fairway_arguments"] == nil {
			t.Errorf("%s: %+v", rule, first)
			continue
		}
		state, _ := json.Marshal(first.RequestState)
		r.body = strings.Replace(r.body, `"params":{`, `"params":{"requestState":`+string(state)+`,"inputResponses":{"fairway_arguments":{"action":"accept","content":{"pin":"1234"}}},`, 1)
		if body := r.Send(t).Body.String(); !strings.Contains(body, "pin=1234") || !strings.Contains(body, "day=monday") {
			t.Errorf("%s: %s", rule, body)
		}
	}
	for _, r := range []testRequest{
		ask("resources/read", `"uri":"bank:///accounts/7"`, "bank:///accounts/7"),
		ask("resources/read", `"uri":"bank:///balance?pin=1234"`, "bank:///balance?pin=1234"),
	} {
		r.fault(t, 200, protocol.InvalidParams)
	}
	var reasons []string
	for _, w := range server.Warnings(toolset) {
		reasons = append(reasons, w.Reason)
	}
	for _, want := range []string{"resource URI account non-inferrable", "prompt get_account account non-inferrable"} {
		if !anyHas(reasons, want) {
			t.Errorf("no warning has the words %s: %q", want, reasons)
		}
	}
}

// If the API fails, the error of resources/read has the same details as the result of a tool call.
func TestReadFaults_of_the_API(t *testing.T) {
	const document = `
openapi: 3.1.0
info: {title: Faults, version: "1"}
paths:
  /a/{id}: {get: {operationId: a, parameters: [{name: id, in: path, required: true, schema: {type: string}}], x-mcp: {resource: {uri: "a://{id}"}}, responses: {'200': {description: ok}}}}
`
	toolset := buildTools(t, document, tools.BuildOptions{Name: "faults"})
	answer := func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/a/limited":
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusTooManyRequests)
		case "/a/login":
			w.Header().Set("WWW-Authenticate", `Bearer realm="api"`)
			w.WriteHeader(http.StatusUnauthorized)
		default:
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"title":"Gone to Bern","code":7}`))
		}
	}
	for id, c := range map[string]struct {
		code          int
		message, data string
	}{
		"limited": {protocol.InternalError, "429", `{"uri":"a://limited","io.github.fairwayhq/http":{"status":429,"retryable":true,"retryAfterMs":7000}}`},
		"login":   {protocol.InternalError, "401", `{"uri":"a://login","io.github.fairwayhq/http":{"status":401,"retryable":false},"mcp/www_authenticate":"Bearer realm=\"api\""}`},
		"none": {
			resourceNotFound, "a://none GET /a/{id} 404 Bern",
			`{"uri":"a://none","io.github.fairwayhq/http":{"status":404,"retryable":false,"problem":{"title":"Gone to Bern","code":7}}}`,
		},
	} {
		t.Run(id, func(t *testing.T) {
			r := conformant(protocol.V20251125, "resources/read", `"uri":"a://`+id+`"`)
			r.tools, r.caller = toolset, through(toolset, answer)
			a := r.fault(t, 200, c.code)
			if !testkit.ContainsAll(a.Error.Message, c.message) || string(a.Error.Data) != c.data {
				t.Errorf("%s\n%s", a.Error.Message, a.Error.Data)
			}
		})
	}
}
