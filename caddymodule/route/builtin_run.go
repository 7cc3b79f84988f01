package route

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/build"
	"github.com/fairwayhq/fairway/tools/schema"
)

// Limits of the answers of search_tools and describe_tools.
const (
	defaultFound   = 10       // tools that search_tools returns by default; as builtin.yaml says
	maxQuery       = 60       // bytes of a query that the answer of search_tools repeats
	maxBestSchema  = 2400     // bytes of a schema in the answer of search_tools: about 600 tokens
	maxSummary     = 160      // bytes of a tool's summary in the answer of search_tools
	maxRequired    = 12       // required arguments of a tool in the answer of search_tools
	maxSchema      = 6000     // bytes of a schema in the answer of describe_tools: about 1,500 tokens
	maxDescription = 100      // bytes of a description in a schema that is shortened
	maxDescribed   = 64 << 10 // bytes of the answer of describe_tools; the first tool is described in any case
	maxProperties  = 50       // names of properties in an answer about an unknown one
	maxRepeatedly  = 128      // bytes of an unknown name that an answer repeats
)

// Uploads keeps the files of callers, so that they do not pass through a model. Package caddymodule/files has it.
type Uploads interface {
	// TakesUploads reports whether the configuration has uploads.
	TakesUploads() bool

	// Lists reports whether a list with these tools has create_upload.
	Lists(set *tools.Toolset) bool

	// Names reports whether arguments may have files.
	Names(arguments []byte) bool

	// Read is tools.Prepare for arguments with handles of files, or with descriptions of those of the known call. i inspects files.
	Read(by *Uploader, i *Inspection, known *tools.Call, set *tools.Toolset, name string, arguments []byte) tools.Prepared

	// Create runs create_upload.
	Create(ctx context.Context, by *Uploader, set *tools.Toolset, call *tools.Call) (*tools.Result, error)

	// Link replaces a large binary response by a link to it, and any binary response to a hosted agent by a handle.
	Link(ctx context.Context, by *Uploader, response *tools.Result)
}

// An Uploader is a caller who has files.
type Uploader struct {
	*http.Request
	SiteName string // see siteroutes.SiteName
	Agent    string // name of the hosted agent that makes the call, "" if a client does
}

// UploaderOf returns a caller as one who has files.
func UploaderOf(c *Caller) *Uploader {
	return &Uploader{c.client.Request, c.endpoint.SiteName, c.Agent}
}

// Kinds of tools, as the answers name them.
const (
	kindRead  = "read"
	kindWrite = "write"
)

// RunSearch runs search_tools: it returns the tools that fit the queries, the best one of each query first, and
// only those for which allowed returns true. With several toolsets, each tool has the name of its own. The
// best tool of a query has its schema if that is small.
//
//	{"tools":[{"name":"…","api":"…","kind":"read","summary":"…","required":["…"],"query":"…","inputSchema":{…}}]}
func RunSearch(set *tools.Toolset, call *tools.Call, allowed func(*tools.Tool) bool) *tools.Result {
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
	found := set.FindEach(queries, limit, allowed)
	b := []byte(`{"tools":[`)
	for i, match := range found {
		if i > 0 {
			b = append(b, ',')
		}
		t, _ := set.Tool(match.Name)
		b = appendFound(b, set, t)
		if len(queries) > 1 {
			b = strictjson.AppendString(append(b, `,"query":`...), text.Cut(queries[match.Request], maxQuery))
		}
		if match.Best {
			if rawSchema, shortened := shorten(t.AppendVisibleSchema(nil)); len(rawSchema) <= maxBestSchema {
				b = appendSchema(b, `,"inputSchema":`, rawSchema, shortened)
			}
		}
		b = append(b, '}')
	}
	b = append(b, ']')
	if len(found) == 0 {
		b = append(b, `,"hint":"No tool fits. Search for what the tool does and for the things it works on, with different terms."`...)
	}
	return answer(append(b, '}'))
}

