package oagent_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/store/embedded"
)

// crashVariable holds the path of the store that a child opens.
const crashVariable = "FAIRWAY_OAGENT_CHILD"

// TestCrashChild is the process that TestCrash kills: it makes calls and prints
// the numbers of those that reach the upstream.
func TestCrashChild(t *testing.T) {
	path := os.Getenv(crashVariable)
	if path == "" {
		return
	}
	s, err := embedded.Open(path, embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	g := newGuard(t, oagent.GuardOptions{Store: s})
	a := agent(t, "capabilities:\n  act:\n    output_restriction:\n      assertion: recent.act.outputs.ok\n")
	for range 8 {
		go func() {
			for {
				ticket, err := g.Begin(context.Background(), call(a, "act", `{}`))
				if err != nil {
					panic(err)
				}
				fmt.Printf("reached %d\n", ticket.Number)
				if err := ticket.Finish(context.Background(), jsontext.Value(`{"ok":true}`), 200); err != nil {
					panic(err)
				}
			}
		}()
	}
	select {}
}

// TestCrash kills a process in the middle of its calls: the record has each that
// reached the upstream.
func TestCrash(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "records.db")
	a := agent(t, "capabilities:\n  act: {}\n")
	b := binding(a)
	reached := map[int64]bool{}
	for _, enough := range []int{1, 50, 500} {
		command := exec.Command(program, "-test.run=^TestCrashChild$", "-test.timeout=5m")
		command.Env = append(os.Environ(), crashVariable+"="+path)
		command.Stderr = os.Stderr
		output, err := command.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		seen := 0
		for lines := bufio.NewScanner(output); lines.Scan(); {
			var number int64
			if _, err := fmt.Sscanf(lines.Text(), "reached %d", &number); err == nil {
				if reached[number] {
					t.Errorf("call %d has reached the upstream twice", number)
				}
				reached[number] = true
			}
			if seen++; seen == enough {
				_ = command.Process.Kill()
			}
		}
		_ = command.Wait()
		if seen < enough {
			t.Fatalf("the child ended after %d calls", seen)
		}
		s, err := embedded.Open(path, embedded.Options{})
		if err != nil {
			t.Fatal(err)
		}
		g := newGuard(t, oagent.GuardOptions{Store: s})
		begun := map[int64]bool{}
		for _, e := range audit(t, g, b.Key()) {
			if e.Event == engagement.EntryBegun {
				begun[e.Call] = true
			}
		}
		for number := range reached {
			if !begun[number] {
				t.Errorf("call %d reached the upstream, and is not in the record", number)
			}
		}
		e, err := g.Engagements.Get(t.Context(), b.Key())
		if err != nil || e.Total != int64(len(begun)) {
			t.Errorf("%+v with %d calls, error %v", e, len(begun), err)
		}
		want(t, "it goes on", outcomeOf(t, g, call(a, "act", `{}`), `{}`), "")
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
