package plainrequest

import (
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/match"
	"github.com/fairwayhq/fairway/tools/request"
	"github.com/fairwayhq/fairway/tools/schema"
)

// The values that the gateway or the tool's path determines are not arguments of callers: a request may contain
// one only with the value that the gateway sends. Credentials are skipped.

// takeConstants takes the query pairs that the tool's path contains.
func (p *requestPlan) takeConstants(pairs []request.Pair) error {
	for _, id := range p.tool.Plan.Identity {
		if id.In != request.Query || !id.IsFixed() || p.fills(tools.InQuery, id.Name) {
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
			return p.wrongFill(tools.InQuery, id.Name, strings.Join(id.Values, ", "))
		}
	}
	return nil
}

// fills reports whether the gateway fills the declared argument with that name.
func (p *requestPlan) fills(in tools.Location, name string) bool {
	for i := range p.declared {
		if p.encodings[i].Filled && p.declared[i].In == in && p.declared[i].WireName == name {
			return true
		}
	}
	return false
}

// takeFilled takes the query pairs of parameters that the gateway fills.
func (p *requestPlan) takeFilled(pairs []request.Pair, in tools.Location) error {
	for _, i := range p.filled {
		a, planned := &p.declared[i], &p.encodings[i]
		if a.In != in {
			continue
		}
		found := false
		for j := range pairs {
			pair := &pairs[j]
			if pair.Name != a.WireName {
				continue
			}
			pair.Taken = true
			if planned.Fill == nil {
				continue
			}
			if _, value := planned.SentAs(a.In, a.WireName); found || pair.Value != value {
				return p.wrongFill(in, pair.Name, value)
			}
			found = true
		}
	}
	return nil
}

// checkFilledHeaders checks the headers that the gateway fills.
func (p *requestPlan) checkFilledHeaders(header http.Header) error {
	for _, i := range p.filled {
		a, planned := &p.declared[i], &p.encodings[i]
		lines := header[a.WireName]
		if a.In != tools.InHeader || planned.Fill == nil || len(lines) == 0 {
			continue
		}
		if _, value := planned.SentAs(a.In, a.WireName); len(lines) > 1 || strings.Trim(lines[0], " \t") != value {
			return p.wrongFill(tools.InHeader, a.WireName, value)
		}
	}
	return nil
}

// checkFilledProperty checks a property of the body that the gateway fills.
func (p *requestPlan) checkFilledProperty(argument int, value jsontext.Value) error {
	if fill := p.encodings[argument].Fill; fill != nil && !request.SameScalar(value, fill) {
		return p.wrongFill(tools.InBody, p.declared[argument].WireName, string(fill))
	}
	return nil
}

func (p *requestPlan) wrongFill(in tools.Location, name, value string) error {
	return &match.RequestError{
		Kind: request.Unfit, In: in, Name: name,
		Message: "the " + string(in) + " parameter " + text.Cut(name, schema.MaxProblem) + " of " + p.tool.Operation() + " must be " + text.Cut(value, schema.MaxProblem) + ", and occur once",
	}
}