// appendFound appends a tool as search_tools returns it, without the closing brace.
func appendFound(b []byte, set *tools.Toolset, t *tools.Tool) []byte {
	b = strictjson.AppendString(append(b, `{"name":`...), t.Name)
	b = appendAPI(b, set, t)
	b = strictjson.AppendString(append(b, `,"kind":`...), kindOf(t))
	b = strictjson.AppendString(append(b, `,"summary":`...), summary(t))
	var required []string
	for i := range t.Definition.Arguments {
		if a := &t.Definition.Arguments[i]; a.Required && !a.NonInferrable && len(required) < maxRequired {
			required = append(required, a.Name)
		}
	}
	if len(required) > 0 {
		b = strictjson.AppendStrings(append(b, `,"required":`...), required)
	}
	return b
}

// appendAPI appends the name of the tool's toolset if there are several.
func appendAPI(b []byte, set *tools.Toolset, t *tools.Tool) []byte {
	if part, _ := set.Original(t); part >= 0 {
		return strictjson.AppendString(append(b, `,"api":`...), set.PartOf(t).Name)
	}
	return b
}

// summary returns one line about a tool: its title, or else the start of its description.
func summary(t *tools.Tool) string {
	line := t.Definition.Title
	if line == "" {
		line, _, _ = strings.Cut(strings.TrimSpace(t.Definition.Description), "\n\n")
		line, _, _ = strings.Cut(line, ". ")
	}
	line = text.Cut(strings.Join(strings.Fields(line), " "), maxSummary)
	if t.Definition.Deprecated {
		line += " (deprecated)"
	}
	return line
}

func kindOf(t *tools.Tool) string {
	if t.Hint(build.ReadOnlyHint) {
		return kindRead
	}
	return kindWrite
}

// RunDescribe runs describe_tools: it returns the descriptions and schemas of the named tools. Of a tool
// that access does not allow, it returns the missing scopes only. If hidden returns true, the tool is
// unknown. If the answer became too large, RunDescribe leaves tools out and names them in "omitted".
//
//	{"tools":[{"name":"…","kind":"read","title":"…","description":"…","inputSchema":{…}}],
//	 "omitted":["…"],"forbidden":[{"name":"…","missingScopes":["…"]}],"unknown":[{"name":"…","similar":["…"]}]}
func RunDescribe(set *tools.Toolset, call *tools.Call, access *tools.Access, hidden func(*tools.Tool) bool) *tools.Result {
	allowed := func(t *tools.Tool) bool { return !hidden(t) && access.Missing(t, set) == nil }
	arguments := call.Arguments()
	names, _ := arguments["names"].([]any)
	path, _ := arguments["path"].(string)
	var omitted []string
	var forbidden, unknown []byte
	b := []byte(`{"tools":[`)
	described := map[string]bool{}
	for _, name := range texts(names) {
		t, ok := set.Tool(name)
		if !ok || t.Builtin == "" && hidden(t) {
			if unknown != nil {
				unknown = append(unknown, ',')
			}
			unknown = appendUnknown(unknown, set, name, allowed)
			continue
		}
		if missing := access.Missing(t, set); missing != nil {
			if forbidden != nil {
				forbidden = append(forbidden, ',')
			}
			forbidden = strictjson.AppendString(append(forbidden, `{"name":`...), name)
			forbidden = append(strictjson.AppendStrings(append(forbidden, `,"missingScopes":`...), missing), '}')
			continue
		}
		if described[name] {
			continue
		}
		before := len(b)
		if len(described) > 0 {
			b = append(b, ',')
		}
		if path != "" {
			b = appendPart(b, t, path)
		} else {
			b = appendDescribed(b, set, t)
		}
		if len(b) > maxDescribed && len(described) > 0 {
			b = b[:before]
			omitted = append(omitted, name)
			continue
		}
		described[name] = true
	}
	b = append(b, ']')
	if omitted != nil {
		b = strictjson.AppendStrings(append(b, `,"omitted":`...), omitted)
	}
	if forbidden != nil {
		b = append(append(append(b, `,"forbidden":[`...), forbidden...), ']')
	}
	if unknown != nil {
		b = append(append(append(b, `,"unknown":[`...), unknown...), ']')
	}
	return answer(append(b, '}'))
}

