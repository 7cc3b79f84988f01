package mcpadapter

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/mcpadapter/internal/jsonrpc"
)

// A completionRequest is a request of completion/complete.
type completionRequest struct{ *message }

// complete serves completion/complete. The values for a prompt's argument or a template's variable
// come from files or from the document's schemas. Values that start with the typed text come first,
// then those that contain it.
func (q completionRequest) complete() *jsonrpc.Fault {
	ref, argument := wire.MemberOf(q.params.raw, "ref"), wire.MemberOf(q.params.raw, "argument")
	if ref.Kind() != '{' || argument.Kind() != '{' {
		return jsonrpc.BadParams("params must have ref and argument, both objects")
	}
	if given := wire.MemberOf(q.params.raw, "context"); given.Kind() == '{' {
		if _, f := readArguments(wire.MemberOf(given, "arguments"), "params.context.arguments"); f != nil {
			return f
		}
	}
	name, value := wire.MemberOf(argument, "name"), wire.MemberOf(argument, "value")
	if name.Kind() != '"' || value.Kind() != '"' {
		return jsonrpc.BadParams("params.argument must have name and value, both strings")
	}
	all, f := q.proposals(ref, wire.Text(name))
	if f != nil {
		return f
	}
	values := ranked(all, wire.Text(value))
	b := q.appendResultHead(q.beginResult(), "complete", nil)
	b = wire.AppendStrings(append(b, `"completion":{"values":`...), values[:min(len(values), maxCompletions)])
	b = strconv.AppendInt(append(b, `,"total":`...), int64(len(values)), 10)
	b = append(append(b, `,"hasMore":`...), wire.Boolean(len(values) > maxCompletions)...)
	q.out.B = append(b, "}}}"...)
	return nil
}

// Proposals returns all known values of an argument.
func (q completionRequest) proposals(ref jsontext.Value, argument string) ([]string, *jsonrpc.Fault) {
	s := q.catalog().Index()
	switch kind := wire.Text(wire.MemberOf(ref, "type")); kind {
	case "ref/prompt":
		name := wire.Text(wire.MemberOf(ref, "name"))
		p := s.ByName[name]
		if p == nil || p.Denied {
			return nil, jsonrpc.BadParams("unknown prompt %q; prompts/list returns the available ones", text.Cut(name, text.MaxQuoted))
		}
		return values(p.Proposals(argument))
	case "ref/resource":
		uri := wire.Text(wire.MemberOf(ref, "uri"))
		if r := s.ByTemplate[uri]; r != nil && !r.Denied {
			return values(r.Proposals(argument))
		}
		if t, ok := s.Find(uri); ok && !t.Denied {
			return nil, nil
		}
		return nil, jsonrpc.BadParams("unknown resource or template %q; resources/templates/list returns the available ones", text.Cut(uri, text.MaxQuoted))
	default:
		return nil, jsonrpc.BadParams("params.ref.type must be ref/prompt or ref/resource, not %q", text.Cut(kind, text.MaxQuoted))
	}
}

// values turns an error about the argument into a fault.
func values(list []string, err error) ([]string, *jsonrpc.Fault) {
	if err != nil {
		return nil, jsonrpc.BadParams("%v", err)
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
