package mcpadapter

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/mcpadapter/internal/content"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/tools"
)

// describedAnswers is a document whose answers are described in every way that matters.
const describedAnswers = `
openapi: 3.1.0
info: {title: Stations, version: "1"}
paths:
  /one: {get: {operationId: one, responses: {'200': {description: it, content: {application/json: {schema: {$ref: '#/components/schemas/station'}}}}}}}
  /list: {get: {operationId: list, responses: {'200': {description: them, content: {application/json: {schema: {type: array, items: {$ref: '#/components/schemas/station'}}}}}}}}
  /count: {get: {operationId: count, responses: {'200': {description: number, content: {application/json: {schema: {type: [integer, 'null'], minimum: 0}}}}}}}
  /maybe: {get: {operationId: maybe, responses: {'200': {description: it, content: {application/json: {schema: {$ref: '#/components/schemas/station'}}}}, '204': {description: none}}}}
  /either: {get: {operationId: either, responses: {'200': {description: it, content: {application/json: {schema: {type: object}}, text/csv: {}}}}}}
  /plain: {get: {operationId: plain, responses: {'200': {description: it, content: {text/plain: {schema: {type: string}}}}}}}
  /native: {get: {operationId: native, responses: {'200': {description: it, content: {application/vnd.mcp.result+json: {schema: {type: object}}}}}}}
components:
  schemas:
    station:
      type: object
      additionalProperties: false
      required: [id, name]
      properties:
        id: {type: string, format: uuid, pattern: '^(?i)x|[^x]', description: Its id}
        name: {type: string, minLength: 1}
        kind: {type: string, enum: [halt, terminal]}
        next: {$ref: '#/components/schemas/station'}
        platforms: {type: array, items: {oneOf: [{type: integer}, {type: number}]}}
        free: true
        opened: {type: string, format: date-time}
`

// answers are the responses of the API by path: content type and body.
type answers map[string][2]string

