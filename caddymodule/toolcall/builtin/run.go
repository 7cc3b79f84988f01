package builtin

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/mcpadapter/elicit"
	"github.com/fairwayhq/fairway/ocp/shape"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// Limits of the answers of search_tools and describe_tools.
const (
	defaultFound  = 10       // tools that search_tools returns by default; as builtin.yaml says
	maxSummary    = 160      // bytes of a tool's summary in the answer of search_tools
	maxRequired   = 12       // required arguments of a tool in the answer of search_tools
	maxDescribed  = 64 << 10 // bytes of the answer of describe_tools; the first tool is described in any case
	maxRepeatedly = 128      // bytes of an unknown name that an answer repeats
)

// Kinds of tools, as the answers name them.
const (
	kindRead  = "read"
	kindWrite = "write"
)

// Search runs search_tools: it returns the tools that fit the queries, best first, and only those for
// which allowed returns true.
//
//	{"tools":[{"name":"…","kind":"read","summary":"…","required":["…"]}]}
func Search(set *tool.Toolset, call *tool.Call, allowed func(*tool.Tool) bool) *tool.Result {
	arguments := call.Arguments()
	var queries []string
	switch given := arguments["queries"].(type) {
	case string:
		queries = []string{given}
	case []any:
		queries = texts(given)
	}
	limit := defaultFound
	if number, ok := arguments["limit"].(json.Number); ok {
		if n, err := number.Int64(); err == nil {
			limit = int(n) // the schema limits it
		}
	}
	b := []byte(`{"tools":[`)
	found := set.Find(queries, limit, allowed)
	for i, t := range found {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendFound(b, t)
	}
	b = append(b, ']')
	if len(found) == 0 {
		b = append(b, `,"hint":"No tool fits. Search for what the tool does and for the things it works on, in other words."`...)
	}
	return answer(append(b, '}'))
}

// appendFound appends a tool as search_tools returns it.
func appendFound(b []byte, t *tool.Tool) []byte {
	b = wire.AppendString(append(b, `{"name":`...), t.Name)
	b = wire.AppendString(append(b, `,"kind":`...), kindOf(t))
	b = wire.AppendString(append(b, `,"summary":`...), summary(t))
	var required []string
	for i := range t.Arguments {
		if a := &t.Arguments[i]; a.Required && !a.NonInferrable && len(required) < maxRequired {
			required = append(required, a.Name)
		}
	}
	if len(required) > 0 {
		b = wire.AppendStrings(append(b, `,"required":`...), required)
	}
	return append(b, '}')
}

// summary returns one line about a tool: its title, or else the start of its description.
func summary(t *tool.Tool) string {
	line := t.Title
	if line == "" {
		line, _, _ = strings.Cut(strings.TrimSpace(t.Description), "\n\n")
		line, _, _ = strings.Cut(line, ". ")
	}
	if line = text.Cut(strings.Join(strings.Fields(line), " "), maxSummary); t.Deprecated {
		line += " (deprecated)"
	}
	return line
}

func kindOf(t *tool.Tool) string {
	if t.Hint(shape.ReadOnlyHint) {
		return kindRead
	}
	return kindWrite
}

// Describe runs describe_tools: it returns the descriptions and schemas of the named tools, and only of
// those for which allowed returns true. If the answer became too large, it leaves tools out and names
// them in "omitted".
//
//	{"tools":[{"name":"…","kind":"read","title":"…","description":"…","inputSchema":{…}}],
//	 "omitted":["…"],"unknown":[{"name":"…","similar":["…"]}]}
func Describe(set *tool.Toolset, call *tool.Call, allowed func(*tool.Tool) bool) *tool.Result {
	names, _ := call.Arguments()["names"].([]any)
	var omitted []string
	var unknown []byte
	b := []byte(`{"tools":[`)
	described := map[string]bool{}
	for _, name := range texts(names) {
		t, ok := set.Tool(name)
		if !ok || t.Builtin == "" && !allowed(t) {
			if unknown != nil {
				unknown = append(unknown, ',')
			}
			unknown = appendUnknown(unknown, set, name, allowed)
			continue
		}
		if described[name] {
			continue
		}
		before := len(b)
		if len(described) > 0 {
			b = append(b, ',')
		}
		if b = appendDescribed(b, t); len(b) > maxDescribed && len(described) > 0 {
			b = b[:before]
			omitted = append(omitted, name)
			continue
		}
		described[name] = true
	}
	b = append(b, ']')
	if omitted != nil {
		b = wire.AppendStrings(append(b, `,"omitted":`...), omitted)
	}
	if unknown != nil {
		b = append(append(append(b, `,"unknown":[`...), unknown...), ']')
	}
	return answer(append(b, '}'))
}

func appendDescribed(b []byte, t *tool.Tool) []byte {
	b = wire.AppendString(append(b, `{"name":`...), t.Name)
	b = wire.AppendString(append(b, `,"kind":`...), kindOf(t))
	if t.Title != "" {
		b = wire.AppendString(append(b, `,"title":`...), t.Title)
	}
	b = wire.AppendString(append(b, `,"description":`...), t.Description)
	return append(elicit.AppendVisibleSchema(append(b, `,"inputSchema":`...), t), '}')
}

func appendUnknown(b []byte, set *tool.Toolset, name string, allowed func(*tool.Tool) bool) []byte {
	b = wire.AppendString(append(b, `{"name":`...), text.Cut(name, maxRepeatedly))
	if similar := set.Similar(name, allowed); len(similar) > 0 {
		b = wire.AppendStrings(append(b, `,"similar":`...), similar)
	}
	return append(b, '}')
}

// texts returns the strings of a decoded list.
func texts(list []any) []string {
	all := make([]string, 0, len(list))
	for _, value := range list {
		if s, ok := value.(string); ok {
			all = append(all, s)
		}
	}
	return all
}

// answer returns a Result with a JSON body.
func answer(body jsontext.Value) *tool.Result {
	return &tool.Result{Status: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: body}
}
