package match

import (
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/ocp/internal/plan"
	"github.com/fairwayhq/fairway/ocp/internal/style"
	"github.com/fairwayhq/fairway/ocp/internal/validate"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// fixedValues checks the values that the gateway or the tool's path determines. They are not
// arguments of callers: a request may contain one only with the value that the gateway
// sends. Credentials are skipped.
type fixedValues struct {
	*target
}

func (t *target) fixed() fixedValues {
	return fixedValues{t}
}

// takeConstants takes the query pairs that the tool's path contains.
func (f fixedValues) takeConstants(pairs []style.Pair) error {
	for _, id := range f.planned.Identity {
		if id.In != style.Query || !id.IsFixed() || f.fills(tool.InQuery, id.Name) {
			continue
		}
		var values []string
		for i := range pairs {
			if pairs[i].Name == id.Name {
				values = append(values, pairs[i].Value)
				pairs[i].Taken = true
			}
		}
		if len(values) > 0 && !slices.Equal(values, id.Values) {
			return f.wrongFill(tool.InQuery, id.Name, strings.Join(id.Values, ", "))
		}
	}
	return nil
}

// fills reports whether the gateway fills the declared argument with that name.
func (f fixedValues) fills(in tool.Location, name string) bool {
	for i := range f.all {
		if f.planned.Arguments[i].Filled && f.all[i].In == in && f.all[i].WireName == name {
			return true
		}
	}
	return false
}

// take takes the query pairs of parameters that the gateway fills.
func (f fixedValues) take(pairs []style.Pair, in tool.Location) error {
	for _, i := range f.plan.filled {
		a, planned := &f.all[i], &f.planned.Arguments[i]
		if a.In != in {
			continue
		}
		found := false
		for j := range pairs {
			p := &pairs[j]
			if p.Name != a.WireName {
				continue
			}
			p.Taken = true
			if planned.Fill == nil {
				continue
			}
			if _, value := planned.SentAs(style.In(a.In), a.WireName); found || p.Value != value {
				return f.wrongFill(in, p.Name, value)
			}
			found = true
		}
	}
	return nil
}

// checkHeaders checks the headers that the gateway fills.
func (f fixedValues) checkHeaders(header http.Header) error {
	for _, i := range f.plan.filled {
		a, planned := &f.all[i], &f.planned.Arguments[i]
		lines := header[a.WireName]
		if a.In != tool.InHeader || planned.Fill == nil || len(lines) == 0 {
			continue
		}
		if _, value := planned.SentAs(style.In(a.In), a.WireName); len(lines) > 1 || strings.Trim(lines[0], " \t") != value {
			return f.wrongFill(tool.InHeader, a.WireName, value)
		}
	}
	return nil
}

// checkProperty checks a property of the body that the gateway fills.
func (f fixedValues) checkProperty(argument int, value jsontext.Value) error {
	if fill := f.planned.Arguments[argument].Fill; fill != nil && !plan.SameScalar(value, fill) {
		return f.wrongFill(tool.InBody, f.all[argument].WireName, string(fill))
	}
	return nil
}

func (f fixedValues) wrongFill(in tool.Location, name, value string) error {
	return &RequestError{
		Kind: UnfitValue, In: in, Name: name,
		Message: "the " + string(in) + " parameter " + text.Cut(name, validate.MaxProblem) + " of " + f.tool.Operation() + " must be " + text.Cut(value, validate.MaxProblem) + ", and occur once",
	}
}
