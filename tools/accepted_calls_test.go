package tools

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/tools/schema"
)

// recordCalls writes the calls that this version accepts, for later versions.
var recordCalls = flag.Bool("record-calls", false, "write random calls that are accepted to testdata/accepted-calls.jsonl.gz")

// acceptedCalls has random calls that an earlier version accepted, one a line.
var acceptedCalls = filepath.Join("testdata", "accepted-calls.jsonl.gz")

// A recordedCall is one line of acceptedCalls.
type recordedCall struct {
	Document  string          `json:"d"`
	Tool      string          `json:"t"`
	Arguments json.RawMessage `json:"a"`
}

// renamed has the names that have changed since acceptedCalls was written: "document tool" or "document tool.argument",
// each with the new name of the tool or the argument. docs/upgrade.md lists them.
var renamed = map[string]string{}

// TestCalls_of_the_listed_schema_are_accepted makes random calls from what clients see of the tools.
func TestCalls_of_the_listed_schema_are_accepted(t *testing.T) {
	var recorded []recordedCall
	others := []string{"adyen-checkout-v71.json", "intercom.yaml", "openai.json", "pagerduty-rest.json", "plaid.yaml"}
	for _, name := range append(others, slices.Sorted(maps.Keys(testkit.Documents()))...) {
		t.Run(name, func(t *testing.T) {
			toolset, unmade := realTools(t, name), 0
			for _, tool := range toolset.Tools() {
				calls := randomCalls(t, tool, name)
				if len(calls) == 0 {
					unmade++
				}
				for _, arguments := range calls {
					recorded = append(recorded, recordedCall{name, tool.Name, arguments})
				}
			}
			if all := len(toolset.Tools()); unmade*50 > all {
				t.Errorf("no valid call was made for %d of %d tools", unmade, all)
			}
		})
	}
	if *recordCalls {
		writeCalls(t, recorded)
	}
}

// TestCalls_that_were_accepted_are_accepted makes the calls that an earlier version accepted.
func TestCalls_that_were_accepted_are_accepted(t *testing.T) {
	file, err := os.Open(acceptedCalls)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	calls, refused := 0, 0
	lines := bufio.NewScanner(unpacked)
	for lines.Buffer(nil, 1<<20); lines.Scan(); calls++ {
		var call recordedCall
		if err := json.Unmarshal(lines.Bytes(), &call); err != nil {
			t.Fatal(err)
		}
		if err := call.replay(t); err != nil {
			if refused++; refused <= 20 {
				t.Errorf("%s: %v\n%.500s", call.Document, err, call.Arguments)
			}
		}
	}
	if err := lines.Err(); err != nil || calls < 3000 || refused > 20 {
		t.Errorf("%d of %d calls are refused, %v", refused, calls, err)
	}
}

// replay makes the call with the names of today.
func (c recordedCall) replay(t *testing.T) error {
	name := c.Tool
	if now, changed := renamed[c.Document+" "+c.Tool]; changed {
		name = now
	}
	tool, known := realTools(t, c.Document).Tool(name)
	if !known {
		return fmt.Errorf("tool %s does not exist: if its new name is right, add it to renamed and to docs/upgrade.md", name)
	}
	var arguments strictjson.ObjectBuilder
	if err := strictjson.Split(c.Arguments, func(quoted, value jsontext.Value) {
		argument := strictjson.Text(quoted)
		if now, changed := renamed[c.Document+" "+c.Tool+"."+argument]; changed {
			argument = now
		}
		arguments.Add(argument, value)
	}); err != nil {
		return err
	}
	return accepted(tool, arguments.Close())
}

// accepted returns why the tool does not take the arguments, or nil.
func accepted(tool *Tool, arguments []byte) error {
	call, err := tool.Bind(arguments)
	if err != nil {
		return err
	}
	_, err = call.Request(context.Background())
	return err
}

// writeCalls writes the file of accepted calls. Long ones are left out.
func writeCalls(t *testing.T, calls []recordedCall) {
	t.Helper()
	file, err := os.Create(acceptedCalls)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	packed, _ := gzip.NewWriterLevel(file, gzip.BestCompression)
	for _, call := range calls {
		if line, err := json.Marshal(call); err != nil {
			t.Fatal(err)
		} else if len(line) <= 1500 {
			fmt.Fprintf(packed, "%s\n", line)
		}
	}
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
}

