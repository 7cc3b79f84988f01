package route_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

const answersDocument = `openapi: 3.1.0
info: {title: Answers, version: 1.0.0}
paths:
  /issues:
    get: {operationId: listIssues, responses: {"200": {description: ok, content: {application/json: {schema: {type: array}}}}}}
  /search: {get: {operationId: searchIssues}}
  /history: {get: {operationId: history}}
  /log: {get: {operationId: readLog}}
  /events: {get: {operationId: readEvents}}
  /file: {get: {operationId: readFile}}
  /image: {get: {operationId: readImage}}
  /short:
    get:
      operationId: shortIssues
      x-fairway: {select: "{total: length, items: [.[] | {number, user: .user.login}]}", fields: true}
      responses: {"200": {description: ok, content: {application/json: {schema: {type: array}}}}}
  /endless:
    get: {operationId: endless, x-fairway: {select: "def f: f; f"}}
  /mistaken:
    post: {operationId: mistaken, x-fairway: {select: ".secret.name"}}
  /narrow:
    get: {operationId: narrow, x-fairway: {max_tokens: 100}}
  /whole:
    get: {operationId: whole, x-fairway: {max_tokens: -1}}
`

// answersAPI is an API with large responses. It counts its calls.
func answersAPI(t *testing.T) (address string, calls *atomic.Int64) {
	calls = new(atomic.Int64)
	return sitetest.Upstream(t, func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		body, contentType := answerOf(r.URL.Path)
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Etag", `"whole"`)
		fmt.Fprint(w, body)
	}), calls
}

// issueCount is the number of issues in answersAPI.
const issueCount = 500

func issueList() string {
	issues := make([]string, issueCount)
	for i := range issues {
		issues[i] = fmt.Sprintf(`{"number":%d,"user":{"login":"ann","id":12345678901234567890},"body":%q}`, i+1, strings.Repeat("text ", 50))
	}
	return "[" + strings.Join(issues, ",") + "]"
}

// answerOf returns the response of answersAPI.
func answerOf(path string) (body, contentType string) {
	const isJSON = "application/json; charset=utf-8"
	switch path {
	case "/search":
		return `{"total_count":500,"incomplete_results":false,"items":` + issueList() + `}`, isJSON
	case "/history": // like Slack's
		return `{"ok":true,"data":{"messages":` + issueList() + `},"response_metadata":{"next_cursor":"bmV4dA=="}}`, isJSON
	case "/log":
		return strings.Repeat("2026-01-01 GET / 200\n", 10_000), "text/plain"
	case "/events":
		return strings.TrimSuffix(strings.Repeat(`{"event":"push","id":1}`+"\n", 10_000), "\n"), "application/x-ndjson"
	case "/file":
		return `{"name":"a.txt","content":"` + strings.Repeat("word ", 40_000) + `"}`, isJSON
	case "/image":
		return "\x89PNG\r\n\x1a\n" + strings.Repeat("\x00", 200_000), "image/png"
	case "/mistaken":
		return `{"secret":"hunter2"}`, isJSON
	case "/narrow":
		return `[` + strings.Repeat(`"0123456789",`, 99) + `"last"]`, isJSON
	}
	return issueList(), isJSON
}

// part is the result of a tools/call with a part of a response.
type part struct {
	IsError bool
	Content []struct{ Type, Text string }
	Meta    struct {
		Next string `json:"io.github.fairwayhq/next"`
	} `json:"_meta"`

	StructuredContent json.RawMessage
}

// body is the text of the response.
func (p part) body() string { return p.Content[0].Text }

// note is what the gateway says about the response.
func (p part) note() string {
	if len(p.Content) < 2 {
		return ""
	}
	return p.Content[len(p.Content)-1].Text
}

// next is the cursor of the next part.
func (p part) next() string { return p.Meta.Next }

// callPart calls a tool over MCP.
func callPart(s *sitetest.Site, tool, arguments string, header ...string) part {
	s.T.Helper()
	r := s.CallRequest(tool, arguments)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	a := s.Do(r)
	var message struct{ Result *part }
	if err := json.Unmarshal([]byte(a.Body), &message); err != nil || message.Result == nil || len(message.Result.Content) == 0 {
		s.T.Fatalf("%s: status %d, %.300s", tool, a.Status, a.Body)
	}
	return *message.Result
}

