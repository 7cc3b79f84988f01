package oagent_test

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// parsedDocument has an operation for each kind of body, for the query and for the path.
const parsedDocument = `openapi: 3.1.0
info: {title: Trips, version: "1"}
paths:
  /items/{id}:
    get:
      operationId: getItem
      parameters:
        - {name: id, in: path, required: true, schema: {type: string}}
        - {name: price, in: query, schema: {type: integer}}
        - {name: note, in: query, schema: {type: string}}
      responses: {"200": {description: OK}}
  /forms:
    post:
      operationId: sendForm
      requestBody: {content: {application/x-www-form-urlencoded: {schema: &fields {type: object, properties: {price: {type: integer}, note: {type: string}}}}}}
      responses: {"200": {description: OK}}
  /records:
    post:
      operationId: sendRecord
      requestBody: {content: {application/json: {schema: *fields}}}
      responses: {"200": {description: OK}}
  /uploads:
    post:
      operationId: upload
      requestBody:
        content:
          multipart/form-data:
            schema: {type: object, properties: {price: {type: integer}, note: {type: string}, any: {}, doc: {type: string, format: binary}}}
      responses: {"200": {description: OK}}
`

// A parsedRequest is what a parser reads from a request.
type parsedRequest struct {
	Path  string                 `json:"path"`
	Query map[string][]string    `json:"query"`
	Form  map[string][]string    `json:"form"`
	Files map[string][][2]string `json:"files"` // file name and content in base64
	JSON  any                    `json:"json"`
	Error string                 `json:"error"`
}

// goParser responds with what net/http reads. If cuts is set, it reads the path like servers that cut
// segments at semicolons and drop empty segments.
func goParser(cuts bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		p := parsedRequest{Path: r.URL.Path, Query: r.URL.Query()}
		if cuts {
			var segments []string
			for segment := range strings.SplitSeq(r.URL.EscapedPath(), "/") {
				segment, _, _ = strings.Cut(segment, ";")
				segments = append(segments, segment)
			}
			plain, err := url.PathUnescape(strings.Join(segments, "/"))
			if err != nil {
				p.Error = err.Error()
			}
			p.Path = "/" + strings.Join(strings.FieldsFunc(plain, func(c rune) bool { return c == '/' || c == '\\' }), "/")
		}
		if r.Header.Get("Content-Type") == "application/json" {
			if err := json.NewDecoder(r.Body).Decode(&p.JSON); err != nil {
				p.Error = err.Error()
			}
		} else {
			if err := r.ParseMultipartForm(1 << 20); err != nil && !errors.Is(err, http.ErrNotMultipart) {
				p.Error = err.Error()
			}
			p.Form = r.PostForm
			if r.MultipartForm != nil {
				p.Form, p.Files = r.MultipartForm.Value, make(map[string][][2]string)
				for name, headers := range r.MultipartForm.File {
					for _, header := range headers {
						file, err := header.Open()
						if err != nil {
							continue
						}
						content, _ := io.ReadAll(file)
						_ = file.Close()
						p.Files[name] = append(p.Files[name], [2]string{header.Filename, base64.StdEncoding.EncodeToString(content)})
					}
				}
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(p)
	}
}

// startParser starts a program that gets its port as an argument, and returns its address. It skips the
// test if the program is not installed.
func startParser(t *testing.T, installed bool, dir string, command func(port string) []string) string {
	t.Helper()
	port := fmt.Sprint(testkit.FreePort(t))
	arguments := command(port)
	program, err := exec.LookPath(arguments[0])
	if err != nil || !installed {
		testkit.Missing(t, "%s or what it needs is not installed", strings.Join(arguments, " "))
	}
	server := exec.Command(program, arguments[1:]...)
	server.Dir = dir
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	address := net.JoinHostPort("127.0.0.1", port)
	sitetest.Eventually(t, "a parser listens", func() bool {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return false
		}
		return conn.Close() == nil
	})
	return address
}

