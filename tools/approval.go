package tools

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// RequestParts describes the requests of a tool, in addition to its method and path, so that an
// operator can approve them. If the parts of two versions of a tool are equal, equal arguments result
// in equal requests.
type RequestParts struct {
	// Arguments describes each argument, by name: its location, its serialization, and the value that
	// is sent if the caller omits it. It includes the arguments of Filled.
	Arguments map[string]string

	// Filled has the locations and names in the request of the arguments that the gateway fills, such
	// as "query version", by argument name. Callers do not see these arguments.
	Filled map[string]string

	// Message describes the rest: fixed parts of the path and the query, media types and the security
	// requirements.
	Message string
}

// RequestParts describes the requests of the tool.
func (t *Tool) RequestParts() RequestParts {
	p := RequestParts{Arguments: make(map[string]string, len(t.Plan.Arguments)), Filled: make(map[string]string)}
	for i := range t.Plan.Arguments {
		a, planned := &t.Plan.Arguments[i], &t.Plan.Encodings[i]
		how := ""
		if planned.Param != nil {
			how = planned.Param.Describe()
		}
		p.Arguments[a.Name] = fmt.Sprintf("%s %q %s %t %t %s", a.In, a.WireName, how, planned.Filled, planned.Guarded, planned.Fill)
		if planned.Filled {
			p.Filled[a.Name] = string(a.In) + " " + a.WireName
		}
	}
	if t.Plan.guards != nil {
		for i := range t.Plan.guards.perCall {
			v := &t.Plan.guards.perCall[i]
			p.Arguments[t.Plan.Arguments[v.argument].Name] += " " + string(v.template)
		}
	}
	p.Message = fmt.Sprintf("%q %q %q %q %t %q", t.Plan.Base, t.Plan.Template, t.Plan.Query, t.Plan.Accept, t.Plan.sendsBody, t.Plan.Security)
	if t.Plan.Body != nil {
		p.Message += " " + strconv.Quote(t.Plan.Body.Encoder.ContentType()) + fmt.Sprintf(" %q", slices.Sorted(maps.Keys(t.Plan.Body.Encoders)))
	}
	return p
}