// nextPart calls next_page.
func nextPart(s *sitetest.Site, cursor string, header ...string) part {
	s.T.Helper()
	return callPart(s, "next_page", fmt.Sprintf(`{"cursor":%q}`, cursor), header...)
}

func TestAnswer_large_responses_are_cut(t *testing.T) {
	api, calls := answersAPI(t)
	s := sitetest.NewSite(t)
	s.Write("answers.yaml", answersDocument)
	s.Start("", "mcp DIR/answers.yaml\n reverse_proxy "+strings.TrimPrefix(api, "http://"))
	for _, c := range []struct {
		tool, path, note string
		items            func(v any) []any // of the first part; nil for text
	}{
		{"listIssues", "/issues", "of 500 items next_page", func(v any) []any { return v.([]any) }},
		{"searchIssues", "/search", "of 500 items of items", func(v any) []any { return v.(map[string]any)["items"].([]any) }},
		{"history", "/history", "of 500 items of data.messages", func(v any) []any {
			return v.(map[string]any)["data"].(map[string]any)["messages"].([]any)
		}},
		{"readLog", "/log", "lines of 10000", nil},
		{"readEvents", "/events", "lines of 10000", nil},
	} {
		calls.Store(0)
		p := callPart(s, c.tool, "")
		if p.IsError || len(p.body()) > 80_000 {
			t.Fatalf("%s: got %d bytes, error: %t; want at most 80000 bytes without an error", c.tool, len(p.body()), p.IsError)
		}
		if !testkit.ContainsAll(p.note(), c.note) || p.next() == "" {
			t.Fatalf("%s: got the note %q and the cursor %q, want %q and a cursor", c.tool, p.note(), p.next(), c.note)
		}
		whole, _ := answerOf(c.path)
		var all strings.Builder
		for first := true; ; first = false {
			if c.items == nil {
				all.WriteString(p.body())
			} else {
				if !strictjson.Valid([]byte(p.body())) || p.body()[0] == '{' && string(p.StructuredContent) != p.body() {
					t.Errorf("%s: the text is no JSON, or not the structured content", c.tool)
				}
				for _, item := range itemsOf(t, p.body(), first, c.items) {
					fmt.Fprint(&all, item)
				}
			}
			if p.next() == "" {
				break
			}
			p = nextPart(s, p.next())
			if p.note() == "" {
				t.Errorf("%s: a part has no note", c.tool)
			}
		}
		want := whole
		if c.items != nil {
			var items strings.Builder
			for _, item := range itemsOf(t, whole, true, c.items) {
				fmt.Fprint(&items, item)
			}
			want = items.String()
		}
		if all.String() != want {
			t.Errorf("%s: the parts are not the whole", c.tool)
		}
		if n := calls.Load(); n != 1 {
			t.Errorf("%s: %d calls of the API; want 1", c.tool, n)
		}
	}
	if p := callPart(s, "readFile", ""); !testkit.ContainsAll(p.note(), "bytes of 200000 of content") || len(p.body()) > 80_000 {
		t.Errorf("one long string: note %q", p.note())
	} else {
		var file struct{ Content string }
		if err := json.Unmarshal([]byte(p.body()), &file); err != nil {
			t.Fatal(err)
		}
		for all := file.Content; ; all += p.body() {
			if p.next() == "" {
				if all != strings.Repeat("word ", 40_000) {
					t.Errorf("one long string: the parts are not the whole, but %d bytes", len(all))
				}
				break
			}
			p = nextPart(s, p.next())
		}
	}
	if p := callPart(s, "readImage", ""); p.note() != "" || p.Content[0].Type != "image" {
		t.Errorf("an image: %s, note %q", p.Content[0].Type, p.note())
	}
	if p := callPart(s, "narrow", ""); len(p.body()) > 400 || !testkit.ContainsAll(p.note(), "of 100 items") {
		t.Errorf("a limit of the tool: %d bytes, note %q", len(p.body()), p.note())
	}
	if p := callPart(s, "whole", ""); p.body() != issueList() || p.note() != "" {
		t.Errorf("no limit of the tool: %d bytes, note %q", len(p.body()), p.note())
	}
	if list := s.ToolList(); strings.LastIndex(list, `"name":`) != strings.Index(list, `"name":"next_page"`) {
		t.Errorf("next_page is not the last tool of %s", list)
	}
}