// parsers starts the parsers and returns their addresses.
func parsers(t *testing.T) map[string]string {
	t.Helper()
	const python = "/usr/bin/python3" // of Debian, which has the package; another one may come first in PATH
	_, missing := os.Stat("../../testdata/npm/node_modules/busboy")
	node, err := filepath.Abs("../../testdata/npm/node_modules/.bin/node")
	if _, absent := os.Stat(node); err != nil || absent != nil {
		node = "node"
	}
	return map[string]string{
		"go":      sitetest.Upstream(t, goParser(false)),
		"cutting": sitetest.Upstream(t, goParser(true)),
		"werkzeug": startParser(t, exec.Command(python, "-c", "import werkzeug").Run() == nil, "../../testdata/parsers", func(port string) []string {
			return []string{python, "werkzeug_server.py", port}
		}),
		"php":    startParser(t, true, "../../testdata/parsers", func(port string) []string { return []string{"php", "-S", "127.0.0.1:" + port, "php_server.php"} }),
		"busboy": startParser(t, missing == nil, "../../testdata/npm", func(port string) []string { return []string{node, "parse.mjs", port} }),
	}
}

// TestOAgent_parsers_read_what_the_guard_reads sends requests that parsers read in different ways through a site.
// Each is refused, or each API reads the values that the guard has read.
func TestOAgent_parsers_read_what_the_guard_reads(t *testing.T) {
	apis := parsers(t)
	for _, undeclared := range []string{"refuse", "allow"} {
		s := sitetest.NewSite(t)
		s.Write("trips.yaml", parsedDocument)
		agent, block := "", ""
		for _, name := range []string{"get-item", "send-form", "send-record", "upload"} {
			agent += "  " + name + ": {user_identity: false}\n"
		}
		agent = sitetest.AgentDocument("desk", agent) + "exposes: {getItem: recent.get-item.inputs, sendForm: recent.send-form.inputs, sendRecord: recent.send-record.inputs, upload: recent.upload.inputs}\n"
		for name, address := range apis {
			block += fmt.Sprintf("@%[1]s header User-Agent %[1]s\nreverse_proxy @%[1]s %[2]s\n", name, address)
		}
		s.Write("agent.yaml", agent)
		s.Start("agents {\n\tstore bolt DIR/store.db\n}", "mcp TRIPS\noagent DIR/agent.yaml {\nundeclared "+undeclared+"\nexposes header\n}\n"+block)
		for _, test := range parserTests() {
			t.Run(undeclared+"/"+test.name, func(t *testing.T) {
				passed := 0
				for parser := range apis {
					if test.check(s.With(t), parser) {
						passed++
					}
				}
				if test.passes && passed != len(apis) {
					t.Errorf("%d of %d APIs were called", passed, len(apis))
				}
			})
		}
	}
}

// TestOAgent_parsers_read_converted_arguments makes tool calls with random values in other JSON forms than the schema has. Each API
// reads the converted values that the guard has read.
func TestOAgent_parsers_read_converted_arguments(t *testing.T) {
	apis := parsers(t)
	s, agent, block := sitetest.NewSite(t), "", ""
	s.Write("trips.yaml", parsedDocument)
	for _, name := range []string{"get-item", "send-form", "send-record", "upload"} {
		agent += "  " + name + ": {user_identity: false}\n"
	}
	for name, address := range apis {
		block += fmt.Sprintf("@%[1]s header User-Agent %[1]s\nreverse_proxy @%[1]s %[2]s\n", name, address)
	}
	s.Write("agent.yaml", sitetest.AgentDocument("desk", agent)+"exposes: {getItem: recent.get-item.inputs, sendForm: recent.send-form.inputs, sendRecord: recent.send-record.inputs, upload: recent.upload.inputs}\n")
	s.Start("agents {\n\tstore bolt DIR/store.db\n}", "mcp TRIPS\noagent DIR/agent.yaml {\nexposes header\n}\n"+block)
	random := rand.New(rand.NewPCG(5, 5))
	one := func(values ...string) string { return values[random.IntN(len(values))] }
	for range 40 {
		price := one(`"5"`, `"-7"`, `7.0`, `1e3`, `"9007199254740993"`, `5`)
		note := one(`1.10`, `true`, `-0.0`, `1e2`, `"a&b=c;d"`, `"é\u0000"`, `12345678901234567890`, `"{\"a\":1}"`)
		for tool, path := range map[string]string{"getItem": "/items/", "sendForm": "/forms", "sendRecord": "/records", "upload": "/uploads"} {
			arguments := `{"price":` + price + `,"note":` + note + `}`
			switch tool {
			case "sendRecord":
				arguments = strings.Replace(arguments, "9007199254740993", "900719925474099", 1) // JavaScript reads no larger numbers
			case "getItem":
				arguments = `{"id":` + one(`7`, `1.5`, `true`, `"a b"`) + `,` + arguments[1:]
			}
			for parser := range apis {
				r := s.CallRequest(tool, arguments)
				r.Header.Set("User-Agent", parser)
				answer := s.Do(r)
				result := s.Result(answer)
				if result.IsError && strings.Contains(note, `\u0000`) {
					continue // it cannot be sent everywhere
				}
				var got parsedRequest
				var message struct {
					Result struct {
						Meta struct {
							Exposed map[string]map[string]any `json:"org.openagentspec/exposes"`
						} `json:"_meta"`
					}
				}
				if err := errors.Join(decodeNumbers(result.Text(), &got), decodeNumbers(answer.Body, &message)); err != nil || got.Error != "" {
					t.Fatalf("%s, %s, %s: %v: %.600s", parser, tool, arguments, err, answer.Body)
				}
				if want := parsedAs(path, message.Result.Meta.Exposed); !sameRequest(got, want) {
					t.Errorf("%s, %s, %s: the API reads other values than the guard:\n%+v\n%+v", parser, tool, arguments, got, want)
				}
			}
		}
	}
}

