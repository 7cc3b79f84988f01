package otcadapter

import "github.com/fairwayhq/fairway/internal/conceal"

// conceal returns what takes the credentials that a call sends out of a text,
// because some APIs repeat them in what they refuse; nil if it sends none.
func (g *grant) conceal(c *callContext) func(string) string {
	var secrets conceal.Secrets
	for _, need := range g.supplied {
		value, _ := c.credential(need.id)
		if need.scheme.Type == "http" && need.scheme.Scheme == "basic" {
			secrets.AddBasic(value)
		} else {
			secrets.Add(value)
		}
	}
	if secrets.None() {
		return nil
	}
	return secrets.Conceal
}
