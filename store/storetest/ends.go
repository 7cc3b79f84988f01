package storetest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/store"
)

// answer is the result of a Wait.
type answer struct {
	record store.Record
	err    error
}

func waiting(ctx context.Context, s store.Store, key string, seen []byte) <-chan answer {
	answers := make(chan answer, 1)
	go func() {
		r, err := s.Wait(ctx, key, seen)
		answers <- answer{r, err}
	}()
	return answers
}

func within(t *testing.T, what string, answers <-chan answer) answer {
	t.Helper()
	select {
	case a := <-answers:
		return a
	case <-time.After(patience):
		t.Fatalf("timed out waiting for: %s", what)
		return answer{}
	}
}

func wait(t *testing.T, place Place) {
	stores := nodes(t, place)
	here, there := stores[0], stores[1]
	if _, err := here.Wait(t.Context(), "k", []byte("seen")); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("without a record: %v", err)
	}
	const waiters = 50
	var all [waiters]<-chan answer
	for i := range all {
		all[i] = waiting(t.Context(), stores[i%2], "k", nil)
	}
	put(t, there, "k", value("first"))
	for _, answers := range all {
		if a := within(t, "a record comes", answers); a.err != nil || string(a.record.Value) != "first" {
			t.Errorf("got %q, error %v", a.record.Value, a.err)
		}
	}
	if r, err := here.Wait(t.Context(), "k", []byte("other")); err != nil || string(r.Value) != "first" {
		t.Errorf("another value: %q, error %v", r.Value, err)
	}
	for i := range all {
		all[i] = waiting(t.Context(), stores[i%2], "k", []byte("first"))
	}
	put(t, there, "k", value("first")) // the same value, so no waiter returns
	put(t, there, "else", value("x"))
	put(t, here, "k", value(""))
	for _, answers := range all {
		if a := within(t, "the record changes", answers); a.err != nil || a.record.Value == nil || len(a.record.Value) != 0 {
			t.Errorf("got %q, error %v", a.record.Value, a.err)
		}
	}
	answers := waiting(t.Context(), here, "k", []byte{})
	if err := there.Delete(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	if a := within(t, "the record is deleted", answers); !errors.Is(a.err, store.ErrNotFound) {
		t.Errorf("got %q, error %v", a.record.Value, a.err)
	}
}

func waitExpiry(t *testing.T, place Place) {
	s := open(t, place)
	put(t, s, "k", store.Change{Value: []byte("x"), TTL: short})
	if a := within(t, "the record expires", waiting(t.Context(), s, "k", []byte("x"))); !errors.Is(a.err, store.ErrNotFound) {
		t.Errorf("got %q, error %v", a.record.Value, a.err)
	}
}

func contexts(t *testing.T, place Place) {
	s := open(t, place)
	put(t, s, "k", value("x"))
	ctx, cancel := context.WithCancel(t.Context())
	answers := waiting(ctx, s, "k", []byte("x"))
	cancel()
	if a := within(t, "the waiter's context ends", answers); !errors.Is(a.err, context.Canceled) {
		t.Errorf("Wait: %v", a.err)
	}
	// A caller that waits for a change by another stops waiting when its context ends.
	deciding, decide := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		err := s.Update(t.Context(), "k", func(store.Record) (store.Change, error) {
			close(deciding)
			<-decide
			return value("y"), nil
		})
		if err != nil {
			t.Errorf("update: %v", err)
		}
	})
	<-deciding
	err := s.Update(ctx, "k", func(store.Record) (store.Change, error) { return value("z"), nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Update: %v", err)
	}
	close(decide)
	all.Wait()
	want(t, s, "k", "y", 0)
}

