package oagent_test

import (
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// TestOAgent_adapt_errors wants every error to say what is wrong and in which line.
func TestOAgent_adapt_errors(t *testing.T) {
	inOAgent := func(option string) string { return "http://a.test {\n\toagent a.yaml {\n\t\t" + option + "\n\t}\n}" }
	for name, test := range map[string]struct {
		caddyfile string
		want      string
		line      string
	}{
		"no file":                        {"http://a.test {\n\toagent\n}", "oagent agents/support.yaml", ":2"},
		"a matcher alone":                {"http://a.test {\n\toagent /api/*\n}", "oagent file", ":2"},
		"a file twice":                   {"http://a.test {\n\toagent a.yaml a.yaml\n}", "a.yaml twice", ":2"},
		"unknown":                        {inOAgent("frobnicate"), "unrecognized oagent frobnicate", ":3"},
		"guard twice":                    {inOAgent("guard {http.a}\n\t\tguard {http.b}"), "guard twice", ":4"},
		"guard without value":            {inOAgent("guard"), "wrong argument count", ":3"},
		"review_wait":                    {inOAgent("review_wait soon"), "review_wait soon", ":3"},
		"engagement_ttl":                 {inOAgent("engagement_ttl off"), "engagement_ttl off", ":3"},
		"max_output":                     {inOAgent("max_output 0"), "max_output 0", ":3"},
		"max_recorded":                   {inOAgent("max_recorded 0"), "max_recorded 0", ":3"},
		"max_recorded, too much":         {inOAgent("max_recorded 1MiB"), "max_recorded 1MiB 256 KiB", ":3"},
		"max_recorded twice":             {inOAgent("max_recorded 1KiB\n\t\tmax_recorded 1KiB"), "max_recorded twice", ":4"},
		"exposes":                        {inOAgent("exposes body"), "exposes body header off", ":3"},
		"undeclared":                     {inOAgent("undeclared pass"), "undeclared pass refuse allow", ":3"},
		"undeclared twice":               {inOAgent("undeclared allow\n\t\tundeclared refuse"), "undeclared twice", ":4"},
		"serve relative":                 {inOAgent("serve agents"), "slash", ":3"},
		"serve all":                      {inOAgent("serve /"), "whole site", ":3"},
		"identity unnamed":               {inOAgent("identity {\n\t\t\theader_up A b\n\t\t}"), "identity name", ":3"},
		"identity twice":                 {inOAgent("identity A {\n\t\t\theader_up A b\n\t\t}\n\t\tidentity A {\n\t\t\theader_up A b\n\t\t}"), "identity A twice", ":6"},
		"identity empty":                 {inOAgent("identity A"), "identity A credentials", ":3"},
		"identity unknown":               {inOAgent("identity A {\n\t\t\tcookie a b\n\t\t}"), "unrecognized identity cookie", ":4"},
		"header_up incomplete":           {inOAgent("identity A {\n\t\t\theader_up A\n\t\t}"), "header_up value", ":4"},
		"header_up twice":                {inOAgent("identity A {\n\t\t\theader_up A b\n\t\t\theader_up a c\n\t\t}"), "header A twice", ":5"},
		"header_up not a name":           {inOAgent("identity A {\n\t\t\theader_up \"A B\" b\n\t\t}"), "name header", ":4"},
		"identity on a line, incomplete": {inOAgent("identity A header_up A"), "header_up value", ":3"},
		"identity on a line, too much":   {inOAgent("identity A header_up A b header_up C d"), "header_up value", ":3"},
		"identity on a line, unknown":    {inOAgent("identity A Bearer b"), "unrecognized identity Bearer", ":3"},
		"identity on a line, and twice":  {inOAgent("identity A header_up A b\n\t\tidentity A header_up A b"), "identity A twice", ":4"},
		"identity on a line and a block": {inOAgent("identity A header_up A b {\n\t\t\theader_up C d\n\t\t}"), "block", ":4"},
		"identity in braces on a line":   {inOAgent("identity A { header_up A b }"), "next token after '{' on same line", ":3"},
		"forward_headers":                {inOAgent("forward_headers \"A B\""), "name header", ":3"},
		"forward_headers of a method":    {inOAgent("forward_headers x_http_method"), "never x_http_method", ":3"},
		"caller_headers":                 {inOAgent("caller_headers X-User"), "mean forward_headers", ":3"},
		"limits of an agent twice":       {inOAgent("limits desk {\n\t\t\tturns 3\n\t\t}\n\t\tlimits desk {\n\t\t\tturns 3\n\t\t}"), "limits desk twice", ":6"},
		"limits of all twice":            {inOAgent("limits {\n\t\t\tturns 3\n\t\t}\n\t\tlimits {\n\t\t\tturns 3\n\t\t}"), "limits twice", ":"},
		"ask_user":                       {inOAgent("limits {\n\t\t\task_user never\n\t\t}"), "ask_user on off", ":4"},
		"summarize":                      {inOAgent("limits {\n\t\t\tsummarize 5\n\t\t}"), "summarize on off", ":4"},
		"agent of ocp":                   {"http://a.test {\n\tocp {\n\t\tagent a\n\t}\n}", "agent", ":3"},
		"agent of mcp twice":             {"http://a.test {\n\tmcp t {\n\t\tagent a\n\t\tagent b\n\t}\n}", "agent twice", ":4"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := sitetest.Adapt(test.caddyfile)
			if err == nil {
				t.Fatal("no error")
			}
			if !testkit.ContainsAll(err.Error(), test.want) || !strings.Contains(err.Error(), "Caddyfile"+test.line) {
				t.Errorf("got %q, want %q and line %s", err, test.want, test.line)
			}
		})
	}
}
