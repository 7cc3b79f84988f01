package tools

import (
	"fmt"
	"strings"
	"testing"
)

// TestBuild_tools_with_the_same_arguments_share_them, and only those.
func TestBuild_tools_with_the_same_arguments_share_them(t *testing.T) {
	operation := func(name, description string) string {
		return fmt.Sprintf(`"/%s/{id}":{"post":{"operationId":"%s","parameters":[{"name":"id","in":"path","required":true,"description":"%s","schema":{"type":"string"}}],
			"requestBody":{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/Body"}}}},"responses":{}}}`, name, name, description)
	}
	set := buildTools(t, `{"openapi":"3.1.0","info":{"title":"T","version":"1"},
		"components":{"schemas":{"Body":{"type":"object","properties":{"name":{"type":"string"},"parent":{"$ref":"#/components/schemas/Body"}}}}},
		"paths":{`+strings.Join([]string{operation("a", "The id."), operation("b", "The id."), operation("c", "Another id.")}, ",")+`}}`, BuildOptions{})
	a, b, c := set.Tools()[0], set.Tools()[1], set.Tools()[2]
	if &a.Plan.Arguments[0] != &b.Plan.Arguments[0] || &a.Definition.InputSchema[0] != &b.Definition.InputSchema[0] {
		t.Error("a and b take the same arguments and do not share them")
	}
	if &a.Plan.Arguments[0] == &c.Plan.Arguments[0] || !strings.Contains(string(c.Definition.InputSchema), "Another id.") || c.Definition.Arguments[0].Description != "Another id." {
		t.Errorf("c has the arguments of another tool: %s", c.Definition.InputSchema)
	}
	if call, err := b.Bind([]byte(`{"id":"1","name":"n","parent":{"name":1}}`)); err == nil {
		t.Errorf("a shared schema is not checked: %v", call)
	}
}

func TestArgumentIndex_finds_every_argument(t *testing.T) {
	for _, n := range []int{0, 1, unindexed, unindexed + 1, 100} {
		all := make([]Argument, n)
		for i := range all {
			all[i].Name = fmt.Sprintf("n%d", (i*37)%101)
		}
		index := indexOf(all)
		for i := range all {
			if at, ok := index.position(all, all[i].Name); !ok || at != i {
				t.Errorf("%d arguments: %s is at %d, %v", n, all[i].Name, at, ok)
			}
		}
		if _, ok := index.position(all, "other"); ok {
			t.Errorf("%d arguments: found one that is not there", n)
		}
	}
}