func (a answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, ok := a[strings.TrimPrefix(r.URL.Path, "/")]
	if !ok {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if answer[0] != "" {
		w.Header().Set("Content-Type", answer[0])
	}
	fmt.Fprint(w, answer[1])
}

func describing(t testing.TB, mode OutputSchema, a answers) (*Server, *tools.Toolset, tools.Caller) {
	toolset := buildTools(t, describedAnswers, tools.BuildOptions{Name: "stations", ResponseSchemas: true})
	return New(Options{OutputSchema: mode}), toolset, api{toolset, a.ServeHTTP}
}

// listedOutputs returns the outputSchema of each tool.
func listedOutputs(t *testing.T, s *Server, toolset *tools.Toolset, v protocol.Revision) map[string]json.RawMessage {
	t.Helper()
	r := conformant(v, "tools/list", "")
	r.server, r.tools = s, toolset
	var got struct {
		Tools []struct {
			Name         string
			OutputSchema json.RawMessage
		}
	}
	r.result(t, "ListToolsResult", &got)
	listed := make(map[string]json.RawMessage)
	for _, tool := range got.Tools {
		if tool.OutputSchema != nil {
			listed[tool.Name] = tool.OutputSchema
		}
	}
	return listed
}

func TestOutputSchema_is_listed(t *testing.T) {
	for _, c := range []struct {
		mode    OutputSchema
		version protocol.Revision
		want    string // tools that have one
	}{
		{"", protocol.V20251125, ""},
		{OutputOff, protocol.V20260728, ""},
		{OutputLoose, protocol.V20250326, ""},
		{OutputLoose, protocol.V20250618, "count either list maybe one"},
		{OutputLoose, protocol.V20260728, "count either list maybe one"},
		{OutputStrict, protocol.V20251125, "count list one"},
		{OutputStrict, protocol.V20260728, "count list one"},
	} {
		s, toolset, _ := describing(t, c.mode, nil)
		listed := listedOutputs(t, s, toolset, c.version)
		var names []string
		for _, name := range []string{"count", "either", "list", "maybe", "native", "one", "plain"} {
			if listed[name] != nil {
				names = append(names, name)
			}
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%s in %v: %s", c.mode, c.version, got)
		}
	}
}

func TestOutputSchema_forms(t *testing.T) {
	for _, c := range []struct {
		mode       OutputSchema
		version    protocol.Revision
		tool, want string
	}{
		{OutputLoose, protocol.V20251125, "count", `{"type":"object","properties":{"result":{"description":"integer or null"}}}`},
		{OutputStrict, protocol.V20251125, "count", `{"type":"object","properties":{"result":{"type":["integer","null"],"minimum":0}},"required":["result"]}`},
		{OutputLoose, protocol.V20260728, "count", `{"description":"integer or null"}`},
		{OutputStrict, protocol.V20260728, "count", `{"type":["integer","null"],"minimum":0}`},
	} {
		s, toolset, _ := describing(t, c.mode, nil)
		if got := string(listedOutputs(t, s, toolset, c.version)[c.tool]); got != c.want {
			t.Errorf("%s %s in %v: %s", c.mode, c.tool, c.version, got)
		}
	}
	s, toolset, _ := describing(t, OutputStrict, nil)
	one := string(listedOutputs(t, s, toolset, protocol.V20251125)["one"])
	for _, keyword := range []string{"pattern", "format", "oneOf"} {
		if strings.Contains(one, `"`+keyword+`"`) {
			t.Errorf("clients are to judge %s: %s", keyword, one)
		}
	}
	s, toolset, _ = describing(t, OutputLoose, nil)
	one = string(listedOutputs(t, s, toolset, protocol.V20251125)["one"])
	for _, want := range []string{`"description":"string (uuid). Its id"`, `one of \"halt\",\"terminal\"`} {
		if !strings.Contains(one, want) {
			t.Errorf("%s is not in %s", want, one)
		}
	}
}

// outputAnswers are valid and invalid responses of the API.
var outputAnswers = []answers{
	{
		"one": {"application/json", `{"id":"a","name":"b","opened":"long ago","platforms":[1.5],"free":{}}`}, "list": {"application/json", `[{"id":"a","name":"b"}]`},
		"count": {"application/json", `7`}, "maybe": {"application/json", `{"id":"a","name":"b"}`}, "either": {"application/json", `{}`},
	},
	{
		"one": {"application/json", `{"id":7,"other":true}`}, "list": {"application/json", `{"id":"a"}`},
		"count": {"application/json", `-1`}, "either": {"text/csv", "a,b"},
	},
	{
		"one": {"application/json", `null`}, "list": {"application/json", `"x"`},
		"count": {"application/json", `null`}, "maybe": {"application/json", `[]`}, "either": {"application/json", `0`},
	},
	{
		"one": {"application/json", `{"id":`}, "list": {"text/plain", "x"}, "count": {"image/png", "x"}, "maybe": {"text/html", "<p>"}, "either": {"application/json", `false`},
	},
	{},
}

// For every response of the API, structuredContent matches the schema in tools/list, or the result
// is an error without structuredContent.
func TestAnswers_fit_the_listed_schema(t *testing.T) {
	for _, mode := range []OutputSchema{OutputLoose, OutputStrict} {
		for number, a := range outputAnswers {
			s, toolset, caller := describing(t, mode, a)
			for _, v := range []protocol.Revision{protocol.V20250618, protocol.V20251125, protocol.V20260728} {
				for name, raw := range listedOutputs(t, s, toolset, v) {
					r := conformant(v, "tools/call", `"name":"`+name+`"`)
					r.server, r.tools, r.caller = s, toolset, caller
					var got toolResult
					r.result(t, "CallToolResult", &got)
					at := fmt.Sprintf("%s answer %d of %s in %v", mode, number, name, v)
					switch {
					case got.IsError && got.StructuredContent != nil:
						t.Errorf("%s: an error with structuredContent", at)
					case !got.IsError && got.StructuredContent == nil:
						t.Errorf("%s: no structuredContent", at)
					case !got.IsError && !fitsSchema(t, raw, got.StructuredContent):
						t.Errorf("%s: %s does not fit %s", at, got.StructuredContent, raw)
					case got.IsError && (mode == OutputLoose && a[name][0] != "text/html" || number == 0):
						t.Errorf("%s: %s", at, words(got))
					case got.IsError && mode == OutputStrict && !testkit.ContainsAll(words(got), "status 200") && !testkit.ContainsAll(words(got), "status 204"):
						t.Errorf("%s: %s", at, words(got))
					}
				}
			}
		}
	}
}

func fitsSchema(t *testing.T, schema, value []byte) bool {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("output.json", document); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile("output.json")
	if err != nil {
		t.Fatalf("%v in %s", err, schema)
	}
	return compiled.Validate(instance) == nil
}

func TestStrictOutput_mismatch_has_a_path(t *testing.T) {
	s, toolset, caller := describing(t, OutputStrict, outputAnswers[1])
	r := conformant(protocol.V20251125, "tools/call", `"name":"one"`)
	r.server, r.tools, r.caller = s, toolset, caller
	var got toolResult
	r.result(t, "CallToolResult", &got)
	if text := words(got); !strings.Contains(text, "/id") || !strings.HasSuffix(text, `|{"id":7,"other":true}`) {
		t.Errorf("got %q", text)
	}
}

// callAllTools lists the tools of each endpoint and calls them all with the client of a package. It
// prints the results of each endpoint.
const callAllTools = `
const [sdk, ...urls] = process.argv.slice(1);
const all = [];
for (const url of urls) {
	let client, transport;
	if (sdk === 'sdk') {
		const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
		const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
		client = new Client({ name: 'test', version: '1' });
		transport = new StreamableHTTPClientTransport(new URL(url));
	} else {
		const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
		client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode: { pin: '2026-07-28' } } });
		transport = new StreamableHTTPClientTransport(new URL(url));
	}
	await client.connect(transport);
	const out = {};
	for (const { name } of (await client.listTools()).tools) {
		try {
			const { isError, structuredContent } = await client.callTool({ name, arguments: {} });
			out[name] = isError ? 'error' : JSON.stringify(structuredContent) ?? 'none';
		} catch (e) {
			out[name] = 'BROKE: ' + e.message;
		}
	}
	all.push(out);
	await client.close();
}
console.log(JSON.stringify(all));
`

// The official clients check answers against the outputSchema and throw away those
// that depart from it.
func TestTypeScript_clients_take_every_answer(t *testing.T) {
	modules, err := filepath.Abs(filepath.Join("..", "testdata", "npm"))
	if err != nil {
		t.Fatal(err)
	}
	node := filepath.Join(modules, "node_modules", ".bin", "node")
	if _, err := os.Stat(filepath.Join(modules, "node_modules", "@modelcontextprotocol")); err != nil {
		testkit.Missing(t, "the npm clients are not installed: run npm ci --ignore-scripts in testdata/npm")
	}
	if _, err := os.Stat(node); err != nil {
		if node, err = exec.LookPath("node"); err != nil {
			testkit.Missing(t, "Node is not installed")
		}
	}
	type endpoint struct {
		mode   OutputSchema
		answer int
	}
	var endpoints []endpoint
	var urls []string
	for _, mode := range []OutputSchema{OutputLoose, OutputStrict} {
		for number, a := range outputAnswers {
			toolset := buildTools(t, describedAnswers, tools.BuildOptions{Name: "stations", ResponseSchemas: true})
			a = maps.Clone(a)
			a["native"] = [2]string{content.NativeType, `{"content":[]}`}
			e := serveEndpoint(t, Options{OutputSchema: mode}, api{toolset, a.ServeHTTP})
			e.tools.Store(toolset)
			endpoints, urls = append(endpoints, endpoint{mode, number}), append(urls, e.URL+"/mcp")
		}
	}
	for _, sdk := range []string{"sdk", "client"} {
		// One process calls all endpoints, because starting Node takes most of the time.
		cmd := exec.CommandContext(t.Context(), node, append([]string{"--input-type=module", "-e", callAllTools, sdk}, urls...)...)
		cmd.Dir, cmd.WaitDelay = modules, time.Second
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v: %s", sdk, err, stderr.String())
		}
		var all []map[string]string
		if err := json.Unmarshal(out, &all); err != nil || len(all) != len(endpoints) {
			t.Fatalf("%s: %v: %s", sdk, err, out)
		}
		for i, results := range all {
			if len(results) != 7 {
				t.Fatalf("%s with answer %d in %s: %v", endpoints[i].mode, endpoints[i].answer, sdk, results)
			}
			for name, result := range results {
				if strings.HasPrefix(result, "BROKE") || endpoints[i].answer == 0 && result == "error" {
					t.Errorf("%s with answer %d of %s in %s: %s", endpoints[i].mode, endpoints[i].answer, name, sdk, result)
				}
			}
		}
	}
}

