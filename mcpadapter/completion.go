package mcpadapter

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/mcpadapter/library"
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
	all, f := proposals(q.catalog().Index(), ref, strictjson.Text(name))
	if f != nil {
		return f
	}
	values := ranked(all, strictjson.Text(value))
	b := w.result("complete", nil)
	b = strictjson.AppendStrings(append(b, `"completion":{"values":`...), values[:min(len(values), maxCompletions)])
	b = strconv.AppendInt(append(b, `,"total":`...), int64(len(values)), 10)
	b = append(append(b, `,"hasMore":`...), strictjson.Boolean(len(values) > maxCompletions)...)
	w.end(append(b, '}'))
	return nil
}

// proposals returns all known values of an argument.
func proposals(s *library.Index, ref jsontext.Value, argument string) ([]string, *protocol.Fault) {
	switch kind := strictjson.Text(strictjson.MemberOf(ref, "type")); kind {
	case "ref/prompt":
		name := strictjson.Text(strictjson.MemberOf(ref, "name"))
		p := s.ByName[name]
		if p == nil || p.Denied {
			return nil, protocol.BadParams("unknown prompt %q; prompts/list returns the available ones", text.Cut(name, text.MaxQuoted))
		}
		return values(p.Proposals(argument))
	case "ref/resource":
		uri := strictjson.Text(strictjson.MemberOf(ref, "uri"))
		if r := s.ByTemplate[uri]; r != nil && !r.Denied {
			return values(r.Proposals(argument))
		}
		if t, ok := s.Find(uri); ok && !t.Denied {
			return nil, nil
		}
		return nil, protocol.BadParams("unknown resource or template %q; resources/templates/list returns the available ones", text.Cut(uri, text.MaxQuoted))
	default:
		return nil, protocol.BadParams("params.ref.type must be ref/prompt or ref/resource, not %q", text.Cut(kind, text.MaxQuoted))
	}
}

// values turns an error about the argument into a fault.
func values(list []string, err error) ([]string, *protocol.Fault) {
	if err != nil {
		return nil, protocol.BadParams("%v", err)
	}
	return list, nil
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
