package ocp

import (
	"net/http"
	"slices"
	"testing"
	"time"
)

func actions(c *Context) (list []string) {
	for _, e := range c.History {
		list = append(list, e.Action)
	}
	return list
}

func entryAt(seconds int, action string) HistoryEntry {
	return HistoryEntry{Timestamp: at("2026-01-01T00:00:00Z").Add(time.Duration(seconds) * time.Second), Action: action}
}

// TestMerge_history: an echo adds nothing, new entries are added whatever the
// agent has already, and twice is twice: what known clients get wrong.
func TestMerge_history(t *testing.T) {
	a, b := entryAt(1, "a"), entryAt(2, "b")
	written := a
	written.Metadata = []byte(`{ }`)
	for _, test := range []struct {
		name         string
		mine, theirs []HistoryEntry
		want         []string
	}{
		{"echo", []HistoryEntry{a}, []HistoryEntry{a}, []string{"a"}},
		{"echo written differently", []HistoryEntry{a}, []HistoryEntry{written}, []string{"a"}},
		{"new, client has some", []HistoryEntry{a}, []HistoryEntry{b}, []string{"a", "b"}},
		{"new, client has none", nil, []HistoryEntry{b}, []string{"b"}},
		{"echo and new", []HistoryEntry{a}, []HistoryEntry{a, b}, []string{"a", "b"}},
		{"same thing twice", []HistoryEntry{a}, []HistoryEntry{a, a}, []string{"a", "a"}},
		{"same action later", []HistoryEntry{a}, []HistoryEntry{entryAt(3, "a")}, []string{"a", "a"}},
		{"none", []HistoryEntry{a}, nil, []string{"a"}},
	} {
		c := &Context{History: slices.Clone(test.mine)}
		c.Merge(&Context{History: test.theirs}, nil)
		if got := actions(c); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
	long := &Context{History: slices.Repeat([]HistoryEntry{a}, MaxHistory)}
	long.Merge(&Context{History: []HistoryEntry{b}}, nil)
	if len(long.History) != MaxHistory || long.History[MaxHistory-1].Action != "b" {
		t.Errorf("%d entries", len(long.History))
	}
}

// TestMerge_texts: an answer that repeats what it was sent must not undo what has
// changed since.
func TestMerge_texts(t *testing.T) {
	sent := &Context{CurrentGoal: "old goal", ContextSummary: "old", User: "alice", RecentChanges: []string{"one"}}
	c := sent.Clone()
	c.CurrentGoal = "newer goal"
	c.RecentChanges = nil
	c.Merge(&Context{CurrentGoal: "old goal", ContextSummary: "new", ErrorContext: "oops", User: "mallory", RecentChanges: []string{"one", "two"}}, sent)
	if got, want := [...]string{c.CurrentGoal, c.ContextSummary, c.ErrorContext, c.User}, [...]string{"newer goal", "new", "oops", "alice"}; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := c.RecentChanges, []string{"two"}; !slices.Equal(got, want) {
		t.Errorf("got the changes %q, want %q", got, want)
	}
	c.Merge(&Context{}, nil)
	if c.CurrentGoal == "" || c.ContextSummary == "" {
		t.Error("nothing undoes something")
	}
}

func TestMergeHeaders(t *testing.T) {
	c := exampleContext()
	answer := exampleContext()
	answer.CurrentGoal = "another"
	session, err := answer.EncodeSession()
	if err != nil {
		t.Fatal(err)
	}
	answer.ContextID = "ocp-ffffffff"
	foreign, err := answer.EncodeSession()
	if err != nil {
		t.Fatal(err)
	}
	for name, header := range map[string]http.Header{
		"no headers":            {},
		"no context id":         {HeaderSession: {session}},
		"no session":            {HeaderContextID: {c.ContextID}},
		"another context":       {HeaderContextID: {"ocp-ffffffff"}, HeaderSession: {foreign}},
		"session of another":    {HeaderContextID: {c.ContextID}, HeaderSession: {foreign}},
		"session of no context": {HeaderContextID: {c.ContextID}, HeaderSession: {"e30!"}},
	} {
		if c.MergeHeaders(header, nil, ReadOptions{}) || c.CurrentGoal == "another" {
			t.Errorf("%s: merged", name)
		}
	}
	if !c.MergeHeaders(http.Header{HeaderContextID: {c.ContextID}, HeaderSession: {session}}, nil, ReadOptions{}) || c.CurrentGoal != "another" {
		t.Error("not merged")
	}
	if len(c.History) != 2 {
		t.Errorf("%d entries after an echo", len(c.History))
	}
}
