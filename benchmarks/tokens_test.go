package main

import (
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/tools"
)

// TestTasks_tokens checks the mean of the tokens that the tasks take.
func TestTasks_tokens(t *testing.T) {
	sets := map[string]*tools.Toolset{}
	total := 0
	for _, task := range tasks {
		if sets[task.document] == nil {
			testkit.DocumentPath(t, "openapi/"+task.document)
			set, err := sharedTools(task.document)
			if err != nil {
				t.Fatal(err)
			}
			sets[task.document] = set
		}
		tokens, err := task.tokens(sets[task.document])
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%5d tokens: %s …", tokens, task.steps[0].query)
		total += tokens
	}
	if mean := total / len(tasks); mean > maxTaskTokens {
		t.Errorf("the tasks take %d tokens on average, want at most %d", mean, maxTaskTokens)
	} else {
		t.Logf("%d tokens on average", mean)
	}
}
