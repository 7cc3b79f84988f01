package mcp_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// TestMCP_library_adapt_errors wants every error to say what is wrong and in which
// line.
func TestMCP_library_adapt_errors(t *testing.T) {
	for name, test := range map[string]struct {
		lines, want, line string
	}{
		"resource alone":         {"resource docs:///a", "resource docs:///fares", ":3"},
		"resource uri":           {"resource fares fares.md", "scheme", ":3"},
		"resource template":      {"resource docs:///{id} fares.md", "URI {variables}", ":3"},
		"resource twice":         {"resource docs:a a\n\t\tresource docs:a b", "resource docs:a twice", ":4"},
		"resource option":        {"resource docs:a a {\n\t\t\tmime a\n\t\t}", "unrecognized resource mime", ":4"},
		"resource option twice":  {"resource docs:a a {\n\t\t\tname a\n\t\t\tname b\n\t\t}", "name twice", ":5"},
		"resources alone":        {"resources", "resources get tag", ":3"},
		"resources three":        {"resources a b c", "folder URIs", ":3"},
		"resources twice":        {"resources a\n\t\tresources a", "resources a twice", ":4"},
		"resources get":          {"resources get", "resources get tag", ":3"},
		"resources get unknown":  {"resources get label x", "selector label", ":3"},
		"resources get twice":    {"resources get tag x x", "resources get tag x twice", ":3"},
		"prompts twice":          {"prompts a.yaml\n\t\tprompts b.yaml", "prompts twice", ":4"},
		"prompts none":           {"prompts", "wrong argument count", ":3"},
		"skills alone":           {"skills", "skills directory ./skills", ":3"},
		"skills two":             {"skills a b", "skills directory", ":3"},
		"skills twice":           {"skills a\n\t\tskills a", "skills a twice", ":4"},
		"skills option":          {"skills a {\n\t\t\tscope b\n\t\t}", "unrecognized skills scope", ":4"},
		"app alone":              {"app ui://a", "ui://trips/board.html", ":3"},
		"app uri":                {"app https://a a.html", "ui://", ":3"},
		"app twice":              {"app ui://a a.html\n\t\tapp ui://a b.html", "app ui://a twice", ":4"},
		"app option":             {"app ui://a a.html {\n\t\t\ttool x\n\t\t}", "unrecognized app tool", ":4"},
		"app origin":             {"app ui://a a.html {\n\t\t\tcsp {\n\t\t\t\tconnect cdn.example.com\n\t\t\t}\n\t\t}", "origin", ":3"},
		"app csp option":         {"app ui://a a.html {\n\t\t\tcsp {\n\t\t\t\timage https://a\n\t\t\t}\n\t\t}", "unrecognized csp image", ":5"},
		"app csp argument":       {"app ui://a a.html {\n\t\t\tcsp https://a\n\t\t}", "wrong argument count", ":4"},
		"app csp twice":          {"app ui://a a.html {\n\t\t\tcsp {\n\t\t\t}\n\t\t\tcsp {\n\t\t\t}\n\t\t}", "csp twice", ":6"},
		"app border":             {"app ui://a a.html {\n\t\t\tprefers_border maybe\n\t\t}", "prefers_border", ":4"},
		"app visibility":         {"app ui://a a.html {\n\t\t\tvisibility all\n\t\t}", "model app", ":4"},
		"app accessible":         {"app ui://a a.html {\n\t\t\twidget_accessible yes\n\t\t}", "wrong argument count", ":4"},
		"app tool of another":    {"app ui://a a.html {\n\t\t\ttools x\n\t\t}\n\t\tapp ui://b b.html {\n\t\t\ttools x\n\t\t}", "x ui://a", ":6"},
		"locales none":           {"locales", "wrong argument count", ":3"},
		"locales wrong":          {"locales en german!", "locale german!", ":3"},
		"locales twice":          {"locales en\n\t\tlocales en", "en twice", ":4"},
		"hint alone":             {"hint user_agent", "hint user_agent X-Client-Agent", ":3"},
		"hint unknown":           {"hint referer X-A", "hint user_agent X-Client-Agent", ":3"},
		"hint twice":             {"hint location X-A\n\t\thint location X-B", "hint location twice", ":4"},
		"hint guarded":           {"hint location authorization", "header", ":3"},
		"hints in one header":    {"hint location X-A\n\t\thint user_agent x-a", "same header", ":4"},
		"max_resource":           {"max_resource lots", "max_resource lots", ":3"},
		"library of unknown mcp": {"tmpl x", "unrecognized mcp tmpl", ":3"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := sitetest.Adapt("http://a.test {\n\tmcp {\n\t\t" + test.lines + "\n\t}\n}")
			if err == nil {
				t.Fatal("no error")
			}
			if !testkit.ContainsAll(err.Error(), test.want) || !strings.Contains(err.Error(), "Caddyfile"+test.line) {
				t.Errorf("got %q, want %q and line %s", err, test.want, test.line)
			}
		})
	}
}

