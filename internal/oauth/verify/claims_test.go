package verify

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/oauth"
)

// TestIdentify_reads_claims has the forms in which issuers write users, groups and scopes.
func TestIdentify_reads_claims(t *testing.T) {
	s := newAuthServer(t)
	v := s.verifier(t, nil)
	for rule, test := range map[string]struct {
		rules  oauth.ClaimRules
		claims []any
		want   string // user, groups and scopes
		fault  string // of the token
		noGrps string // a word of the reason
	}{
		"default":                      {want: "ada [] [trips:read trips:write]"},
		"groups/default":               {claims: []any{"groups", []string{"a", "b"}}, want: "ada [a b] [trips:read trips:write]"},
		"groups/one with a space":      {claims: []any{"groups", "Domain Admins"}, want: "ada [Domain Admins] [trips:read trips:write]"},
		"groups/nested":                {rules: oauth.ClaimRules{Groups: []string{"realm_access.roles"}}, claims: []any{"realm_access", map[string]any{"roles": []string{"x"}}}, want: "ada [x] [trips:read trips:write]"},
		"groups/dots in a name":        {rules: oauth.ClaimRules{Groups: []string{"https://app.test/roles"}}, claims: []any{"https://app.test/roles", []string{"x"}}, want: "ada [x] [trips:read trips:write]"},
		"groups/dots in a nested name": {rules: oauth.ClaimRules{Groups: []string{"resource_access.app.test.roles"}}, claims: []any{"resource_access", map[string]any{"app.test": map[string]any{"roles": []string{"x"}}}}, want: "ada [x] [trips:read trips:write]"},
		"groups/several":               {rules: oauth.ClaimRules{Groups: []string{"groups", "roles"}}, claims: []any{"groups", "a", "roles", []string{"b"}}, want: "ada [a b] [trips:read trips:write]"},
		"groups/number":                {claims: []any{"groups", 7}, want: "ada [] [trips:read trips:write]", noGrps: "string"},
		"groups/mixed":                 {claims: []any{"groups", []any{"a", 7}}, want: "ada [] [trips:read trips:write]", noGrps: "string"},
		"groups/link":                  {claims: []any{"_claim_names", map[string]any{"groups": "src1"}}, want: "ada [] [trips:read trips:write]", noGrps: "overage"},
		"groups/hasgroups":             {claims: []any{"hasgroups", true}, want: "ada [] [trips:read trips:write]", noGrps: "overage"},
		"groups/link of another claim": {rules: oauth.ClaimRules{Groups: []string{"roles"}}, claims: []any{"_claim_names", map[string]any{"groups": "src1"}, "hasgroups", true, "roles", "r"}, want: "ada [r] [trips:read trips:write]"},
		"user/claim":                   {rules: oauth.ClaimRules{User: "preferred_username"}, claims: []any{"preferred_username", "grace"}, want: "grace [] [trips:read trips:write]"},
		"user/none":                    {rules: oauth.ClaimRules{User: "oid"}, fault: "oid"},
		"user/number":                  {rules: oauth.ClaimRules{User: "oid"}, claims: []any{"oid", 7}, fault: "oid"},
		"user/control":                 {rules: oauth.ClaimRules{User: "oid"}, claims: []any{"oid", "a\nb"}, fault: "oid"},
		"email/verified":               {rules: oauth.ClaimRules{User: "email"}, claims: []any{"email", "ada@test", "email_verified", true}, want: "ada@test [] [trips:read trips:write]"},
		"email/verified as text":       {rules: oauth.ClaimRules{User: "email"}, claims: []any{"email", "ada@test", "email_verified", "true"}, want: "ada@test [] [trips:read trips:write]"},
		"email/not verified":           {rules: oauth.ClaimRules{User: "email"}, claims: []any{"email", "ada@test", "email_verified", false}, fault: "verified"},
		"email/verified unknown":       {rules: oauth.ClaimRules{User: "email"}, claims: []any{"email", "ada@test"}, fault: "verified"},
		"scopes/claims":                {rules: oauth.ClaimRules{Scopes: []string{"roles", "perm.list"}}, claims: []any{"roles", []string{"r"}, "perm", map[string]any{"list": "p q"}}, want: "ada [] [trips:read trips:write r p q]"},
		"scopes/object grants nothing": {rules: oauth.ClaimRules{Scopes: []string{"roles"}}, claims: []any{"roles", map[string]any{"admin": true}}, want: "ada [] [trips:read trips:write]"},
		"scopes/included":              {rules: oauth.ClaimRules{Includes: map[string][]string{"trips:write": {"a"}, "a": {"b", "trips:write"}}}, want: "ada [] [trips:read trips:write a b]"},
	} {
		t.Run(rule, func(t *testing.T) {
			token, err := v.Verify(t.Context(), s.token(t, with(goodClaims(), test.claims...)), testAudience)
			if err != nil {
				t.Fatal(err)
			}
			of, err := token.Identify(&test.rules)
			if test.fault != "" {
				wantError(t, err, oauth.InvalidToken, test.fault)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(of.User, " ", of.Groups, " ", of.Scopes); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			if !strings.Contains(of.NoGroups, test.noGrps) || (of.NoGroups != "") != (test.noGrps != "") {
				t.Errorf("got the reason %q, want one with %q", of.NoGroups, test.noGrps)
			}
			if again, _ := token.Identify(&test.rules); again != of {
				t.Error("the identity is computed twice")
			}
		})
	}
}

// FuzzFindClaim looks up names in claims of any form. It must end, and find only parts of the claims.
func FuzzFindClaim(f *testing.F) {
	f.Add(`{"a":{"b.c":{"d":1}}}`, "a.b.c.d")
	f.Add(`{"a":1}`, "....")
	f.Add(`{"a":1}`, strings.Repeat(".", 2000))
	f.Fuzz(func(t *testing.T, claims, name string) {
		found := oauth.FindClaim(jsontext.Value(claims), name)
		if !strings.Contains(claims, string(found)) {
			t.Errorf("found %s", found)
		}
	})
}
