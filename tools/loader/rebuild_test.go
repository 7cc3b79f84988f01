package loader

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/source"
)

// TestLoaderRebuilds builds a document anew that has not changed: by Load, and in
// the background at once though nothing is ever refreshed.
func TestLoaderRebuilds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		origin, builds := &memorySource{}, new(atomic.Int64)
		origin.set("one", nil)
		l := New(Options{Source: origin, Refresh: -1, Build: func(context.Context, []byte, string, *tools.Toolset) (*tools.Toolset, []string, error) {
			builds.Add(1)
			return &tools.Toolset{}, nil, nil
		}})
		want := func(what string, n int64) {
			t.Helper()
			time.Sleep(time.Minute)
			synctest.Wait()
			if got := builds.Load(); got != n {
				t.Errorf("%s: built %d times, want %d", what, got, n)
			}
		}
		l.Rebuild()
		if err := l.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := l.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		want("before it was loaded, and unchanged", 1)
		first := l.Toolset()
		l.Rebuild()
		if err := l.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		want("by Load", 2)
		if l.Toolset() == first {
			t.Error("the Toolset is the old one")
		}
		l.Start()
		want("started", 2)
		l.Rebuild()
		l.Rebuild()
		want("in the background", 3)
		origin.set("", errors.New("away"))
		l.Rebuild()
		want("while the source is away", 3)
		origin.set("one", nil)
		if err := l.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		want("when it is back", 4)
		l.Stop()
	})
}

// TestLoaderRebuilds_by_a_request builds a document of the site anew with the next
// request for it.
func TestLoaderRebuilds_by_a_request(t *testing.T) {
	calls, builds := new(atomic.Int32), new(atomic.Int64)
	l := New(Options{Source: &source.Site{Path: "/openapi.json"}, Build: func(context.Context, []byte, string, *tools.Toolset) (*tools.Toolset, []string, error) {
		builds.Add(1)
		return &tools.Toolset{}, nil, nil
	}})
	l.Start()
	defer l.Stop()
	fetch := site(calls, "one")
	for range 2 {
		if _, err := l.Ensure(t.Context(), fetch); err != nil {
			t.Fatal(err)
		}
	}
	if n := builds.Load(); n != 1 {
		t.Fatalf("built %d times, want once", n)
	}
	l.Rebuild()
	testkit.Eventually(t, "the document to be built anew", func() bool {
		_, err := l.Ensure(t.Context(), fetch)
		return err == nil && builds.Load() == 2
	})
}
