package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/build"
	"github.com/fairwayhq/fairway/tools/openapi"
	"github.com/fairwayhq/fairway/tools/request"
	"github.com/fairwayhq/fairway/tools/schema"
)

// A documentLint is what --lint checks.
type documentLint struct {
	findings []string           // of the strict validator
	data     []byte             // the document after its overlays
	options  tools.BuildOptions // of its tools
}

// A trial is one example of a request, and what came of calling the tool with it.
type trial struct {
	name   string        // operation and example, for messages
	value  *openapi.Node // the example
	schema openapi.Place // what it is an example of
	reason string        // why it cannot be sent as it is; "" if it can
}

// writeExamples writes the request examples of the document that cannot be sent, and an overlay that mends some of them.
func (l *documentLint) writeExamples(out io.Writer) error {
	root, trials, err := l.tryExamples(l.data)
	if err != nil || len(trials) == 0 {
		return err
	}
	refused := refusedOf(trials)
	fmt.Fprintf(out, "\nexamples: %d of %d can be sent as they are\n", len(trials)-len(refused), len(trials))
	for _, t := range refused {
		fmt.Fprintf(out, "  %s\n", text.Cut(printable(t.name+": "+t.reason), maxLintLine))
	}
	if mending, mended := l.mend(root, refused); mended > 0 {
		_, err = fmt.Fprintf(out, "\nthis overlay mends %d of them; save it to a file, and give that with --overlay:\n\n%s", mended, mending)
	}
	return err
}

// refusedOf returns the trials that failed.
func refusedOf(trials []trial) []trial {
	return slices.DeleteFunc(slices.Clone(trials), func(t trial) bool { return t.reason == "" })
}

// tryExamples calls the tools of a document, before shapes change them, with its examples. It sends nothing.
func (l *documentLint) tryExamples(data []byte) (root openapi.Place, trials []trial, err error) {
	o := l.options
	o.Shapes, o.NonInferrable, o.IgnoreExtensions = nil, nil, true
	document, err := openapi.Read(data, openapi.Options{Location: o.Location, Refs: o.Refs, Limits: openapi.Limits{Size: o.MaxDocument}})
	if err != nil {
		return root, nil, err
	}
	set, err := tools.Build(data, o)
	if err != nil {
		return root, nil, err
	}
	byOperation := make(map[string]*tools.Tool)
	for _, t := range set.Tools() {
		byOperation[t.Operation()] = t
	}
	for _, operation := range document.Operations() {
		if t := byOperation[operation.Method+" "+operation.Path]; t != nil {
			c := &exampleCaller{tool: t}
			for i := range operation.Parameters {
				trials = append(trials, c.tryParameter(&operation.Parameters[i])...)
			}
			trials = append(trials, c.tryBody(&operation)...)
		}
	}
	return document.Root(), trials, nil
}

// An exampleCaller calls one tool with the examples of its operation.
type exampleCaller struct {
	tool     *tools.Tool
	fills    []openapi.Member // values for the required parameters
	unfilled []string         // required parameters for which no value was found
}

// guesses are tried as the value of a required parameter without examples.
const guesses = `[1, "1", "x", true, ["1"], {}, "2025-01-31", "2025-01-31T12:00:00Z", "00000000-0000-4000-8000-000000000000"]`

// tryParameter tries the examples of a parameter. If it is required, the other examples are tried with a value of it.
func (c *exampleCaller) tryParameter(p *openapi.Parameter) (trials []trial) {
	name, known := c.argument(tools.Location(p.In), p.Name)
	if !known {
		return nil
	}
	try := func(example string, value *openapi.Node) bool {
		t := trial{name: fmt.Sprintf("%s, example %q of parameter %s", c.tool.Operation(), example, p.Name), value: value, schema: p.Schema}
		_, t.reason = c.call([]openapi.Member{{Name: name, Value: value}}, func(argument string) bool { return argument == name })
		trials = append(trials, t)
		return t.reason == ""
	}
	for _, e := range examplesOf(p.Object, p.Schema) {
		try(e.Name, e.Value)
	}
	declared, _ := p.Schema.Resolve()
	guessed, _ := openapi.Parse([]byte(guesses), openapi.Limits{})
	examples := trials
	isFit := func(t trial) bool { return t.reason == "" }
	for _, value := range slices.Concat(declared.Get("enum").Items(), guessed.Items()) {
		if slices.ContainsFunc(trials, isFit) || try("", value) {
			break
		}
	}
	switch at := slices.IndexFunc(trials, isFit); {
	case !p.Required:
	case at < 0:
		c.unfilled = append(c.unfilled, name)
	default:
		c.fills = append(c.fills, openapi.Member{Name: name, Value: trials[at].value})
	}
	return examples
}

