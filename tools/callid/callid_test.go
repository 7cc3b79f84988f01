package callid

import (
	"slices"
	"testing"
	"time"
)

func TestNew_has_the_time_and_is_unique(t *testing.T) {
	before := time.Now().Truncate(time.Microsecond)
	seen := make(map[ID]bool)
	for range 1000 {
		id := New()
		at, ok := Time(id.String())
		if !ok || at.Before(before) || at.After(time.Now()) {
			t.Fatalf("the id %s has the time %v, %t; want one from %v on", id, at, ok, before)
		}
		if seen[id] {
			t.Fatalf("the id %s was returned twice", id)
		}
		seen[id] = true
	}
	if (ID{}).String() != "" {
		t.Errorf("got the text %q of no id, want none", ID{})
	}
}

func TestIDs_sort_by_time(t *testing.T) {
	first := New().String()
	time.Sleep(2 * time.Microsecond)
	if ids := []string{New().String(), first}; slices.IsSorted(ids) {
		t.Errorf("the later of %q sorts first", ids)
	}
}

func TestTime_rejects_other_texts(t *testing.T) {
	for _, text := range []string{"", "node-1.7", "1j3k5m7n9p1r3t5v7", "1j3k5m7n9p1r3t5", "1j3k5m7n9p1r3t5i", "1J3K5M7N9P1R3T5V"} {
		if at, ok := Time(text); ok {
			t.Errorf("%q was read as the time %v", text, at)
		}
	}
}

func TestNew_does_not_allocate(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { New() }); n != 0 {
		t.Errorf("got %v allocations, want none", n)
	}
}