// library sends one MCP request and returns its result, or its error as text.
func library(s *sitetest.Site, method, params string) string {
	s.T.Helper()
	message := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `}}`
	text := s.Post("/mcp", message, map[string]string{"MCP-Protocol-Version": "2025-11-25"}).Body
	var m struct {
		Result json.RawMessage
		Error  struct{ Message string }
	}
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		s.T.Fatalf("%v in %s", err, text)
	}
	if m.Result == nil {
		return m.Error.Message
	}
	return string(m.Result)
}

const greeting = "prompts:\n  - name: greet\n    messages:\n      - role: user\n        content: "

func TestMCP_library_is_served_and_reloaded(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("fares.md", "# Fares")
	s.Write("board.html", "<p>Board</p>")
	if err := os.Mkdir(filepath.Join(s.Dir, "guide"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.Write("guide/intro.md", "Intro")
	s.Write("prompts.yaml", greeting+"hello\n")
	s.Start("", `mcp TRIPS {
		resource docs:///fares DIR/fares.md
		resources DIR/guide guide:///
		resources get path /trips/{id}
		prompts DIR/prompts.yaml
		app ui://trips/board.html DIR/board.html {
			tools listTrips
		}
		locales en de
		hint user_agent X-Client-Agent
	}
	respond "{http.request.uri} {http.request.header.Accept-Language} {http.request.header.X-Client-Agent}"`)
	for _, c := range []struct{ method, params, want string }{
		{"resources/list", "", `"uri":"docs:///fares"`},
		{"resources/list", "", `"uri":"guide:///intro.md"`},
		{"resources/list", "", `"uri":"ui://trips/board.html"`},
		{"resources/templates/list", "", `"uriTemplate":"trips:///trips/{id}"`},
		{"resources/read", `"uri":"docs:///fares"`, `"text":"# Fares"`},
		{"resources/read", `"uri":"guide:///intro.md"`, `"text":"Intro"`},
		{"resources/read", `"uri":"trips:///trips/7","_meta":{"openai/locale":"de-AT","openai/userAgent":"Chat/1"}`, `"text":"/trips/7 de Chat/1"`},
		{"tools/call", `"name":"getTrip","arguments":{"id":"7"},"_meta":{"openai/locale":"de-AT"}`, `"openai/locale":"de"}`},
		{"tools/list", "", `"ui":{"resourceUri":"ui://trips/board.html"}`},
		{"prompts/get", `"name":"greet"`, `"text":"hello"`},
	} {
		if got := library(s, c.method, c.params); !strings.Contains(got, c.want) {
			t.Errorf("%s %s: %q is not in %s", c.method, c.params, c.want, got)
		}
	}

	s.Write("prompts.yaml", greeting+"goodbye\n")
	sitetest.Eventually(t, "the reload", func() bool { return strings.Contains(library(s, "prompts/get", `"name":"greet"`), "goodbye") })

	s.Write("prompts.yaml", greeting+"hi {{who}}\n")
	s.Logged(`"level":"error"`, "prompts.yaml: line 2")
	if got := library(s, "prompts/get", `"name":"greet"`); !strings.Contains(got, "goodbye") {
		t.Errorf("a mistake in the file took the prompts away: %s", got)
	}

	s.Write("prompts.yaml", greeting+"back\n")
	sitetest.Eventually(t, "the repair", func() bool { return strings.Contains(library(s, "prompts/get", `"name":"greet"`), "back") })
}

// TestMCP_library_must_be_good_at_first wants a configuration to fail that names what is
// not there or not right.
func TestMCP_library_must_be_good_at_first(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("wrong.yaml", greeting+"hi {{who}}\n")
	for _, folder := range []string{"none", "bad/a", "good/a"} {
		if err := os.MkdirAll(filepath.Join(s.Dir, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s.Write("bad/a/SKILL.md", "---\ndescription: b\n---\n")
	s.Write("good/a/SKILL.md", "---\nname: a\ndescription: b\n---\n")
	for option, want := range map[string]string{
		"prompts DIR/nothing.yaml":          "nothing.yaml",
		"prompts DIR/wrong.yaml":            "wrong.yaml: line 2: message 1 {{who}}",
		"resources DIR/nothing":             "nothing",
		"resource a:b DIR/nothing":          "resource a:b",
		"app ui://a DIR/nothing":            "app ui://a",
		"resources TRIPS":                   "folder",
		"skills DIR/nothing":                "skills nothing",
		"skills DIR/none":                   "skills none no folder SKILL.md",
		"skills DIR/bad":                    "skills bad/a/SKILL.md:2: name",
		"skills DIR/good {\nscopes a\"b\n}": "is not a scope",
	} {
		t.Run(option, func(t *testing.T) {
			err := s.With(t).Load("", "mcp TRIPS {\n"+option+"\n}\nrespond ok")
			if err == nil || !testkit.ContainsAll(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
}
