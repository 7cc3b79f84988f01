package mcpadapter

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/mcpadapter/library"
	"github.com/fairwayhq/fairway/tools"
)

// complete serves completion/complete. The values for a prompt's argument or a template's variable
// come from files or from the document's schemas. Values that start with the typed text come first,
// then those that contain it.
func complete(q *request, w *response) *protocol.Fault {
	ref, argument := strictjson.MemberOf(q.params.raw, "ref"), strictjson.MemberOf(q.params.raw, "argument")
	if ref.Kind() != '{' || argument.Kind() != '{' {
		return protocol.BadParams("params must have ref and argument, both objects")
	}
	if given := strictjson.MemberOf(q.params.raw, "context"); given.Kind() == '{' {
		if _, f := readArguments(strictjson.MemberOf(given, "arguments"), "params.context.arguments"); f != nil {
			return f
		}
	}
	name, value := strictjson.MemberOf(argument, "name"), strictjson.MemberOf(argument, "value")
	if name.Kind() != '"' || value.Kind() != '"' {
		return protocol.BadParams("params.argument must have name and value, both strings")
	}
	all, of, f := proposals(q.catalog().Index(), ref, strictjson.Text(name))
	if f != nil {
		return f
	}
	if of != nil && of.Foreign != nil {
		return completeForeign(q, w, of)
	}
	values := ranked(all, strictjson.Text(value))
	b := w.result("complete", nil)
	b = strictjson.AppendStrings(append(b, `"completion":{"values":`...), values[:min(len(values), maxCompletions)])
	b = strconv.AppendInt(append(b, `,"total":`...), int64(len(values)), 10)
	b = append(append(b, `,"hasMore":`...), strictjson.Boolean(len(values) > maxCompletions)...)
	w.end(append(b, '}'))
	return nil
}

// completeForeign lets the MCP server of a prompt or a template propose values. A server without this capability proposes
// none.
func completeForeign(q *request, w *response, of *tools.Tool) *protocol.Fault {
	part, own := q.tools.Original(of)
	for _, t := range q.tools.PartOf(of).Tools() {
		if t.Foreign == nil || t.Foreign.Kind != tools.ForeignCompletion {
			continue
		}
		params := strictjson.ObjectBuilder(nil)
		params.Add("ref", foreignRef(own.Foreign))
		for _, member := range []string{"argument", "context"} {
			if value := strictjson.MemberOf(q.params.raw, member); value != nil {
				params.Add(member, value.Clone())
			}
		}
		name := t.Name
		if part >= 0 {
			name = q.tools.NameIn(part, t.Name)
		}
		r, f := q.newCall("completion/complete", own.Foreign.Name, q.wholeCatalog().Callable(name), params.Close()).run()
		if f != nil {
			return f
		}
		defer r.Release()
		if completion := strictjson.MemberOf(r.Native, "completion"); r.Failure == nil && completion.Kind() == '{' {
			w.end(append(append(w.result("complete", nil), `"completion":`...), completion...))
			return nil
		}
		return protocol.Faultf(http.StatusOK, protocol.InternalError, "the MCP server proposes no values: %s", r.Failure.Reason())
	}
	w.end(append(w.result("complete", nil), `"completion":{"values":[]}`...))
	return nil
}

// foreignRef returns the reference to a prompt or a template by the server's own name.
func foreignRef(f *tools.Foreign) []byte {
	kind, member := "ref/prompt", "name"
	if f.Kind != tools.ForeignPrompt {
		kind, member = "ref/resource", "uri"
	}
	var ref strictjson.ObjectBuilder
	ref.Add("type", strictjson.AppendString(nil, kind))
	ref.Add(member, strictjson.AppendString(nil, f.Name))
	return ref.Close()
}

// proposals returns all known values of an argument, and the operation that the argument belongs to, or nil.
func proposals(s *library.Index, ref jsontext.Value, argument string) ([]string, *tools.Tool, *protocol.Fault) {
	switch kind := strictjson.Text(strictjson.MemberOf(ref, "type")); kind {
	case "ref/prompt":
		name := strictjson.Text(strictjson.MemberOf(ref, "name"))
		p := s.ByName[name]
		if p == nil || p.Denied {
			return nil, nil, protocol.BadParams("unknown prompt %q; prompts/list returns the available ones", text.Cut(name, text.MaxQuoted))
		}
		return values(p.Tool, argument, p.Proposals)
	case "ref/resource":
		uri := strictjson.Text(strictjson.MemberOf(ref, "uri"))
		if r := s.ByTemplate[uri]; r != nil && !r.Denied {
			return values(r.Tool, argument, r.Proposals)
		}
		if t, ok := s.Find(uri); ok && !t.Denied {
			return nil, nil, nil
		}
		return nil, nil, protocol.BadParams("unknown resource or template %q; resources/templates/list returns the available ones", text.Cut(uri, text.MaxQuoted))
	default:
		return nil, nil, protocol.BadParams("params.ref.type must be ref/prompt or ref/resource, not %q", text.Cut(kind, text.MaxQuoted))
	}
}

// values turns an error about the argument into a fault.
func values(of *tools.Tool, argument string, known func(string) ([]string, error)) ([]string, *tools.Tool, *protocol.Fault) {
	list, err := known(argument)
	if err != nil {
		return nil, nil, protocol.BadParams("%v", err)
	}
	return list, of, nil
}

// ranked returns the values that start with the typed text, then those that contain it. It ignores
// case.
func ranked(all []string, typed string) []string {
	typed = strings.ToLower(typed)
	var begin, within []string
	for _, value := range all {
		switch at := strings.Index(strings.ToLower(value), typed); {
		case at == 0:
			begin = append(begin, value)
		case at > 0:
			within = append(within, value)
		}
	}
	return append(begin, within...)
}

// maxCompletions is the maximum number of values in one response (MCP, Completion).
const maxCompletions = 100
