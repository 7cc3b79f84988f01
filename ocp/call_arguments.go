package ocp

import "github.com/fairwayhq/fairway/internal/wire"

// AppendArguments appends the arguments as a JSON object, as they go to the API:
// as the caller wrote them, and the document's default for one that is not given.
// Those that the gateway fills are left out.
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
		if value := c.value(i); value != nil && !c.Tool.plans[i].filled {
			member(c.Tool.all[i].Name)
			dst = append(dst, value...)
		}
	}
	for _, m := range c.extra {
		member(m.Name)
		dst = append(dst, m.Value...)
	}
	return append(dst, '}')
}
