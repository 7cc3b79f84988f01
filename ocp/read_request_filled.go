package ocp

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/ocp/internal/style"
)

// Arguments that the gateway fills are not arguments of callers. A request may contain one
// only with the value that the gateway sends. Credentials are skipped.

// takeConstants takes the query pairs that the tool's path contains.
func (r *requestReader) takeConstants(pairs []style.Pair) error {
	for _, id := range r.tool.identity {
		if id.in != InQuery || !id.isFixed() || r.tool.fills(InQuery, id.name) {
			continue
		}
		var values []string
		for i := range pairs {
			if pairs[i].Name == id.name {
				values = append(values, pairs[i].Value)
				pairs[i].Taken = true
			}
		}
		if len(values) > 0 && !slices.Equal(values, id.values) {
			return r.wrongFill(InQuery, id.name, strings.Join(id.values, ", "))
		}
	}
	return nil
}

// fills reports whether the gateway fills the declared argument with that name.
func (t *Tool) fills(in Location, name string) bool {
	for i := range t.all {
		if t.plans[i].filled && t.all[i].In == in && t.all[i].WireName == name {
			return true
		}
	}
	return false
}

// takeFilled takes the query pairs of parameters that the gateway fills.
func (r *requestReader) takeFilled(pairs []style.Pair, in Location) error {
	for _, i := range r.plan.filled {
		a, plan := &r.tool.all[i], &r.tool.plans[i]
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
			if plan.fill == nil {
				continue
			}
			if _, value := plan.sentAs(a); found || p.Value != value {
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
		a, plan := &r.tool.all[i], &r.tool.plans[i]
		lines := r.request.Header[a.WireName]
		if a.In != InHeader || plan.fill == nil || len(lines) == 0 {
			continue
		}
		if _, value := plan.sentAs(a); len(lines) > 1 || strings.Trim(lines[0], " \t") != value {
			return r.wrongFill(InHeader, a.WireName, value)
		}
	}
	return nil
}

// checkFilled checks a property of the body that the gateway fills.
func (r *requestReader) checkFilled(argument int, value jsontext.Value) error {
	if fill := r.tool.plans[argument].fill; fill != nil && !sameScalar(value, fill) {
		return r.wrongFill(InBody, r.tool.all[argument].WireName, string(fill))
	}
	return nil
}

func (r *requestReader) wrongFill(in Location, name, value string) error {
	return &RequestError{
		Kind: UnfitValue, In: in, Name: name,
		Message: "the " + string(in) + " parameter " + clip(name, maxProblem) + " of " + r.tool.where() + " must be " + clip(value, maxProblem) + ", and be given once",
	}
}