func closing(t *testing.T, place Place) {
	s := place.Open(t)
	put(t, s, "k", value("x"))
	var all []<-chan answer
	for range 10 {
		all = append(all, waiting(t.Context(), s, "k", []byte("x")))
	}
	var users sync.WaitGroup
	for range 10 {
		users.Go(func() {
			for {
				if err := s.Put(t.Context(), "k2", value("y")); err != nil {
					if !errors.Is(err, store.ErrClosed) {
						t.Errorf("put while closing: %v", err)
					}
					return
				}
			}
		})
	}
	until(t, "the users have begun", func() bool {
		_, err := s.Get(t.Context(), "k2")
		return err == nil
	})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	users.Wait()
	for _, answers := range all {
		if a := within(t, "waiters end", answers); !errors.Is(a.err, store.ErrClosed) {
			t.Errorf("got %q, error %v", a.record.Value, a.err)
		}
	}
	_, getErr := s.Get(t.Context(), "k")
	_, readErr := s.Read(t.Context(), "k", 0, 1)
	_, keysErr := s.Keys(t.Context(), "", "", 1)
	_, waitErr := s.Wait(t.Context(), "k", nil)
	for name, err := range map[string]error{
		"Get": getErr, "Read": readErr, "Keys": keysErr, "Wait": waitErr,
		"Put": s.Put(t.Context(), "k", value("x")), "Delete": s.Delete(t.Context(), "k"),
	} {
		if !errors.Is(err, store.ErrClosed) {
			t.Errorf("%s after Close: %v", name, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("closing twice: %v", err)
	}
	stacks := make([]byte, 1<<20)
	until(t, "the store's goroutines end", func() bool {
		all := string(stacks[:runtime.Stack(stacks, true)])
		return !strings.Contains(all, "store/embedded.(*") && !strings.Contains(all, "store/redis.(*") && !strings.Contains(all, "go-redis") &&
			!strings.Contains(all, "store/postgres.(*") && !strings.Contains(all, "pgxpool")
	})
}

// childVariable is the environment variable with the address that a child process opens.
const childVariable = "FAIRWAY_STORE_CHILD"

const crashers = 8 // goroutines of the child process, each with its own key

// Child is the main function of a process started by crash; in other processes it returns
// at once. It opens the store, increments counters until it is killed, and prints each
// acknowledged value.
func Child(open func(address string) (store.Store, error)) {
	address := os.Getenv(childVariable)
	if address == "" {
		return
	}
	s, err := open(address)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for i := range crashers {
		go func() {
			for {
				var count int
				err := s.Update(context.Background(), "crash"+strconv.Itoa(i), func(old store.Record) (store.Change, error) {
					count, _ = strconv.Atoi(string(old.Value))
					count++
					c := value(strconv.Itoa(count))
					c.Entries = [][]byte{c.Value}
					return c, nil
				})
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				fmt.Printf("%d %d\n", i, count)
			}
		}()
	}
	select {}
}

// crash kills a process during its writes. It checks that all acknowledged changes are in
// the store and that each value has its log entries.
func crash(t *testing.T, place Place) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var acknowledged [crashers]int
	for _, enough := range []int{1, 100, 1000} {
		command := exec.Command(program)
		command.Env = append(os.Environ(), childVariable+"="+place.Address)
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
			var i, count int
			if _, err := fmt.Sscanf(lines.Text(), "%d %d", &i, &count); err == nil && i < crashers {
				acknowledged[i] = count
			}
			if seen++; seen == enough {
				_ = command.Process.Kill()
			}
		}
		_ = command.Wait()
		if seen < enough {
			t.Fatalf("the child ended after %d changes", seen)
		}
		s := place.Open(t)
		for i, count := range acknowledged {
			key := "crash" + strconv.Itoa(i)
			r, err := s.Get(t.Context(), key)
			if err != nil && (count > 0 || !errors.Is(err, store.ErrNotFound)) {
				t.Fatal(err)
			}
			has, _ := strconv.Atoi(string(r.Value))
			if has < count || has > count+1 || r.Length != int64(has) {
				t.Errorf("%s is %d with %d entries; %d were acknowledged", key, has, r.Length, count)
			}
			wantCounted(t, s, key, has)
			acknowledged[i] = has // the next child may be killed before it prints this value
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
