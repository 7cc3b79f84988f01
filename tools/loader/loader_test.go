package loader

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/watch"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/source"
)

// memorySource is a document in memory, or the error that it cannot be read with.
type memorySource struct {
	mu      sync.Mutex
	content string
	err     error
	fetches int
}

func (s *memorySource) Location() string { return "memory" }

func (s *memorySource) set(content string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.content, s.err = content, err
}

func (s *memorySource) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fetches
}

func (s *memorySource) Fetch(_ context.Context, previous *source.Snapshot) (*source.Snapshot, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fetches++
	if s.err != nil {
		return nil, false, s.err
	}
	if s.content == "panic in fetch" {
		panic("in fetch")
	}
	// Location carries the content, as a hash would.
	if previous != nil && previous.Location == s.content {
		return previous, false, nil
	}
	return &source.Snapshot{Data: []byte(s.content), Location: s.content}, true, nil
}

// buildTitled makes a Toolset that has the document as its title.
func buildTitled(_ context.Context, data []byte, _ string, _ *tools.Toolset) (*tools.Toolset, []string, error) {
	switch title := string(data); {
	case title == "panic":
		panic("in the build")
	case title == "nothing":
		return nil, nil, nil
	case strings.HasPrefix(title, "bad"):
		return nil, nil, errors.New(title + " document")
	default:
		toolset := tools.NewToolset("test", nil)
		toolset.Title, toolset.Hash = title, title
		return toolset, nil, nil
	}
}

// loadLog is an Observer that records its calls.
type loadLog struct {
	mu    sync.Mutex
	lines []string
}

func (l *loadLog) observer() Observer {
	add := func(line string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lines = append(l.lines, line)
	}
	return Observer{
		Loaded: func(toolset *tools.Toolset, _ time.Duration) { add("loaded " + toolset.Title) },
		Failed: func(err error) { add("failed: " + err.Error()) },
	}
}

func (l *loadLog) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.lines
	l.lines = nil
	return lines
}

// want checks the recorded calls: the titles of the loaded toolsets, and the keywords of the errors.
func (l *loadLog) want(t *testing.T, lines ...string) {
	t.Helper()
	got := l.take()
	matches := func(got, want string) bool {
		return got == want || strings.HasPrefix(want, "failed: ") && testkit.ContainsAll(got, want)
	}
	if !slices.EqualFunc(got, lines, matches) {
		t.Errorf("the observer got %q, want %q", got, lines)
	}
}

func title(l *Loader) string {
	if toolset := l.Toolset(); toolset != nil {
		return toolset.Title
	}
	return ""
}

func TestLoader_Load(t *testing.T) {
	origin, log := &memorySource{}, &loadLog{}
	l := New(Options{Source: origin, Build: buildTitled, Observer: log.observer()})
	if l.Toolset() != nil || l.Err() != nil || l.RetryAfter() != time.Second {
		t.Errorf("before the first load: %v, %v, %v", l.Toolset(), l.Err(), l.RetryAfter())
	}
	steps := []struct {
		rule    string
		content string
		err     error
		title   string // afterwards
		words   string // of the error; "" for none
		logged  []string
	}{
		{"a source that fails", "", errors.New("down"), "", "down", []string{"failed: down"}},
		{"another attempt that fails is reported too", "", errors.New("down"), "", "down", []string{"failed: down"}},
		{"a bad first document", "bad 0", nil, "", "bad 0", []string{"failed: bad 0"}},
		{"the first document", "one", nil, "one", "", []string{"loaded one"}},
		{"the same document", "one", nil, "one", "", nil},
		{"the next document", "two", nil, "two", "", []string{"loaded two"}},
		{"a bad document leaves the Toolset", "bad 1", nil, "two", "bad 1", []string{"failed: bad 1"}},
		{"the same bad document is reported once", "bad 1", nil, "two", "bad 1", nil},
		{"another bad document", "bad 2", nil, "two", "bad 2", []string{"failed: bad 2"}},
		{"a build that panics", "panic", nil, "two", "memory panic build", []string{"failed: memory panic build"}},
		{"a build that gives nothing", "nothing", nil, "two", "BuildFunc memory", []string{"failed: BuildFunc memory"}},
		{"a fetch that panics", "panic in fetch", nil, "two", "fetching memory panic", []string{"failed: fetching memory panic"}},
		{"a good document again", "three", nil, "three", "", []string{"loaded three"}},
	}
	for _, step := range steps {
		origin.set(step.content, step.err)
		err := l.Load(context.Background())
		if step.words == "" != (err == nil) || err != nil && !testkit.ContainsAll(err.Error(), step.words) {
			t.Errorf("%s: error %v, want the words %q", step.rule, err, step.words)
		}
		if !errors.Is(l.Err(), err) {
			t.Errorf("%s: Err is %v, Load returned %v", step.rule, l.Err(), err)
		}
		if got := title(l); got != step.title {
			t.Errorf("%s: the Toolset is %q, want %q", step.rule, got, step.title)
		}
		log.want(t, step.logged...)
	}
}

