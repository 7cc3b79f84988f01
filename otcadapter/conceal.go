package otcadapter

import (
	"encoding/base64"
	"net/url"
	"strings"
)

// concealed stands where a credential was.
const concealed = "[concealed]"

// minConcealed is how long a credential must be to be looked for in texts, in
// bytes: what is shorter stands in many by chance.
const minConcealed = 4

// conceal returns what takes the credentials that a call sends out of a text,
// because some APIs repeat them in what they refuse; nil if it sends none.
func (g *grant) conceal(c *callContext) func(string) string {
	if len(g.supplied) == 0 {
		return nil
	}
	var pairs []string
	hide := func(secret string) {
		if len(secret) < minConcealed {
			return
		}
		pairs = append(pairs, secret, concealed)
		if escaped := url.QueryEscape(secret); escaped != secret {
			pairs = append(pairs, escaped, concealed)
		}
	}
	for _, need := range g.supplied {
		value, _ := c.credential(need.id)
		hide(value)
		if need.scheme.Type == "http" && need.scheme.Scheme == "basic" {
			hide(base64.StdEncoding.EncodeToString([]byte(value)))
			_, password, _ := strings.Cut(value, ":")
			hide(password)
		}
	}
	if len(pairs) == 0 {
		return nil
	}
	return strings.NewReplacer(pairs...).Replace
}
