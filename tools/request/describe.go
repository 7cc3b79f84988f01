package request

import "fmt"

// Describe returns a text that is the same for two Serializers if they write every value in the same way.
// It does not tell which names a value must not write because other parameters have them.
func (s *Serializer) Describe() string {
	described := fmt.Sprintf("%s %q %+v %t %t %t", s.in, s.name, s.layout, s.explode, s.content, s.json)
	if s.segments != "" {
		described += " " + s.segments
	}
	return described
}
