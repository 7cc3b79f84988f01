package match

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/ocp/internal/plan"
	"github.com/fairwayhq/fairway/ocp/internal/style"
	"github.com/fairwayhq/fairway/ocp/internal/validate"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// Arguments that the gateway fills are not arguments of callers. A request may contain one
// only with the value that the gateway sends. Credentials are skipped.

// takeConstants takes the query pairs that the tool's path contains.
func (r *requestReader) takeConstants(pairs []style.Pair) error {
	for _, id := range r.planned.Identity {
		if id.In != style.Query || !id.IsFixed() || r.fills(tool.InQuery, id.Name) {
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
			return r.wrongFill(tool.InQuery, id.Name, strings.Join(id.Values, ", "))
		}
	}
	return nil
}

// fills reports whether the gateway fills the declared argument with that name.
func (r *requestReader) fills(in tool.Location, name string) bool {
	for i := range r.all {
		if r.planned.Arguments[i].Filled && r.all[i].In == in && r.all[i].WireName == name {
			return true
		}
	}
	return false
}

// takeFilled takes the query pairs of parameters that the gateway fills.
func (r *requestReader) takeFilled(pairs []style.Pair, in tool.Location) error {
	for _, i := range r.plan.filled {
		a, planned := &r.all[i], &r.planned.Arguments[i]
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
				return r.wrongFill(in, p.Name, value)
			}
			found = true
		}
	}
	return nil
}

// checkFilledHeaders checks the headers that the gateway fills.
func (r *requestReader) checkFilledHeaders() error {
	for _, i := range r.plan.filled {
		a, planned := &r.all[i], &r.planned.Arguments[i]
		lines := r.request.Header[a.WireName]
		if a.In != tool.InHeader || planned.Fill == nil || len(lines) == 0 {
			continue
		}
		if _, value := planned.SentAs(style.In(a.In), a.WireName); len(lines) > 1 || strings.Trim(lines[0], " \t") != value {
			return r.wrongFill(tool.InHeader, a.WireName, value)
		}
	}
	return nil
}

// checkFilled checks a property of the body that the gateway fills.
func (r *requestReader) checkFilled(argument int, value jsontext.Value) error {
	if fill := r.planned.Arguments[argument].Fill; fill != nil && !plan.SameScalar(value, fill) {
		return r.wrongFill(tool.InBody, r.all[argument].WireName, string(fill))
	}
	return nil
}

func (r *requestReader) wrongFill(in tool.Location, name, value string) error {
	return &RequestError{
		Kind: UnfitValue, In: in, Name: name,
		Message: "the " + string(in) + " parameter " + text.Cut(name, validate.MaxProblem) + " of " + r.tool.Operation() + " must be " + text.Cut(value, validate.MaxProblem) + ", and be given once",
	}
}