// randomCalls returns two random calls, one with few arguments and one with more, that are valid for the listed schema.
// It checks that they are accepted.
func randomCalls(t *testing.T, tool *Tool, document string) (calls []json.RawMessage) {
	t.Helper()
	seed := fnv.New64a()
	fmt.Fprint(seed, document, tool.Name)
	root, err := strictjson.Decode(tool.Definition.InputSchema)
	if err != nil {
		t.Fatal(err)
	}
	g := &callGenerator{random: rand.New(rand.NewPCG(seed.Sum64(), 1)), root: root.(map[string]any)} //nolint:gosec // for tests
	var listed *schema.Compiled
	for _, g.optional = range []float64{0.1, 0.5} {
		for range 5 {
			value := g.arguments(tool)
			arguments, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			if err = accepted(tool, arguments); err == nil {
				calls = append(calls, arguments)
				break
			}
			if listed == nil {
				if listed, err = schema.Compile(tool.Definition.InputSchema); err != nil {
					t.Fatal(err)
				}
			}
			decoded, _ := strictjson.Decode(arguments)
			if reason := accepted(tool, arguments); listed.Validate(decoded) == nil && !tool.Definition.Simplified {
				t.Errorf("%s is refused: %v\n%.600s", tool.Name, reason, arguments)
				break
			}
		}
	}
	return calls
}

// A callGenerator makes random values from JSON Schemas. Not each of them fits: patterns, conditions and combinations of
// keywords are only tried.
type callGenerator struct {
	random   *rand.Rand
	root     map[string]any // the schema, with its $defs
	optional float64        // how probable an optional property is
}

// arguments returns arguments of the tool. If the body is optional and begun, its required properties are given.
func (g *callGenerator) arguments(tool *Tool) any {
	value, _ := g.value(g.root, 0).(map[string]any)
	if value == nil {
		value = make(map[string]any)
	}
	properties, _ := g.root["properties"].(map[string]any)
	begun := slices.ContainsFunc(tool.Definition.Arguments, func(a Argument) bool { _, given := value[a.Name]; return given && a.In == InBody })
	for i, a := range tool.Plan.Arguments {
		_, given := value[a.Name]
		switch {
		case tool.Plan.Encodings[i].Filled:
		case begun && a.In == InBody && tool.Plan.Encodings[i].NeededInBody && !given:
			value[a.Name] = g.value(properties[a.Name], 1)
		case tool.Plan.Encodings[i].DropNull && !given && g.random.Float64() < 0.05:
			value[a.Name] = nil // clients that set each argument that they know
		}
	}
	if tool.Plan.Undeclared.Open && begun && g.random.Float64() < 0.3 {
		value["x_undeclared"] = g.value(g.root["additionalProperties"], 1)
	}
	return value
}

// value returns a value for the schema.
func (g *callGenerator) value(of any, depth int) any {
	s, isObject := of.(map[string]any)
	switch {
	case depth > 12:
		return map[string]any{}
	case !isObject:
		return []any{"text", json.Number("7"), true, map[string]any{"a": "b"}}[g.random.IntN(4)]
	}
	if ref, ok := s["$ref"].(string); ok {
		definitions, _ := g.root["$defs"].(map[string]any)
		return g.value(definitions[strings.TrimPrefix(ref, "#/$defs/")], depth+1)
	}
	if constant, ok := s["const"]; ok {
		return constant
	}
	if values, ok := s["enum"].([]any); ok && len(values) > 0 {
		return values[g.random.IntN(len(values))]
	}
	for _, keyword := range []string{"anyOf", "oneOf", "allOf"} {
		parts, _ := s[keyword].([]any)
		if len(parts) == 0 {
			continue
		}
		rest := maps.Clone(s)
		delete(rest, keyword)
		if keyword != "allOf" {
			parts = parts[g.random.IntN(len(parts)):][:1]
		}
		return g.value(g.merge(rest, parts), depth+1)
	}
	return g.typed(s, depth)
}

