package loader

import (
	"errors"
	"testing"
)

// TestLoader_notifies_subscribers wants a subscriber to be notified of each new Toolset,
// which is in place by then, and of nothing else.
func TestLoader_notifies_subscribers(t *testing.T) {
	source := &memorySource{}
	l := New(Options{Source: source, Build: buildTitled})
	var seen, other []string
	cancel := l.OnChange(func() { seen = append(seen, l.Toolset().Title) })
	defer l.OnChange(func() { other = append(other, l.Toolset().Title) })()

	for _, step := range []struct {
		content string
		err     error
		want    int
	}{
		{"one", nil, 1},
		{"one", nil, 1},
		{"bad", nil, 1},
		{"", errors.New("not there"), 1},
		{"two", nil, 2},
	} {
		source.set(step.content, step.err)
		_ = l.Load(t.Context()) // some fail
		if len(seen) != step.want || len(other) != step.want {
			t.Errorf("after %q (%v): reported %q and %q, want %d", step.content, step.err, seen, other, step.want)
		}
	}
	cancel()
	cancel()
	source.set("three", nil)
	if err := l.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(seen) != 2 || len(other) != 3 || other[2] != "three" {
		t.Errorf("after the end of a subscription: reported %q and %q", seen, other)
	}
}