// itemsOf returns the items of a part: those of the array that was cut, or the items of a later part.
func itemsOf(t *testing.T, body string, first bool, items func(any) []any) []any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(body))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	if first {
		return items(v)
	}
	return v.([]any)
}

func TestAnswer_pages_belong_to_their_caller(t *testing.T) {
	api, _ := answersAPI(t)
	s := sitetest.NewSite(t)
	s.Write("answers.yaml", answersDocument)
	s.Start("", `agent_auth {
		api_key {
			header X-Key
			key ann secret-of-ann
			key bob secret-of-bob
		}
		optional
	}
	mcp /mcp DIR/answers.yaml {
		allow_anonymous
	}
	mcp /other DIR/answers.yaml {
		allow_anonymous
	}
	otc /otc DIR/answers.yaml {
		allow_anonymous
	}
	reverse_proxy `+strings.TrimPrefix(api, "http://"))
	ann, bob := []string{"X-Key", "secret-of-ann"}, []string{"X-Key", "secret-of-bob"}
	cursors := map[string]string{"ann": callPart(s, "listIssues", "", ann...).next(), "": callPart(s, "listIssues", "").next()}
	for _, c := range []struct {
		who    string
		header []string
		of     string
		fails  bool
	}{
		{"ann", ann, "ann", false},
		{"ann again", ann, "ann", false},
		{"bob", bob, "ann", true},
		{"no user", nil, "ann", true},
		{"no user, own", nil, "", false},
		{"ann, of no user", ann, "", true},
		{"no user, with a token for the API", []string{"Authorization", "Bearer x"}, "", true},
	} {
		if p := nextPart(s, cursors[c.of], c.header...); p.IsError != c.fails || c.fails && !testkit.ContainsAll(p.body(), "expired call") {
			t.Errorf("%s: error %v: %.100s; want error %v", c.who, p.IsError, p.body(), c.fails)
		}
	}
	otc := s.Request("POST", "/otc/call", fmt.Sprintf(`{"request":{"tool_id":"Answers.next_page","input":{"cursor":%q}}}`, cursors["ann"]), "X-Key", "secret-of-ann")
	if strings.Contains(otc.Body, `"success":true`) {
		t.Errorf("another endpoint: %.200s", otc.Body)
	}
	for _, arguments := range []string{`{}`, `{"cursor":7}`, `{"cursor":""}`, `{"cursor":"` + strings.Repeat("A", 10_000) + `"}`} {
		if p := callPart(s, "next_page", arguments, ann...); !p.IsError {
			t.Errorf("next_page %.30s succeeded", arguments)
		}
	}
	if err := s.Load("", "mcp DIR/answers.yaml\n reverse_proxy "+strings.TrimPrefix(api, "http://")); err != nil {
		t.Fatal(err)
	}
	if p := nextPart(s, cursors[""]); p.IsError {
		t.Errorf("after a reload: %s", p.body())
	}
}

