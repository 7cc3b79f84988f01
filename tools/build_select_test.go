package tools

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/tools/build"
)

// filtered has an operationId that is no name, one that is a name, and none.
const filtered = `{"openapi":"3.1.0","info":{"title":"Filtered","version":"1"},"paths":{
	"/issues/{id}/lock":{"put":{"operationId":"issues/lock","tags":["issues"]}},
	"/issues":{"get":{"operationId":"listIssues","tags":["issues"]}},
	"/pulls/{id}":{"get":{"tags":["pulls"]},"delete":{"operationId":"issues_lock","tags":["pulls"]}}}}`

func TestSelector_names_that_select_an_operation(t *testing.T) {
	for _, test := range []struct {
		exclude string
		gone    []string
	}{
		{"issues/lock", []string{"put_issues_lock"}},
		{"put_issues_lock", []string{"put_issues_lock"}},
		{"PUT /issues/{id}/lock", []string{"put_issues_lock"}},
		{"put /issues/{id}/lock", []string{"put_issues_lock"}},
		{"get_pulls_id", []string{"get_pulls_id"}},
		{"GET /pulls/{id}", []string{"get_pulls_id"}},
		// The operationId of one tool, which the other one's would become.
		{"issues_lock", []string{"issues_lock"}},
	} {
		all := buildTools(t, filtered, BuildOptions{})
		left := buildTools(t, filtered, BuildOptions{Exclude: []build.Selector{{By: "operation", Value: test.exclude}}})
		var gone []string
		for _, tool := range all.Tools() {
			if _, has := left.Tool(tool.Name); !has {
				gone = append(gone, tool.Name)
			}
		}
		if !slices.Equal(gone, test.gone) || left.Report.Excluded != len(test.gone) {
			t.Errorf("%s: %q gone, %d excluded; want %q", test.exclude, gone, left.Report.Excluded, test.gone)
		}
	}
}

func TestSelector_unmatched_names_the_nearest(t *testing.T) {
	for _, test := range []struct{ by, value, near string }{
		{"tag", "isues", "issues"},
		{"tag", "admin", "issues, pulls"},
		{"operation", "issue_lock", "issues/lock"},
		{"operation", "listIssue", "listIssues"},
		{"operation", "GET /issue", "GET /issues"},
		{"path", "/issue", "/issues"},
		{"path", "/pull/*", "/pulls/*"},
		{"path", "/pull/**", "/pulls/**"},
		{"method", "PATCH", "PUT, GET, DELETE"},
	} {
		chosen := build.Selector{By: test.by, Value: test.value}
		for option, options := range map[string]BuildOptions{
			"include": {Include: []build.Selector{chosen, {By: "method", Value: "get"}}},
			"exclude": {Exclude: []build.Selector{chosen, {By: "method", Value: "get"}}},
		} {
			_, err := Build([]byte(filtered), options)
			var unmatched *build.UnmatchedError
			if !errors.As(err, &unmatched) {
				t.Errorf("%s %s: got %v", option, chosen, err)
				continue
			}
			if unmatched.Option != option || !slices.Equal(unmatched.Selectors, []build.Selector{chosen}) {
				t.Errorf("%s %s: reported %+v", option, chosen, unmatched)
			}
			if !strings.Contains(err.Error(), chosen.String()) || !strings.Contains(err.Error(), test.near) {
				t.Errorf("%s %s: got %q, want %q", option, chosen, err, test.near)
			}
		}
	}
}

func TestSelector_invalid_for_every_document(t *testing.T) {
	for want, one := range map[string]build.Selector{
		"DELETE": {By: "method", Value: "DELTE"},
		"tag":    {By: "tags", Value: "issues"},
		"needs":  {By: "operation"},
	} {
		if err := one.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", one, err, want)
		}
	}
	if err := (build.Selector{By: "method", Value: "delete"}).Check(); err != nil {
		t.Error(err)
	}
}

// TestSelector_after_a_reload wants a filter that stopped matching to be an error
// only where the operation that it withheld may have another name now.
func TestSelector_after_a_reload(t *testing.T) {
	none := build.Selector{By: "tag", Value: "none"}
	if _, err := Build([]byte(filtered), BuildOptions{Reloaded: true, Exclude: []build.Selector{none}}); err == nil {
		t.Error("an exclude that stopped matching: no error")
	}
	for name, options := range map[string]BuildOptions{
		"include": {Include: []build.Selector{none, {By: "tag", Value: "pulls"}}},
		"method":  {Exclude: []build.Selector{{By: "method", Value: "PATCH"}}},
	} {
		options.Reloaded = true
		set, err := Build([]byte(filtered), options)
		if err != nil || len(set.Report.Unmatched) != 1 {
			t.Fatalf("%s: got the report %+v and the error %v, want one unmatched selector", name, set, err)
		}
		if w := set.Report.Warnings; len(w) == 0 || w[0].Operation != "" {
			t.Errorf("%s: got the warnings %+v, want one of the whole document", name, w)
		}
	}
	first := buildTools(t, filtered, BuildOptions{})
	if again := buildTools(t, filtered, BuildOptions{Reloaded: true}); again.Hash != first.Hash {
		t.Error("a reload of the same document has another hash")
	}
}