func TestLoader_equal_content_keeps_the_Toolset(t *testing.T) {
	origin, log := &memorySource{content: "one"}, &loadLog{}
	builds := 0
	l := New(Options{Source: origin, Observer: log.observer(), Build: func(context.Context, []byte, string, *tools.Toolset) (*tools.Toolset, []string, error) {
		builds++
		toolset := tools.NewToolset("test", nil)
		toolset.Hash = "same"
		return toolset, nil, nil
	}})
	if err := l.Load(context.Background()); err != nil {
		t.Fatal(err)
	}
	first := l.Toolset()
	origin.set("one, written otherwise", nil)
	if err := l.Load(context.Background()); err != nil || builds != 2 || l.Toolset() != first {
		t.Errorf("error %v, %d builds, the same Toolset: %v", err, builds, l.Toolset() == first)
	}
	if logged := log.take(); len(logged) != 1 {
		t.Errorf("got %q", logged)
	}
}

func TestLoader_Load_given_up(t *testing.T) {
	origin, log := &memorySource{content: "one"}, &loadLog{}
	l := New(Options{Source: origin, Observer: log.observer(), Build: func(ctx context.Context, data []byte, location string, previous *tools.Toolset) (*tools.Toolset, []string, error) {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		return buildTitled(ctx, data, location, previous)
	}})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := l.Load(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	log.want(t)
	if err := l.Load(context.Background()); err != nil || title(l) != "one" {
		t.Errorf("the load after: %v, %q", err, title(l))
	}
}

func TestLoader_refreshes_a_URL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		origin, log := &memorySource{err: errors.New("down")}, &loadLog{}
		l := New(Options{Source: origin, Build: buildTitled, Observer: log.observer()})
		l.Start()
		l.Start()
		defer l.Stop()

		// Attempts while nothing is loaded: at 0, 1, 3, 7, 15, 31, 63 s, more or
		// less, then each minute.
		time.Sleep(80 * time.Second)
		if got := origin.count(); got != 7 {
			t.Errorf("%d attempts in 80 s, want 7", got)
		}
		if got := l.RetryAfter(); got < time.Second || got > 66*time.Second {
			t.Errorf("RetryAfter is %v", got)
		}
		if got := l.RetryAfter(); got%time.Second != 0 {
			t.Errorf("RetryAfter is %v, not whole seconds", got)
		}
		time.Sleep(10 * time.Minute)
		if got := origin.count(); got < 15 || got > 18 {
			t.Errorf("%d attempts in 11 minutes, want one a minute", got)
		}
		fault := l.Fault()
		if fault == nil || fault.Err == nil {
			t.Fatalf("got the fault %+v, want one with its error", fault)
		}
		if since, next := time.Since(fault.Since), time.Until(fault.Next); since < 10*time.Minute || next <= 0 {
			t.Errorf("got a fault since %s with the next attempt in %s, want at least 10m, and a later attempt", since, next)
		}
		origin.set("one", nil)
		time.Sleep(maxBackoff + maxBackoff/5)
		if title(l) != "one" || l.Err() != nil || l.Fault() != nil {
			t.Fatalf("not loaded: %v", l.Err())
		}

		before := origin.count()
		origin.set("two", nil)
		time.Sleep(DefaultRefresh + DefaultRefresh/5)
		if got := origin.count() - before; title(l) != "two" || got != 1 {
			t.Errorf("%q after a refresh, %d fetches", title(l), got)
		}
		origin.set("", errors.New("down again"))
		time.Sleep(2 * DefaultRefresh)
		if title(l) != "two" || l.Err() == nil {
			t.Errorf("after failures: got %q and the error %v, want two and an error", title(l), l.Err())
		}
		if got := origin.count() - before; got < 2 || got > 3 {
			t.Errorf("after failures: got %d fetches, want 2 or 3", got)
		}
	})
}

func TestLoader_negative_refresh_is_never(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		origin := &memorySource{err: errors.New("down")}
		l := New(Options{Source: origin, Build: buildTitled, Refresh: -1})
		l.Start()
		defer l.Stop()
		synctest.Wait()
		origin.set("one", nil)
		time.Sleep(2 * time.Second)
		if title(l) != "one" {
			t.Fatalf("not loaded: %v", l.Err())
		}
		before := origin.count()
		time.Sleep(1000 * time.Hour)
		if got := origin.count(); got != before {
			t.Errorf("%d more fetches", got-before)
		}
	})
}