// merge returns one schema with the keywords of all. Objects among them get the properties of all.
func (g *callGenerator) merge(into map[string]any, parts []any) map[string]any {
	for _, part := range parts {
		p, _ := part.(map[string]any)
		if ref, ok := p["$ref"].(string); ok {
			definitions, _ := g.root["$defs"].(map[string]any)
			p, _ = definitions[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
		}
		for keyword, value := range p {
			switch known := into[keyword].(type) {
			case map[string]any:
				if more, ok := value.(map[string]any); ok {
					both := maps.Clone(known)
					maps.Copy(both, more)
					value = both
				}
			case []any:
				if more, ok := value.([]any); ok && keyword == "required" {
					value = append(slices.Clone(known), more...)
				}
			}
			into[keyword] = value
		}
	}
	return into
}

// typed returns a value of one of the types of the schema.
func (g *callGenerator) typed(s map[string]any, depth int) any {
	types := []any{s["type"]}
	if several, ok := s["type"].([]any); ok {
		types = several
	}
	switch types[g.random.IntN(len(types))] {
	case "string":
		return g.text(s)
	case "integer":
		form := []string{"%.0f", "%.0f", "%.0f", "%.1f"}[g.random.IntN(4)] // some clients write 7.0
		return json.Number(fmt.Sprintf(form, g.number(s, true)))
	case "number":
		return g.number(s, false)
	case "boolean":
		return g.random.IntN(2) == 0
	case "null":
		return nil
	case "array":
		return g.list(s, depth)
	case "object":
		return g.object(s, depth)
	}
	if s["properties"] != nil {
		return g.object(s, depth)
	}
	return g.value(nil, depth)
}

func (g *callGenerator) object(s map[string]any, depth int) any {
	value := make(map[string]any)
	properties, _ := s["properties"].(map[string]any)
	required, _ := s["required"].([]any)
	if data, _ := properties["data"].(map[string]any); data["contentEncoding"] != nil { // request.FileSchema
		return map[string]any{"data": "YWJj", "type": "text/plain"}
	}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if slices.Contains(required, any(name)) || depth < 5 && g.random.Float64() < g.optional {
			value[name] = g.value(properties[name], depth+1)
		}
	}
	for _, name := range required {
		if _, given := value[name.(string)]; !given {
			value[name.(string)] = g.value(s["additionalProperties"], depth+1)
		}
	}
	for i := 0; len(value) < int(bound(s, "minProperties", 0)); i++ {
		value[fmt.Sprintf("key%d", i)] = g.value(s["additionalProperties"], depth+1)
	}
	return value
}

func (g *callGenerator) list(s map[string]any, depth int) any {
	list := make([]any, int(min(bound(s, "minItems", 0)+float64(g.random.IntN(2)), bound(s, "maxItems", math.Inf(1)))))
	for i := range list {
		list[i] = g.value(s["items"], depth+1)
	}
	return list
}

// bound returns the number that a keyword gives.
func bound(s map[string]any, keyword string, standard float64) float64 {
	text, ok := s[keyword].(json.Number)
	if !ok {
		return standard
	}
	number, _ := text.Float64()
	return number
}

func (g *callGenerator) number(s map[string]any, whole bool) float64 {
	low := max(bound(s, "minimum", math.Inf(-1)), bound(s, "exclusiveMinimum", math.Inf(-1))+1)
	high := min(bound(s, "maximum", math.Inf(1)), bound(s, "exclusiveMaximum", math.Inf(1))-1)
	number := float64(g.random.IntN(100))
	if !whole && s["multipleOf"] == nil {
		number += 0.5
	}
	if step := bound(s, "multipleOf", 0); step > 0 {
		number, low = number*step, math.Ceil(low/step)*step
	}
	return min(max(number, low), high)
}

func (g *callGenerator) text(s map[string]any) any {
	switch s["format"] {
	case "date":
		return "2025-01-31"
	case "date-time":
		return "2025-01-31T12:00:00Z"
	case "uuid":
		return "00000000-0000-4000-8000-000000000000"
	case "email":
		return "a@example.com"
	case "uri", "url":
		return "https://example.com/a"
	}
	low, high := bound(s, "minLength", 1), bound(s, "maxLength", 1e4)
	length := int(min(low+float64(g.random.IntN(8)), high))
	text := strings.Repeat([]string{"abcdefgh", "a+b&c =%", "12345678"}[g.random.IntN(3)], length/8+1)[:length]
	pattern, _ := s["pattern"].(string)
	if matches, err := regexp.Compile(pattern); err != nil || matches.MatchString(text) {
		return text
	}
	parsed, _ := syntax.Parse(pattern, syntax.Perl)
	return g.matching(parsed.Simplify())
}

// matching returns a text that the expression matches, if it has no assertions inside.
func (g *callGenerator) matching(e *syntax.Regexp) string {
	var b strings.Builder
	least, most := 1, 1
	switch e.Op {
	case syntax.OpLiteral:
		return string(e.Rune)
	case syntax.OpCharClass:
		at := 2 * g.random.IntN(len(e.Rune)/2)
		return string(max(e.Rune[at], min('-', e.Rune[at+1])))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return "a"
	case syntax.OpAlternate:
		return g.matching(e.Sub[g.random.IntN(len(e.Sub))])
	case syntax.OpStar, syntax.OpQuest:
		least = 0
	case syntax.OpPlus:
		most = 3
	}
	for range least + g.random.IntN(most-least+1) {
		for _, part := range e.Sub {
			b.WriteString(g.matching(part))
		}
	}
	return b.String()
}