func TestAnswer_select_and_fields(t *testing.T) {
	api, _ := answersAPI(t)
	s := sitetest.NewSite(t)
	s.Write("answers.yaml", answersDocument)
	s.Start("", "mcp DIR/answers.yaml {\n output_schema strict\n}\n otc /otc DIR/answers.yaml\n reverse_proxy "+strings.TrimPrefix(api, "http://"))
	p := callPart(s, "shortIssues", "")
	if !strings.HasPrefix(p.body(), `{"items":[{"number":1,"user":"ann"},`) || !strings.HasSuffix(p.body(), `],"total":500}`) {
		t.Errorf("select: got %.80s, want the items with their total", p.body())
	}
	if p.note() != "" || string(p.StructuredContent) != p.body() {
		t.Errorf("select: got the note %q, want none; got the structured content %.80s, want %.80s", p.note(), p.StructuredContent, p.body())
	}
	if p := callPart(s, "shortIssues", `{"fields":"total"}`); p.body() != `{"total":500}` || p.note() != "" {
		t.Errorf("fields: %.80s, note %q", p.body(), p.note())
	}
	if p := callPart(s, "shortIssues", `{"fields":"totl,items.nosuch"}`); !testkit.ContainsAll(p.note(), "totl total items items.nosuch number user") {
		t.Errorf("unknown fields: note %q", p.note())
	}
	if p := callPart(s, "shortIssues", `{"fields":"a..b"}`); !p.IsError || !testkit.ContainsAll(p.body(), "fields a..b") {
		t.Errorf("malformed fields: %s", p.body())
	}
	if p := callPart(s, "listIssues", `{"fields":"number"}`); !p.IsError || !testkit.ContainsAll(p.body(), "fields") {
		t.Errorf("a tool without fields: %.100s", p.body())
	}
	for tool, words := range map[string]string{"endless": "select document x-fairway 200 too long", "mistaken": "select document x-fairway 200 not repeat"} {
		if p := callPart(s, tool, ""); !p.IsError || !testkit.ContainsAll(p.body(), words) || strings.Contains(fmt.Sprint(p.Content), "hunter2") {
			t.Errorf("%s: error %v, %q; want %q", tool, p.IsError, p.Content, words)
		}
	}
	s.Logged("select failed", `"tool":"mistaken"`)
	s.Start("", "mcp DIR/answers.yaml {\n tool mistaken {\n select error\n }\n}\n reverse_proxy "+strings.TrimPrefix(api, "http://"))
	if p := callPart(s, "mistaken", ""); !p.IsError || !testkit.ContainsAll(p.body(), "select configuration") {
		t.Errorf("select of the configuration: %q", p.Content)
	}
	s.Start("", "mcp DIR/answers.yaml {\n ignore_extensions\n}\n otc /otc DIR/answers.yaml\n reverse_proxy "+strings.TrimPrefix(api, "http://"))
	if p := callPart(s, "mistaken", ""); p.IsError {
		t.Errorf("ignore_extensions does not ignore select: %q", p.Content)
	}
	otc := s.Request("POST", "/otc/call", `{"request":{"tool_id":"Answers.shortIssues","input":{"fields":"total"}}}`)
	if !strings.Contains(otc.Body, `"output":{"value":{"total":500}}`) {
		t.Errorf("OTC: %.200s", otc.Body)
	}
	cut := s.Request("POST", "/otc/call", `{"request":{"tool_id":"Answers.searchIssues","input":{}}}`)
	var outer struct {
		Output struct{ Value json.RawMessage }
	}
	if err := json.Unmarshal([]byte(cut.Body), &outer); err != nil || len(outer.Output.Value) > 80_000 || !testkit.ContainsAll(cut.Header.Get("Fairway-Note"), "of 500 items") {
		t.Errorf("OTC, cut: %d bytes, note %q, %v", len(outer.Output.Value), cut.Header.Get("Fairway-Note"), err)
	}
	rest := s.Request("POST", "/otc/call", fmt.Sprintf(`{"request":{"tool_id":"Answers.next_page","input":{"cursor":%q}}}`, cut.Header.Get("Fairway-Next-Cursor")))
	if !strings.Contains(rest.Body, `"value":[{"number":`) {
		t.Errorf("OTC, next_page: %.200s", rest.Body)
	}
}

