package caddymodule_test

import (
	"strings"
	"testing"
)

// TestOAgentAdaptErrors wants every error to say what is wrong and in which line.
func TestOAgentAdaptErrors(t *testing.T) {
	inOAgent := func(option string) string { return "http://a.test {\n\toagent a.yaml {\n\t\t" + option + "\n\t}\n}" }
	for name, test := range map[string]struct {
		caddyfile string
		want      string
		line      string
	}{
		"no file":                        {"http://a.test {\n\toagent\n}", "as in: oagent agents/support.yaml", ":2"},
		"a matcher alone":                {"http://a.test {\n\toagent /api/*\n}", "oagent needs the file", ":2"},
		"a file twice":                   {"http://a.test {\n\toagent a.yaml a.yaml\n}", "a.yaml is given twice", ":2"},
		"unknown":                        {inOAgent("frobnicate"), "unrecognized oagent subdirective 'frobnicate'", ":3"},
		"guard twice":                    {inOAgent("guard {http.a}\n\t\tguard {http.b}"), "guard is given twice", ":4"},
		"guard without value":            {inOAgent("guard"), "wrong argument count", ":3"},
		"review_wait":                    {inOAgent("review_wait soon"), "review_wait soon: not a duration", ":3"},
		"engagement_ttl":                 {inOAgent("engagement_ttl off"), "engagement_ttl off: not a duration", ":3"},
		"max_output":                     {inOAgent("max_output 0"), "max_output 0: not a size", ":3"},
		"max_recorded":                   {inOAgent("max_recorded 0"), "max_recorded 0: not a size", ":3"},
		"max_recorded, too much":         {inOAgent("max_recorded 1MiB"), "max_recorded 1MiB: 256 KiB is the most", ":3"},
		"max_recorded twice":             {inOAgent("max_recorded 1KiB\n\t\tmax_recorded 1KiB"), "max_recorded is given twice", ":4"},
		"exposes":                        {inOAgent("exposes body"), "exposes body: it is header or off", ":3"},
		"undeclared":                     {inOAgent("undeclared pass"), "undeclared pass: it is refuse or allow", ":3"},
		"undeclared twice":               {inOAgent("undeclared allow\n\t\tundeclared refuse"), "undeclared is given twice", ":4"},
		"serve relative":                 {inOAgent("serve agents"), "begins with a slash", ":3"},
		"serve all":                      {inOAgent("serve /"), "the whole site", ":3"},
		"identity unnamed":               {inOAgent("identity {\n\t\t\theader_up A b\n\t\t}"), "identity needs the name", ":3"},
		"identity twice":                 {inOAgent("identity A {\n\t\t\theader_up A b\n\t\t}\n\t\tidentity A {\n\t\t\theader_up A b\n\t\t}"), "identity A is given twice", ":6"},
		"identity empty":                 {inOAgent("identity A"), "identity A has no credentials", ":3"},
		"identity unknown":               {inOAgent("identity A {\n\t\t\tcookie a b\n\t\t}"), "unrecognized identity subdirective 'cookie'", ":4"},
		"header_up incomplete":           {inOAgent("identity A {\n\t\t\theader_up A\n\t\t}"), "header_up needs a header and its value", ":4"},
		"header_up twice":                {inOAgent("identity A {\n\t\t\theader_up A b\n\t\t\theader_up a c\n\t\t}"), "the header A is given twice", ":5"},
		"header_up not a name":           {inOAgent("identity A {\n\t\t\theader_up \"A B\" b\n\t\t}"), "cannot be the name of a header", ":4"},
		"identity on a line, incomplete": {inOAgent("identity A header_up A"), "header_up needs a header and its value", ":3"},
		"identity on a line, too much":   {inOAgent("identity A header_up A b header_up C d"), "header_up needs a header and its value", ":3"},
		"identity on a line, unknown":    {inOAgent("identity A Bearer b"), "unrecognized identity subdirective 'Bearer'", ":3"},
		"identity on a line, and twice":  {inOAgent("identity A header_up A b\n\t\tidentity A header_up A b"), "identity A is given twice", ":4"},
		"identity on a line and a block": {inOAgent("identity A header_up A b {\n\t\t\theader_up C d\n\t\t}"), "put all of them into the block", ":4"},
		"identity in braces on a line":   {inOAgent("identity A { header_up A b }"), "next token after '{' on same line", ":3"},
		"caller_headers":                 {inOAgent("caller_headers \"A B\""), "cannot be the name of a header", ":3"},
		"agent of ocp":                   {"http://a.test {\n\tocp {\n\t\tagent a\n\t}\n}", "agent", ":3"},
		"agent of mcp twice":             {"http://a.test {\n\tmcp t {\n\t\tagent a\n\t\tagent b\n\t}\n}", "agent is given twice", ":4"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := adapt(test.caddyfile)
			if err == nil {
				t.Fatal("no error")
			}
			if !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "Caddyfile"+test.line) {
				t.Errorf("got %q, want %q and line %s", err, test.want, test.line)
			}
		})
	}
}