func TestLoader_Stop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // fails if a goroutine is left
		origin := &memorySource{content: "one"}
		l := New(Options{Source: origin, Build: buildTitled})
		l.Stop()
		l.Start()
		synctest.Wait()
		l.Stop()
		l.Stop()
		before := origin.count()
		time.Sleep(time.Hour)
		if origin.count() != before || title(l) != "one" {
			t.Errorf("%d fetches after Stop, Toolset %q", origin.count()-before, title(l))
		}
		l.Start()
		time.Sleep(time.Hour)
		if origin.count() == before {
			t.Error("a Loader that was started again does not refresh")
		}
		l.Stop()
	})
}

func TestLoader_Stop_ends_a_fetch_under_way(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &loadLog{}
		l := New(Options{Source: &source.Site{Path: "/openapi.json"}, Build: buildTitled, Observer: log.observer()})
		l.Start()
		go l.Ensure(context.Background(), func(ctx context.Context, _ string, _ http.Header) (int, http.Header, []byte, error) {
			<-ctx.Done()
			return 0, nil, nil, ctx.Err()
		})
		synctest.Wait()
		l.Stop()
		log.want(t)
	})
}

func TestLoader_watches_files(t *testing.T) {
	dir := t.TempDir()
	main, part := filepath.Join(dir, "main.yaml"), filepath.Join(dir, "part.yaml")
	write := func(path, content string) {
		t.Helper()
		if err := os.WriteFile(path+"~", []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+"~", path); err != nil {
			t.Fatal(err)
		}
	}
	write(main, "main")
	write(part, "part")
	log := &loadLog{}
	l := New(Options{
		Source: &source.File{Path: main},
		Build: func(ctx context.Context, data []byte, location string, previous *tools.Toolset) (*tools.Toolset, []string, error) {
			other, err := os.ReadFile(part)
			if err != nil {
				return nil, nil, err
			}
			toolset, _, err := buildTitled(ctx, slices.Concat(data, []byte("+"), other), location, previous)
			return toolset, []string{part}, err
		},
		Observer: log.observer(),
	})
	if l.options.Refresh != watch.Interval() {
		t.Errorf("files are polled every %v", l.options.Refresh)
	}
	l.options.Refresh = 2 * time.Millisecond
	if err := l.Load(context.Background()); err != nil {
		t.Fatal(err)
	}
	l.Start()
	defer l.Stop()
	loaded := func(want string) {
		t.Helper()
		testkit.Eventually(t, want, func() bool { return title(l) == want && l.Err() == nil })
	}
	loaded("main+part")
	write(main, "next")
	loaded("next+part")
	write(part, "other")
	loaded("next+other")
	write(main, "bad")
	testkit.Eventually(t, "the bad document is reported", func() bool { return l.Err() != nil })
	if title(l) != "next+other" {
		t.Errorf("a bad document left %q", title(l))
	}
	write(main, "good")
	loaded("good+other")
	if err := os.Remove(part); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the missing part is reported", func() bool { return l.Err() != nil })
	write(part, "back")
	loaded("good+back")
	testkit.Eventually(t, "the observer is called", func() bool { return slices.Contains(log.take(), "loaded good+back") })
	if err := os.Remove(main); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the missing file is reported", func() bool { return l.Err() != nil })
	due := l.due.Load()
	testkit.Eventually(t, "two more polls", func() bool { return l.due.Load() > due+int64(3*l.options.Refresh) })
	if logged := log.take(); len(logged) != 1 {
		t.Errorf("a file that stays missing was reported as %q", logged)
	}
	write(main, "good")
	testkit.Eventually(t, "the file is back", func() bool { return l.Err() == nil })
	log.want(t)
}

// A file that exists again at the next poll was only being replaced.
func TestLoader_file_missing_for_a_moment(t *testing.T) {
	main := filepath.Join(t.TempDir(), "main.yaml")
	if err := os.WriteFile(main, []byte("main"), 0o600); err != nil {
		t.Fatal(err)
	}
	log := &loadLog{}
	l := New(Options{Source: &source.File{Path: main}, Build: buildTitled, Observer: log.observer()})
	load := func() error { return l.Load(context.Background()) }
	if err := load(); err != nil {
		t.Fatal(err)
	}
	log.take()
	if err := os.Remove(main); err != nil {
		t.Fatal(err)
	}
	if err := load(); err != nil {
		t.Errorf("the first look: %v", err)
	}
	if err := load(); err == nil {
		t.Error("the second look: no error")
	}
	if logged := log.take(); len(logged) != 1 {
		t.Errorf("got %q", logged)
	}
}

