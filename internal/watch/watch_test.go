package watch

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/testkit"
)

func TestRead(t *testing.T) {
	folder := t.TempDir()
	main, other := filepath.Join(folder, "main"), filepath.Join(folder, "other")
	testkit.WriteAged(t, main, "one", time.Hour)
	file := File{Path: main, MaxSize: 3}
	var state *State
	read := func(rule string, wantChange bool, want string) {
		t.Helper()
		data, next, changed, err := file.Read(state)
		if err != nil || changed != wantChange || string(data) != want {
			t.Fatalf("%s: changed %v, data %q, error %v", rule, changed, data, err)
		}
		state = next
	}
	read("first read", true, "one")
	read("nothing happened", false, "")
	testkit.WriteAged(t, main, "one", time.Minute)
	read("touched", false, "")
	testkit.WriteAged(t, main, "two", time.Minute)
	read("other content", true, "two")
	state = state.Follow([]string{other, main, other}, 10)
	if got := state.Followed(); !slices.Equal(got, []string{other}) {
		t.Errorf("follows %q", got)
	}
	read("the other file is missing", false, "")
	testkit.WriteAged(t, other, "other", time.Hour)
	read("the other file appeared", true, "two")
	read("nothing happened again", false, "")
	testkit.WriteAged(t, main, "three", time.Second)
	if _, _, _, err := file.Read(state); !errors.Is(err, buffer.ErrTooLarge) {
		t.Errorf("more than the limit: %v", err)
	}
}

func TestPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		var at []time.Duration
		Poll(ctx, time.Second, func(context.Context) {
			if at = append(at, time.Since(began)); len(at) == 2 {
				cancel()
			}
		})
		if !slices.Equal(at, []time.Duration{time.Second, 2 * time.Second}) {
			t.Errorf("checked at %v", at)
		}
	})
}
