package match

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/request"
	"github.com/fairwayhq/fairway/tools/schema"
)

// CallOf returns the call whose request is a GET of a URL of the API, such as a Location, or nil if no call can express all of the
// URL. The request of the call is made from its arguments, so that readings of the URL that differ do no harm.
func (r *Routes) CallOf(location *url.URL) *tools.Call {
	tool := r.ToolOf(&http.Request{Method: http.MethodGet, URL: location})
	if tool == nil {
		return nil
	}
	var arguments strictjson.ObjectBuilder
	values, err := PathValues(tool, nil, location.EscapedPath())
	if err != nil {
		return nil
	}
	read := make([]bool, len(tool.Plan.Arguments))
	for _, part := range tool.Plan.Parts {
		if part.Literal != "" {
			continue
		}
		i, text := part.Argument, values[0]
		if values = values[1:]; read[i] {
			continue // twice in the path
		}
		read[i] = true
		value, err := tool.Plan.Encodings[i].Param.ReadPath(nil, text, newShape(tool, i))
		if err != nil {
			return nil
		}
		arguments.Add(tool.Plan.Arguments[i].Name, value)
	}
	pairs, err := request.ParsePairs(nil, request.Query, location.RawQuery)
	if err != nil {
		return nil
	}
	takeDetermined(tool, pairs)
	for i := range tool.Plan.Arguments {
		a, planned := &tool.Plan.Arguments[i], &tool.Plan.Encodings[i]
		if a.In != tools.InQuery || planned.Filled {
			continue
		}
		value, err := planned.Param.ReadPairs(nil, pairs, newShape(tool, i))
		if err != nil {
			return nil
		}
		if len(value) > 0 {
			arguments.Add(a.Name, value)
		}
	}
	if slices.ContainsFunc(pairs, func(p request.Pair) bool { return !p.Taken }) {
		return nil
	}
	call, err := tool.Bind(arguments.Close())
	if err != nil {
		return nil
	}
	return call
}

// takeDetermined takes the pairs that each request of the tool has with these values, and credentials, which the gateway sends itself.
func takeDetermined(tool *tools.Tool, pairs []request.Pair) {
	for i := range pairs {
		p := &pairs[i]
		p.Taken = slices.ContainsFunc(tool.Plan.Identity, func(id request.Identifier) bool {
			return id.In == request.Query && id.Name == p.Name && slices.Equal(id.Values, []string{p.Value})
		})
		for j := range tool.Plan.Arguments {
			a, planned := &tool.Plan.Arguments[j], &tool.Plan.Encodings[j]
			if a.In != tools.InQuery || a.WireName != p.Name || !planned.Filled {
				continue
			}
			if planned.Fill == nil {
				p.Taken = !planned.Guarded
			} else if _, sent := planned.SentAs(a.In, a.WireName); p.Value == sent {
				p.Taken = true
			}
		}
	}
}

// shape is the schema of a value. It implements request.Shape.
type shape struct {
	root *schema.Root
	tree *schema.Tree
}

func newShape(tool *tools.Tool, argument int) shape {
	root, tree := schema.Open(tool.Definition.InputSchema, tool.Plan.Arguments[argument].Schema)
	return shape{root, tree}
}

// Types implements request.Shape.
func (s shape) Types() (types request.Types) {
	for _, name := range s.tree.Types() {
		types |= request.TypeOf(name)
	}
	return types
}

// Item implements request.Shape.
func (s shape) Item() request.Shape { return shape{s.root, s.root.Resolve(s.tree.Part("items"))} }

// Property implements request.Shape.
func (s shape) Property(name string) (of request.Shape, known bool) {
	property := s.tree.Property(name)
	return shape{s.root, s.root.Resolve(property)}, property != nil
}
