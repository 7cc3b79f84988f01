package tools

import (
	"reflect"
	"testing"

	"github.com/fairwayhq/fairway/tools/security"
)

func TestAccess_Challenge_names_all_scopes_of_the_operation(t *testing.T) {
	schemes := map[string]*security.Scheme{"login": {Name: "login", Type: "oauth2"}}
	tool := &Tool{Plan: Plan{Security: []SecurityRequirement{{"login": {"read", "delete"}}, {"login": {"read", "delete", "purge"}}}}}
	access := &Access{Scopes: []string{"admin", "read"}, Granted: []string{"admin"}} // admin includes read
	set := &Toolset{SecuritySchemes: schemes}
	if got := access.Missing(tool, set); !reflect.DeepEqual(got, []string{"delete"}) {
		t.Errorf("missing %q", got)
	}
	if got, want := access.Challenge(tool, set), []string{"delete", "read", "admin"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAccess_Missing(t *testing.T) {
	schemes := map[string]*security.Scheme{"oauth": {Type: "oauth2"}, "oidc": {Type: "openIdConnect"}, "key": {Type: "apiKey"}}
	for rule, c := range map[string]struct {
		access   *Access
		security []map[string][]string
		want     []string
	}{
		"no access":              {nil, []map[string][]string{{"oauth": {"w"}}}, nil},
		"no security":            {&Access{}, nil, nil},
		"no scopes":              {&Access{}, []map[string][]string{{"oauth": {}}}, nil},
		"has it":                 {&Access{Scopes: []string{"w"}}, []map[string][]string{{"oauth": {"w"}}}, nil},
		"lacks it":               {&Access{}, []map[string][]string{{"oauth": {"w"}}}, []string{"w"}},
		"nearest":                {&Access{Scopes: []string{"b"}}, []map[string][]string{{"oauth": {"x", "y"}}, {"oidc": {"b", "c"}}}, []string{"c"}},
		"nothing is needed":      {&Access{}, []map[string][]string{{"oauth": {"w"}}, {}}, nil},
		"a key alone":            {&Access{}, []map[string][]string{{"key": {}}}, nil},
		"a key beside":           {&Access{}, []map[string][]string{{"key": {}, "oauth": {"w"}}}, []string{"w"}},
		"a key instead":          {&Access{}, []map[string][]string{{"oauth": {"w"}}, {"key": {}}}, []string{"w"}},
		"a key instead, before":  {&Access{}, []map[string][]string{{"key": {}}, {"oauth": {"w"}}}, []string{"w"}},
		"a scheme of no meaning": {&Access{}, []map[string][]string{{"other": {"w"}}}, nil},
	} {
		tool := new(Tool)
		for _, r := range c.security {
			tool.Plan.Security = append(tool.Plan.Security, r)
		}
		if got := c.access.Missing(tool, &Toolset{SecuritySchemes: schemes}); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %q, want %q", rule, got, c.want)
		}
	}
}
