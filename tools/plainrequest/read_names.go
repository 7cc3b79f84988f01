package plainrequest

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/match"
	"github.com/fairwayhq/fairway/tools/request"
	"github.com/fairwayhq/fairway/tools/schema"
)

// CheckNames returns an error if a server may read the call's arguments differently,
// because many servers ignore case in names and read "Amount" as amount. It checks the
// places where undeclared names are possible: objects inside arguments, and additional
// properties of the body. ReadRequest makes the same checks. The error is a *match.RequestError.
func (r *Routes) CheckNames(c *tools.Call) error {
	for i, value := range c.Values() {
		if !isNested(value) {
			continue
		}
		if err := r.planOf(c.Tool).checkName(i, value); err != nil {
			return err
		}
	}
	var seen map[string]string
	for name, value := range c.Additional() {
		plan := r.planOf(c.Tool)
		if err := plan.checkUndeclared(tools.InBody, name); err != nil {
			return err
		}
		if seen == nil {
			seen = make(map[string]string)
		}
		folded := foldName(name)
		if other, taken := seen[folded]; taken {
			return sameName(tools.InBody, name, name, other)
		}
		seen[folded] = name
		further, _ := plan.body.further.(*shape)
		if found, other := confusable(further, value); found != "" {
			return sameName(tools.InBody, name, found, other)
		}
	}
	return nil
}

// checkNames is like CheckNames, for all arguments of a request.
func (r *requestReader) checkNames() error {
	for walk := strictjson.Into(r.arguments.text); walk.Next(); { // the object is not closed yet, which ends the loop
		if !isNested(walk.Value) {
			continue
		}
		name, err := jsontext.AppendUnquote(nil, walk.Name)
		if err != nil {
			return err
		}
		i, known := r.names[string(name)]
		if known {
			if err := r.checkName(i, walk.Value); err != nil {
				return err
			}
			continue
		}
		further, _ := r.body.further.(*shape)
		if found, other := confusable(further, walk.Value); found != "" {
			return sameName(tools.InBody, string(name), found, other)
		}
	}
	return nil
}

// checkName checks the value of the argument at that position.
func (p *requestPlan) checkName(argument int, value jsontext.Value) error {
	if !isNested(value) {
		return nil
	}
	declared, _ := p.shapes[argument].(*shape)
	if name, other := confusable(declared, value); name != "" {
		a := &p.declared[argument]
		return sameName(a.In, a.WireName, name, other)
	}
	return nil
}

func isNested(value jsontext.Value) bool {
	kind := value.Kind()
	return kind == '{' || kind == '['
}

func sameName(in tools.Location, argument, name, other string) error {
	where := "the " + string(in)
	if argument != "" && argument != name {
		where += " parameter " + text.Cut(argument, schema.MaxProblem)
	}
	return &match.RequestError{
		Kind: request.Ambiguous, In: in, Name: argument,
		Message: where + " has the name " + strconv.Quote(text.Cut(name, schema.MaxProblem)) + ", which some servers read as " +
			strconv.Quote(text.Cut(other, schema.MaxProblem)) + ": send only one of them, with the name in the document",
	}
}

// confusable returns a name inside a value that differs only in case from another name in
// the same object or its schema, and that other name. It returns "" if there is none. The
// schema may be nil.
func confusable(s *shape, value jsontext.Value) (name, other string) {
	if value.Kind() == '[' {
		var item *shape
		if s != nil {
			item, _ = s.Item().(*shape)
		}
		for walk := strictjson.Into(value); walk.Next(); {
			if name, other = confusable(item, walk.Value); name != "" {
				return name, other
			}
		}
		return "", ""
	}
	if value.Kind() != '{' {
		return "", ""
	}
	var seen map[string]string
	for walk := strictjson.Into(value); walk.Next(); {
		unquoted, err := jsontext.AppendUnquote(nil, walk.Name)
		if err != nil {
			return string(walk.Name), ""
		}
		name, folded := string(unquoted), foldName(string(unquoted))
		if !s.declares(name) {
			if declared := s.folded(folded); declared != "" {
				return name, declared
			}
			if beside, taken := seen[folded]; taken {
				return name, beside
			}
			if seen == nil {
				seen = make(map[string]string)
			}
			seen[folded] = name
		}
		if !isNested(walk.Value) {
			continue
		}
		var property *shape
		if s != nil {
			below, _ := s.Property(name)
			property, _ = below.(*shape)
		}
		if found, beside := confusable(property, walk.Value); found != "" {
			return found, beside
		}
	}
	return "", ""
}

// declares reports whether the schema names a property.
func (s *shape) declares(name string) bool {
	if s == nil {
		return false
	}
	s.once.Do(s.resolve)
	_, named := s.properties[name]
	return named
}

// folded returns the property of the schema that equals the name if case is ignored.
func (s *shape) folded(name string) string {
	if s == nil {
		return ""
	}
	s.once.Do(s.resolve)
	return s.byFold[name]
}

func foldName(name string) string { return strings.Map(request.Fold, name) }
