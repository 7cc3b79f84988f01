package tool

import "github.com/fairwayhq/fairway/internal/wire"

// AppendArguments appends the arguments that the API receives, as a JSON object: the
// caller's values, and the document's defaults for absent arguments. It omits the
// arguments that the gateway fills.
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
		if value := c.value(i); value != nil && !c.Tool.plans[i].Filled {
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