// TestAnswer_rules_and_REST_see_the_whole_response has output restrictions that read members which
// select removes for the model.
func TestAnswer_rules_and_REST_see_the_whole_response(t *testing.T) {
	api, _ := answersAPI(t)
	s := sitetest.NewSite(t)
	s.Write("answers.yaml", answersDocument)
	s.Write("agent.yaml", `kind: openagentspec:v1/agent
name: desk
description: Works at the desk.
intent: You work.
owner: tests
capabilities:
  short-issues: {user_identity: false, output_restriction: {assertion: 'recent["short-issues"].outputs[0].body.startsWith("text")'}}
  search-issues: {user_identity: false, output_restriction: {assertion: 'size(recent["search-issues"].outputs.items) < 500'}}
`)
	s.Start("", "mcp DIR/answers.yaml\n oagent DIR/agent.yaml {\n max_recorded 256KiB\n}\n reverse_proxy "+strings.TrimPrefix(api, "http://"))
	if p := callPart(s, "shortIssues", ""); p.IsError || !strings.HasPrefix(p.body(), `{"items":[{"number":1,"user":"ann"},`) {
		t.Errorf("select behind a rule: error %v, %.200s", p.IsError, p.body())
	}
	if p := callPart(s, "searchIssues", ""); !p.IsError || strings.Contains(p.body(), "number") {
		t.Errorf("a rule that only a cut response satisfies: error %v, %.200s", p.IsError, p.body())
	}
	if a := s.Request("GET", "/short", ""); a.Status != 200 || a.Body != issueList() {
		t.Errorf("REST: %d, %d bytes", a.Status, len(a.Body))
	}
}

func TestAnswer_options(t *testing.T) {
	api, _ := answersAPI(t)
	to := "\n reverse_proxy " + strings.TrimPrefix(api, "http://")
	for rule, c := range map[string]struct {
		global, block string
		size          int  // at most, of listIssues; 0 for the whole
		pages         bool // next_page is listed
	}{
		"default":                       {"", "mcp DIR/answers.yaml", 80_000, true},
		"toolset":                       {"agents {\n toolset a DIR/answers.yaml {\n max_tokens 1000\n }\n }", "mcp a", 4000, true},
		"endpoint wins over toolset":    {"agents {\n toolset a DIR/answers.yaml {\n max_tokens 1000\n }\n }", "mcp a {\n max_tokens 2000\n }", 8000, true},
		"off, but one tool has its own": {"", "mcp DIR/answers.yaml {\n max_tokens off\n }", 0, true},
		"off for all":                   {"", "mcp DIR/answers.yaml {\n max_tokens off\n exclude operation narrow\n }", 0, false},
	} {
		t.Run(rule, func(t *testing.T) {
			s := sitetest.NewSite(t)
			s.Write("answers.yaml", answersDocument)
			s.Start(c.global, c.block+to)
			p := callPart(s, "listIssues", "")
			if cut := p.note() != ""; cut != (c.size > 0) || cut && (len(p.body()) > c.size || len(p.body()) < c.size*9/10) {
				t.Errorf("%d bytes, note %q; want %d", len(p.body()), p.note(), c.size)
			}
			if listed := strings.Contains(s.ToolList(), `"name":"next_page"`); listed != c.pages {
				t.Errorf("next_page is listed: %v; want %v", listed, c.pages)
			}
		})
	}
	s := sitetest.NewSite(t)
	s.Write("answers.yaml", answersDocument)
	s.Start("", "mcp DIR/answers.yaml {\n fields on\n }"+to)
	if p := callPart(s, "history", `{"fields":"data.messages.number,ok"}`); !strings.HasPrefix(p.body(), `{"ok":true,"data":{"messages":[{"number":1},`) {
		t.Errorf("fields on: %.100s", p.body())
	}
}

func TestAnswer_option_errors(t *testing.T) {
	for option, want := range map[string]string{
		"max_tokens":             "max_tokens",
		"max_tokens x":           "x number off",
		"max_tokens 0":           "0 number off",
		"max_tokens 5":           "5 100 250000",
		"max_tokens 9000000":     "9000000 250000",
		"max_tokens 100 200":     "argument Caddyfile:4",
		"max_token 100":          "max_tokens",
		"fields perhaps":         "fields",
		"field on":               "fields",
		"fields on\n fields off": "fields twice",
	} {
		_, _, err := sitetest.Adapt("http://a.test {\n\tmcp {\n\t\topenapi o.yaml\n\t\t" + option + "\n\t}\n}")
		if err == nil || !testkit.ContainsAll(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", option, err, want)
		}
	}
}