func appendDescribed(b []byte, set *tools.Toolset, t *tools.Tool) []byte {
	b = strictjson.AppendString(append(b, `{"name":`...), t.Name)
	b = appendAPI(b, set, t)
	b = strictjson.AppendString(append(b, `,"kind":`...), kindOf(t))
	if t.Definition.Title != "" {
		b = strictjson.AppendString(append(b, `,"title":`...), t.Definition.Title)
	}
	b = strictjson.AppendString(append(b, `,"description":`...), t.Definition.Description)
	return append(appendShort(b, `,"inputSchema":`, t.AppendVisibleSchema(nil)), '}')
}

// appendShort appends a member with a schema of at most maxSchema bytes.
func appendShort(b []byte, name string, rawSchema jsontext.Value) []byte {
	rawSchema, shortened := shorten(rawSchema)
	if len(rawSchema) > maxSchema {
		rawSchema, shortened = schema.FlattenWithin(rawSchema, maxSchema), true
	}
	return appendSchema(b, name, rawSchema, shortened)
}

// appendSchema appends a member with a schema, and one that says whether it is shortened.
func appendSchema(b []byte, name string, rawSchema jsontext.Value, shortened bool) []byte {
	b = append(b, name...)
	if rawSchema == nil {
		rawSchema = jsontext.Value(`{}`)
	}
	b = append(b, rawSchema...)
	if shortened {
		b = append(b, `,"shortened":true`...)
	}
	return b
}

// descriptions are the descriptions in a schema.
var descriptions = regexp.MustCompile(`"description":("(?:[^"\\]|\\.)*")`)

// shorten cuts the descriptions in a schema, unless it is small.
func shorten(rawSchema jsontext.Value) (short jsontext.Value, shortened bool) {
	if len(rawSchema) <= maxBestSchema {
		return rawSchema, false
	}
	short = descriptions.ReplaceAllFunc(rawSchema, func(member []byte) []byte {
		_, value, _ := bytes.Cut(member, []byte(":"))
		return strictjson.AppendString([]byte(`"description":`), text.Cut(strictjson.Text(value), maxDescription))
	})
	return short, len(short) < len(rawSchema)
}

// appendPart appends the part of a tool's full schema at the path, or the names that the path may have
// there.
func appendPart(b []byte, t *tools.Tool, path string) []byte {
	b = strictjson.AppendString(append(b, `{"name":`...), t.Name)
	root, _ := schema.Parse(t.AppendVisible(nil, schema.Listed(t.FullSchema())))
	tree, taken := root.Tree, ""
	for name := range strings.SplitSeq(path, "/") {
		next, names := root.Find(tree, name)
		if next == nil {
			b = strictjson.AppendString(append(b, `,"error":`...), text.Cut(name, maxRepeatedly)+" is not a property of "+cmp.Or(taken, "the arguments"))
			return append(strictjson.AppendStrings(append(b, `,"properties":`...), names[:min(len(names), maxProperties)]), '}')
		}
		tree, taken = next, strings.TrimPrefix(taken+"/"+name, "/")
	}
	part := root.Complete(tree)
	if flat := schema.FlattenWithin(part, 4*maxSchema); flat != nil && len(flat) <= maxSchema {
		part = flat
	}
	b = strictjson.AppendString(append(b, `,"path":`...), taken)
	return append(appendShort(b, `,"schema":`, part), '}')
}

func appendUnknown(b []byte, set *tools.Toolset, name string, allowed func(*tools.Tool) bool) []byte {
	b = strictjson.AppendString(append(b, `{"name":`...), text.Cut(name, maxRepeatedly))
	if similar := set.Similar(name, allowed); len(similar) > 0 {
		b = strictjson.AppendStrings(append(b, `,"similar":`...), similar)
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
func answer(body jsontext.Value) *tools.Result {
	return &tools.Result{Status: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: body}
}
