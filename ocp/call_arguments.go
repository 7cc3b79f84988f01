package ocp

import "github.com/fairwayhq/fairway/internal/wire"

// AppendArguments appends the arguments as a JSON object, as they go to the API:
// as the caller wrote them, and what the document fixes for one that is not given.
func (c *Call) AppendArguments(dst []byte) []byte {
	dst = append(dst, '{')
	start := len(dst)
	member := func(name string) {
		if len(dst) > start {
			dst = append(dst, ',')
		}
		dst = append(wire.AppendString(dst, name), ':')
	}
	for i := range c.values {
		if value := c.value(i); value != nil {
			member(c.Tool.Arguments[i].Name)
			dst = append(dst, value...)
		}
	}
	for _, m := range c.extra {
		member(m.Name)
		dst = append(dst, m.Value...)
	}
	return append(dst, '}')
}