func TestLarge_structure_is_noted_once(t *testing.T) {
	var noted []string
	s := New(Options{OnLargeStructure: func(tool *tools.Tool, size int) {
		noted = append(noted, fmt.Sprint(tool.Name, size > advisedStructure))
	}})
	large := answered(200, "application/json", `{"a":"`+strings.Repeat("x", advisedStructure)+`"}`)
	small := answered(200, "application/json", `{"a":1}`)
	for _, outcome := range []tools.Outcome{small, large, large} {
		for _, v := range revisions {
			r := call(v, returning(outcome))
			r.server = s
			r.Send(t)
		}
	}
	if strings.Join(noted, " ") != "get_triptrue" {
		t.Errorf("noted %q", noted)
	}
}

// What an API that speaks MCP itself puts there is as large for a host.
func TestLarge_structure_of_the_API_is_noted(t *testing.T) {
	var noted []string
	e := serveAPI(t, func(w http.ResponseWriter, _ *http.Request) {
		answerNative(w, `{"structuredContent":{"a":"`+strings.Repeat("x", advisedStructure)+`"}}`)
	})
	e.server.options.OnLargeStructure = func(tool *tools.Tool, _ int) { noted = append(noted, tool.Name) }
	for _, v := range revisions {
		newClient(t, e, v, `{}`).call(t, "native", `{}`)
	}
	if strings.Join(noted, " ") != "native" {
		t.Errorf("noted %q", noted)
	}
}