// decodeNumbers decodes JSON and keeps the digits of numbers.
func decodeNumbers(text string, to any) error {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	return decoder.Decode(to)
}

// A parserTest is a request that parsers may read in different ways.
type parserTest struct {
	name, line, contentType, body string
	passes                        bool // also if undeclared names are refused
}

// check sends the request to one API and reports whether it was called. It fails the test if the API has
// read other values than the guard.
func (p parserTest) check(s *sitetest.Site, parser string) (called bool) {
	s.T.Helper()
	headers := "User-Agent: " + parser + "\r\n"
	if p.contentType != "" {
		headers += "Content-Type: " + p.contentType + "\r\n"
	}
	response, err := http.ReadResponse(bufio.NewReader(strings.NewReader(s.Wire(sitetest.RawRequest(p.line+" HTTP/1.1", headers, p.body)))), nil)
	if err != nil {
		s.T.Fatalf("%s: %v", parser, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		s.T.Fatalf("%s: %v", parser, err)
	}
	if response.StatusCode == http.StatusForbidden || response.StatusCode == http.StatusBadRequest {
		if p.passes {
			s.T.Errorf("%s: refused: %s", parser, body)
		}
		return false
	}
	var got parsedRequest
	if err := json.Unmarshal(body, &got); err != nil || response.StatusCode != http.StatusOK || got.Error != "" {
		s.T.Fatalf("%s: %d %.1000s, %v", parser, response.StatusCode, body, err)
	}
	var exposed map[string]map[string]any
	if err := json.Unmarshal([]byte(response.Header.Get("OAgent-Exposes")), &exposed); err != nil {
		s.T.Fatalf("%s: exposed %q: %v", parser, response.Header, err)
	}
	_, target, _ := strings.Cut(p.line, " ")
	path, _, _ := strings.Cut(target, "?")
	if want := parsedAs(path, exposed); !sameRequest(got, want) {
		s.T.Errorf("%s reads other values than the guard:\n%+v\n%+v", parser, got, want)
	}
	return true
}

// parsedAs returns what a parser reads at a path if it reads what the guard has exposed.
func parsedAs(path string, exposed map[string]map[string]any) (want parsedRequest) {
	switch path {
	case "/forms":
		return guardRead(path, exposed["sendForm"], "_body")
	case "/uploads":
		return guardRead(path, exposed["upload"], "_body")
	case "/records":
		return parsedRequest{Path: path, JSON: merged(exposed["sendRecord"])}
	}
	id, _ := exposed["getItem"]["id"].(string)
	delete(exposed["getItem"], "id")
	want = guardRead("/items/"+id, exposed["getItem"], "_query")
	want.Query, want.Form = want.Form, nil
	return want
}

// merged adds the undeclared properties to the others.
func merged(inputs map[string]any) map[string]any {
	undeclared, _ := inputs["_body"].(map[string]any)
	delete(inputs, "_body")
	maps.Copy(inputs, undeclared)
	return inputs
}

// guardRead returns what a parser reads if it reads what the guard has read.
func guardRead(path string, inputs map[string]any, undeclared string) parsedRequest {
	p := parsedRequest{Path: path, Form: make(map[string][]string), Files: make(map[string][][2]string)}
	further, _ := inputs[undeclared].(map[string]any)
	delete(inputs, undeclared)
	maps.Copy(inputs, further)
	for name, value := range inputs {
		if list, ok := value.([]any); ok && undeclared == "_query" && len(list) == 1 {
			value = list[0]
		}
		switch value := value.(type) {
		case string:
			p.Form[name] = []string{value}
		case map[string]any:
			if data, ok := value["data"].(string); ok {
				filename, _ := value["filename"].(string)
				p.Files[name] = [][2]string{{filename, data}}
				continue
			}
			text, _ := json.Marshal(value)
			p.Form[name] = []string{string(text)}
		default:
			p.Form[name] = []string{fmt.Sprint(value)}
		}
	}
	return p
}

func sameRequest(a, b parsedRequest) bool {
	same := func(a, b map[string][]string) bool { return len(a) == 0 && len(b) == 0 || reflect.DeepEqual(a, b) }
	return a.Path == b.Path && same(a.Query, b.Query) && same(a.Form, b.Form) && reflect.DeepEqual(a.JSON, b.JSON) &&
		(len(a.Files) == 0 && len(b.Files) == 0 || reflect.DeepEqual(a.Files, b.Files))
}

// parserTests returns the requests. In a multipart body, B is the boundary and | is CR LF.
func parserTests() []parserTest {
	const (
		asForm  = "application/x-www-form-urlencoded"
		asJSON  = "application/json"
		asParts = "multipart/form-data; boundary=B"
		price   = `Content-Disposition: form-data; name="price"`
		note    = `Content-Disposition: form-data; name="note"`
		five    = "--B|" + price + "||5|"
	)
	var tests []parserTest
	add := func(name, line, contentType, body string, passes bool) {
		tests = append(tests, parserTest{name, line, contentType, body, passes})
	}
	parts := func(name string, passes bool, body string) {
		add("multipart/"+name, "POST /uploads", asParts, strings.ReplaceAll(body, "|", "\r\n"), passes)
	}
	parts("plain", true, five+"--B|"+note+"||a b é|--B|Content-Disposition: form-data; name=\"doc\"; filename=\"a.png\"|Content-Type: image/png||\x89PNG|\r\n--|--B--|")
	parts("a boundary after LF in a text", true, "--B|"+note+"||z\n--B\n"+price+"\n\n500|"+five+"--B--|")
	parts("a boundary after LF in a text, behind", true, five+"--B|"+note+"||z\n--B\n"+price+"\n\n500|--B--|")
	parts("a boundary after LF with CR LF lines", true, five+"--B|"+note+"||z\n--B|"+price+"||500|--B--|")
	parts("a boundary after CR in a text", true, five+"--B|"+note+"||z\r--B|"+price+"||500|--B--|")
	parts("a boundary after LF in a file", true, five+"--B|Content-Disposition: form-data; name=\"doc\"; filename=\"a\"||x\n--B\n"+price+"\n\n500|--B--|")
	parts("an undeclared field after LF", true, five+"--B|"+note+"||z\n--B\nContent-Disposition: form-data; name=\"is_admin\"\n\n1|--B--|")
	parts("a hidden file after LF", true, five+"--B|"+note+"||z\n--B\nContent-Disposition: form-data; name=\"f\"; filename=\"x.php\"\n\n<?php|--B--|")
	parts("the end after LF in a text", true, "--B|"+note+"||z\n--B--\n|"+five+"--B--|")
	parts("an epilogue", false, five+"--B--|--B|"+price+"||500|--B--|")
	parts("an epilogue of text", false, five+"--B--|more|--B--")
	parts("a preamble", false, "--B \n"+price+"\n\n500\n"+five+"--B--|")
	parts("space after a boundary", false, five+"--B  |"+price+"||500|--B--|")
	parts("a boundary that goes on", false, five+"--Bx|"+price+"||500|--B--|")
	parts("a field twice", false, five+"--B|"+price+"||500|--B--|")
	parts("two names", false, "--B|"+price+"; name=\"note\"||5|--B--|")
	parts("an extended name", false, "--B|"+price+"; name*=UTF-8''note||5|--B--|")
	parts("a name in two parts", false, "--B|Content-Disposition: form-data; name*0=pri; name*1=ce||5|--B--|")
	parts("a quote in a name", false, "--B|Content-Disposition: form-data; name=\"a\\\"; filename=\\\"x\"||5|--B--|")
	parts("an encoded quote in a name", false, "--B|Content-Disposition: form-data; name=\"a%22b\"||5|--B--|")
	parts("an encoded line break in a file name", false, "--B|Content-Disposition: form-data; name=\"doc\"; filename=\"a%0d%0ab\"||5|--B--|")
	parts("a path as a file name", false, "--B|Content-Disposition: form-data; name=\"doc\"; filename=\"../../x.php\"||5|--B--|")
	parts("an empty file name", false, "--B|Content-Disposition: form-data; name=\"doc\"; filename=\"\"||5|--B--|")
	parts("an empty file name of a text", false, "--B|"+note+"; filename=\"\"||5|--B--|")
	parts("base64", false, "--B|"+note+"|Content-Transfer-Encoding: base64||NTAw|--B--|")
	parts("a part in UTF-7", true, "--B|"+note+"|Content-Type: text/plain; charset=utf-7||+ADUAMAAw-|--B--|")
	parts("a part in UTF-16", false, "--B|"+note+"|Content-Type: text/plain; charset=utf-16||\xff\xfe5\x00|--B--|")
	parts("a text of the type of a file", true, "--B|"+note+"|Content-Type: application/octet-stream||500|--B--|")
	parts("parts in a part", false, "--B|"+note+"|Content-Type: multipart/mixed; boundary=C||--C|Content-Disposition: file; filename=\"x\"||5|--C--|--B--|")
	parts("a JSON string", false, "--B|"+note+"|Content-Type: application/json||\"500\"|--B--|")
	parts("a JSON object", true, "--B|Content-Disposition: form-data; name=\"any\"|Content-Type: application/json||{\"a\":1}|--B--|")
	parts("a header that is folded", true, "--B|Content-Disposition: form-data;| name=\"note\"||5|--B--|")
	parts("a header twice", false, "--B|"+note+"|"+price+"||5|--B--|")
	parts("an unquoted name", true, "--B|Content-Disposition: form-data; name=note||5|--B--|")
	parts("other case", true, "--B|CONTENT-DISPOSITION: FORM-DATA; NAME=\"note\"||5|--B--|")
	parts("a header of LF lines", true, "--B|X: y\n"+note+"\n\n500||5|--B--|")
	parts("another name", false, five+"--B|Content-Disposition: form-data; name=\"Price\"||500|--B--|")
	parts("brackets", false, five+"--B|Content-Disposition: form-data; name=\"price[]\"||500|--B--|")
	parts("a NUL in a name", false, five+"--B|Content-Disposition: form-data; name=\"price\x00\"||500|--B--|")
	parts("no end", false, five)
	parts("LF lines", false, strings.ReplaceAll(five+"--B--|", "|", "\n"))
	add("multipart/a quoted boundary", "POST /uploads", `multipart/form-data; boundary="B"`, strings.ReplaceAll(five+"--B--|", "|", "\r\n"), true)
	add("multipart/two boundaries", "POST /uploads", "multipart/form-data; boundary=B; boundary=C", strings.ReplaceAll(five+"--B--|", "|", "\r\n"), false)
	add("multipart/an extended boundary", "POST /uploads", "multipart/form-data; boundary=B; boundary*=UTF-8''C", strings.ReplaceAll(five+"--B--|", "|", "\r\n"), false)
	add("multipart/two types", "POST /uploads", "multipart/form-data; boundary=B, multipart/form-data; boundary=C", strings.ReplaceAll(five+"--B--|", "|", "\r\n"), false)

	form := func(name, body string, passes bool) { add("form/"+name, "POST /forms", asForm, body, passes) }
	query := func(name, query string, passes bool) { add("query/"+name, "GET /items/7?"+query, "", "", passes) }
	for _, both := range []func(name, text string, passes bool){form, query} {
		both("plain", "price=5&note=a+b%20c%C3%A9", true)
		both("empty", "price=5&note=", true)
		both("no value", "price=5&note", true)
		both("empty pairs", "&&price=5&&note=a&", true)
		both("an equals sign", "price=5&note=a=b=%3D", true)
		both("reserved characters", "price=5&note=:/?@!$'()*,[]{}|^", true)
		both("an encoded name", "%70rice=5&n%6Fte=%26price=500", true)
		both("bytes that are not ASCII", "price=5&note=\xc3\xa9", true)
		both("an encoded NUL", "price=5&note=a%00b", true)
		both("a semicolon", "price=5;price=500", false)
		both("a semicolon in a text", "note=a;price=500", false)
		both("twice", "price=5&price=500", false)
		both("other case", "price=5&Price=500", false)
		both("brackets", "price=5&price[]=500", false)
		both("encoded brackets", "price=5&price%5B%5D=500", false)
		both("a space before the name", "price=5&+price=500", false)
		both("a NUL in the name", "price=5&price%00x=500", false)
		both("an escape that is none", "price=5&note=%zz", false)
		both("half an escape", "price=5&note=%2", false)
		both("an escape of IIS", "price=5&note=%u0041", false)
		both("no UTF-8", "price=5&note=%ff", false)
		both("a number in another form", "price=+5", false)
		both("too many", strings.Repeat("x=1&", 1000)+"price=5", false)
	}
	form("a line at the end", "price=5&note=a\r\n", true)
	form("a space and a quote", "price=5&note=a b\"<>\\`", true)
	add("form/another charset", "POST /forms", asForm+"; charset=utf-7", "note=+ADU-", false)
	add("form/as parts", "POST /forms", asParts, strings.ReplaceAll(five+"--B--|", "|", "\r\n"), false)
	add("form/two types", "POST /forms", asForm+", "+asJSON, "price=5", false)

	record := func(name, body string, passes bool) { add("json/"+name, "POST /records", asJSON, body, passes) }
	record("plain", `{"price":5,"note":"é\u00e9\ud83d\ude00\u0000\/"}`, true)
	record("white space", "\t{\"price\" : 5 }\r\n", true)
	record("numbers", `{"price":5e0,"note":"x"}`, false)
	record("a fraction", `{"price":5.0}`, true)
	record("twice", `{"price":5,"price":500}`, false)
	record("twice, escaped", `{"price":5,"pric\u0065":500}`, false)
	record("other case", `{"price":5,"PRICE":500}`, false)
	record("half a surrogate", `{"note":"\ud800"}`, false)
	record("no UTF-8", "{\"note\":\"\xff\"}", false)
	record("a comment", `{"price":5/*,"price":500*/}`, false)
	record("a comma at the end", `{"price":5,}`, false)
	record("more after the end", `{"price":5}{"price":500}`, false)
	record("a byte order mark", "\xef\xbb\xbf{\"price\":5}", false)
	record("a NUL at the end", "{\"price\":5}\x00", false)
	record("NaN", `{"price":NaN}`, false)
	record("a prototype", `{"price":5,"__proto__":{"price":500}}`, false)
	add("json/in UTF-16", "POST /records", asJSON+"; charset=utf-16", sitetest.InUTF16(`{"price":5}`), false)
	add("json/as a form", "POST /records", asForm, "price=5", false)

	path := func(name, id string, passes bool) { add("path/"+name, "GET /items/"+id, "", "", passes) }
	path("plain", "a-7.b~c", true)
	path("encoded", "a%20b%3Bc%C3%A9%2Bd+e", true)
	path("a slash inside", "a%2Fb", true)
	path("bytes that are not ASCII", "\xc3\xa9", true)
	path("a plain semicolon", "99;v=1", false)
	path("a plain semicolon first", ";99", false)
	path("a slash first", "%2f99", false)
	path("a slash last", "99%2f", false)
	path("two slashes", "a%2f%2f99", false)
	path("a slash encoded twice", "99%252f", false)
	path("a backslash last", "99%5c", false)
	path("a raw slash", "99/", false)
	path("dots", "..%2f99", false)
	path("a NUL", "99%00", false)
	path("no UTF-8", "%ff", false)
	return tests
}
