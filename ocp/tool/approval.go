package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/fairwayhq/fairway/ocp/internal/body"
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
	p := RequestParts{Arguments: make(map[string]string, len(t.all)), Filled: make(map[string]string)}
	for i := range t.all {
		a, planned := &t.all[i], &t.plans[i]
		how := ""
		if planned.Param != nil {
			how = planned.Param.Describe()
		}
		p.Arguments[a.Name] = fmt.Sprintf("%s %q %s %t %t %s", a.In, a.WireName, how, planned.Filled, planned.Guarded, planned.Fill)
		if planned.Filled {
			p.Filled[a.Name] = string(a.In) + " " + a.WireName
		}
	}
	if t.guards != nil {
		for i := range t.guards.perCall {
			v := &t.guards.perCall[i]
			p.Arguments[t.all[v.argument].Name] += " " + string(v.template)
		}
	}
	p.Message = fmt.Sprintf("%q %q %q %q %t %s", t.base, t.template, t.query, t.accept, t.sendsBody, describeSecurity(t.Security))
	if t.body != nil {
		p.Message += " " + strconv.Quote(t.body.Encoder.ContentType()) + describeEncoders(t.body.Encoders)
	}
	return p
}

// describeEncoders returns the media types that a caller can choose.
func describeEncoders(encoders map[string]*body.Encoder) string {
	return fmt.Sprintf(" %q", slices.Sorted(maps.Keys(encoders)))
}

// describeSecurity returns the alternatives of the security requirements.
func describeSecurity(alternatives []SecurityRequirement) string {
	return fmt.Sprintf("%q", alternatives) // fmt sorts the keys of maps
}

// DropResponseSchemas removes the schemas of responses, which take memory. The toolset must not be in use
// yet.
func (s *Toolset) DropResponseSchemas() {
	s.ResponseSchemas = false
	sum := sha256.Sum256([]byte(s.Hash + "\x00no response schemas"))
	s.Hash = hex.EncodeToString(sum[:])
	for _, t := range s.tools {
		t.Response.Schema = nil
	}
}
