package tools

import (
	"testing"

	"github.com/fairwayhq/fairway/internal/calltrace"
)

// TestSucceeded compares Succeeded with what a span of a call is marked with.
func TestSucceeded(t *testing.T) {
	for _, name := range []string{
		OutcomeOK, OutcomeRateLimited, OutcomeReplayed, OutcomeInputRequired, OutcomePending, string(Refused), string(Failed), string(Internal),
	} {
		if marked := calltrace.ErrorType(name) != ""; Succeeded(name) == marked {
			t.Errorf("%s: succeeded %t, but its span is marked as failed %t", name, Succeeded(name), marked)
		}
	}
}