func TestLoader_missing_file_at_first(t *testing.T) {
	l := New(Options{Source: &source.File{Path: filepath.Join(t.TempDir(), "none.yaml")}, Build: buildTitled})
	if err := l.Load(context.Background()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

// site answers a SiteFetch with a document.
func site(calls *atomic.Int32, content string) source.SiteFetch {
	return func(context.Context, string, http.Header) (int, http.Header, []byte, error) {
		calls.Add(1)
		time.Sleep(time.Second)
		return http.StatusOK, nil, []byte(content), nil
	}
}

func TestLoader_Ensure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &loadLog{}
		l := New(Options{Source: &source.Site{Path: "/openapi.json"}, Build: buildTitled, Observer: log.observer()})
		ctx := context.Background()
		var calls atomic.Int32
		if _, err := l.Ensure(ctx, site(&calls, "one")); !errors.Is(err, ErrNotLoaded) || calls.Load() != 0 {
			t.Errorf("before Start: %v", err)
		}
		l.Start()
		defer l.Stop()

		var group sync.WaitGroup
		for range 20 {
			group.Go(func() {
				toolset, err := l.Ensure(ctx, site(&calls, "one"))
				if err != nil || toolset.Title != "one" {
					t.Errorf("%v, %v", toolset, err)
				}
			})
		}
		group.Wait()
		if calls.Load() != 1 {
			t.Errorf("%d loads for 20 requests", calls.Load())
		}
		log.want(t, "loaded one")

		if _, err := l.Ensure(ctx, site(&calls, "two")); err != nil || calls.Load() != 1 {
			t.Errorf("a fresh document was fetched again: %v", err)
		}
		time.Sleep(2 * DefaultRefresh)
		if calls.Load() != 1 {
			t.Error("refreshed without a request")
		}
		asked := time.Now()
		toolset, err := l.Ensure(ctx, site(&calls, "two"))
		if err != nil || toolset.Title != "one" || time.Since(asked) != 0 {
			t.Errorf("a request that sets off a refresh waited %v: %v, %v", time.Since(asked), toolset, err)
		}
		time.Sleep(2 * time.Second)
		if title(l) != "two" {
			t.Errorf("after the refresh: %q", title(l))
		}
	})
}

func TestLoader_Ensure_failures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Options{Source: &source.Site{Path: "/openapi.json"}, Build: buildTitled})
		l.Start()
		defer l.Stop()
		ctx := context.Background()
		calls := 0
		failing := func(context.Context, string, http.Header) (int, http.Header, []byte, error) {
			calls++
			return http.StatusBadGateway, nil, nil, nil
		}
		for range 5 {
			_, err := l.Ensure(ctx, failing)
			if !errors.Is(err, ErrNotLoaded) || !strings.Contains(err.Error(), "502") {
				t.Errorf("error %v", err)
			}
		}
		if calls != 1 {
			t.Errorf("%d loads within the pause", calls)
		}
		time.Sleep(l.RetryAfter())
		var good atomic.Int32
		if toolset, err := l.Ensure(ctx, site(&good, "one")); err != nil || toolset.Title != "one" {
			t.Errorf("after RetryAfter: %v, %v", toolset, err)
		}
	})
}

func TestLoader_Ensure_waits_not_for_ever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Options{Source: &source.Site{Path: "/openapi.json"}, Build: buildTitled})
		l.Start()
		defer l.Stop()
		hanging := func(ctx context.Context, _ string, _ http.Header) (int, http.Header, []byte, error) {
			// The way through the site leads back to the endpoint.
			if _, err := l.Ensure(ctx, nil); !errors.Is(err, ErrNotLoaded) {
				t.Errorf("from within: %v", err)
			}
			began := time.Now()
			if _, err := l.Ensure(ctx, site(new(atomic.Int32), "x")); !errors.Is(err, ErrNotLoaded) || time.Since(began) != 0 {
				t.Errorf("from within: %v after %v", err, time.Since(began))
			}
			<-ctx.Done()
			return 0, nil, nil, ctx.Err()
		}
		began := time.Now()
		if _, err := l.Ensure(context.Background(), hanging); !errors.Is(err, ErrNotLoaded) || time.Since(began) != maxSiteWait {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		began = time.Now()
		if _, err := l.Ensure(ctx, hanging); !errors.Is(err, ErrNotLoaded) || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

func TestLoader_Ensure_of_another_source(t *testing.T) {
	l := New(Options{Source: &memorySource{content: "one"}, Build: buildTitled})
	if _, err := l.Ensure(context.Background(), nil); !errors.Is(err, ErrNotLoaded) {
		t.Errorf("error %v", err)
	}
	if err := l.Load(context.Background()); err != nil {
		t.Fatal(err)
	}
	if toolset, err := l.Ensure(context.Background(), nil); err != nil || toolset.Title != "one" {
		t.Errorf("%v, %v", toolset, err)
	}
}