// tryBody tries the examples of the request body. Examples of texts and files are not written as arguments are.
func (c *exampleCaller) tryBody(operation *openapi.Operation) (trials []trial) {
	body := c.tool.Plan.Body
	if body == nil || body.Encoder.Kind() != request.JSON && body.Encoder.Kind() != request.URLEncoded {
		return nil
	}
	media := build.PreferredBody(operation.Body.Content)
	isOwn := func(argument string) bool { return !slices.Contains(c.unfilled, argument) }
	for _, e := range bodyExamples(operation, media) {
		t := trial{name: fmt.Sprintf("%s, example %q", c.tool.Operation(), e.Name), value: e.Value, schema: media.Schema}
		given := slices.Clone(e.Value.Members())
		for i := range given {
			given[i].Name, _ = c.argument(tools.InBody, given[i].Name)
		}
		if body.Whole >= 0 {
			given = []openapi.Member{{Name: c.tool.Plan.Arguments[body.Whole].Name, Value: e.Value}}
		}
		var sent []byte
		switch sent, t.reason = c.call(given, isOwn); {
		case body.Whole < 0 && e.Value.Kind() != '{' && e.Value.Kind() != 'n':
			t.schema, t.reason = openapi.Place{}, "must be object, and is "+e.Value.Kind().String()
		case sent == nil, body.Encoder.Kind() != request.JSON, len(sent) == 0 && len(given) == 0: // no body for {} or null
		case !sameJSON(e.Value, sent):
			t.reason = "would be sent as " + cmp.Or(string(sent), "no body")
		}
		trials = append(trials, t)
	}
	return trials
}

// argument returns the name of the argument that has that name in the request, or the same name.
func (c *exampleCaller) argument(in tools.Location, wireName string) (name string, known bool) {
	for i := range c.tool.Plan.Arguments {
		if a := &c.tool.Plan.Arguments[i]; a.In == in && (a.WireName == wireName || in == tools.InHeader && strings.EqualFold(a.WireName, wireName)) {
			return a.Name, true
		}
	}
	return wireName, false
}

// call builds the request of a call and returns its body, or the problems with those arguments for which isOwn returns true.
func (c *exampleCaller) call(given []openapi.Member, isOwn func(argument string) bool) (body []byte, reason string) {
	r, _, err := c.tool.Read(openapi.Object(slices.Concat(c.fills, given)...).AppendJSON(nil))
	if err == nil {
		built, sendErr := r.Request(context.Background())
		if err = sendErr; err == nil {
			body, err = io.ReadAll(built.Body)
		}
	}
	var reasons []string
	if failure, ok := errors.AsType[*tools.Failure](err); ok {
		for _, p := range failure.Problems {
			if name, _, _ := strings.Cut(strings.TrimPrefix(p.Path, "/"), "/"); isOwn(name) {
				reasons = append(reasons, strings.TrimPrefix(p.Path+": "+p.Message, ": "))
			}
		}
	}
	return body, strings.Join(reasons, "; ")
}

// sameJSON reports whether the body has the value of the example.
func sameJSON(example *openapi.Node, body []byte) bool {
	same, err := schema.Compile(openapi.Object(openapi.Member{Name: "const", Value: example}).AppendJSON(nil))
	if err != nil {
		return false
	}
	sent, err := strictjson.Decode(body)
	return err == nil && same.Validate(sent) == nil
}

// bodyExamples returns the examples of the request body in the media type.
func bodyExamples(operation *openapi.Operation, media *openapi.Media) []openapi.Member {
	body, _ := operation.At("requestBody").Resolve() // without a Node if that fails, as below
	content := body.At("content")
	for _, m := range content.Members() {
		if strings.TrimSpace(m.Name) == media.Type {
			holder, _ := content.Item(m.Value).Resolve()
			return examplesOf(holder, media.Schema)
		}
	}
	return examplesOf(openapi.Place{}, media.Schema) // Swagger 2.0
}

// examplesOf returns the examples of a parameter or media type by name, or, if it has none, those of its schema.
func examplesOf(holder, declared openapi.Place) (all []openapi.Member) {
	named := holder.At("examples")
	for _, m := range named.Members() {
		example, _ := named.Item(m.Value).Resolve()
		all = append(all, openapi.Member{Name: m.Name, Value: example.Get("value")})
	}
	resolved, _ := declared.Resolve()
	all = append(all, openapi.Member{Name: "example", Value: holder.Get("example")})
	if !slices.ContainsFunc(all, func(m openapi.Member) bool { return m.Value != nil }) {
		all = append(all, openapi.Member{Name: "example", Value: resolved.Get("example")})
		for i, value := range resolved.Get("examples").Items() {
			all = append(all, openapi.Member{Name: fmt.Sprintf("examples[%d]", i), Value: value})
		}
	}
	return slices.DeleteFunc(all, func(m openapi.Member) bool { return m.Value == nil })
}
