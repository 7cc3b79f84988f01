package archive

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/internal/audit"
	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/embedded"
	"github.com/fairwayhq/fairway/store/storetest"
)

// memory is a sink that can be down.
type memory struct {
	mu    sync.Mutex
	down  bool
	after func() error // called when lines were kept; its error ends Write
	lines bytes.Buffer
	tries int
}

func (m *memory) Target() string { return "memory" }

func (m *memory) Write(_ context.Context, _ string, lines []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tries++
	if m.down {
		return errors.New("down")
	}
	m.lines.Write(lines)
	if m.after != nil {
		return m.after()
	}
	return nil
}

func (m *memory) setDown(down bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.down = down
}

func (m *memory) text() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lines.String()
}

// users returns the users of the entries, in order.
func (m *memory) users(t *testing.T) (users []string) {
	t.Helper()
	for text := range strings.Lines(m.text()) {
		var e audit.Entry
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		users = append(users, e.User)
	}
	return users
}

func openStore(t *testing.T, file string) store.Store {
	t.Helper()
	st, err := embedded.Open(file, embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return st
}

func queueOn(host string, st store.Store) *Queue {
	return newQueue(host, func(context.Context) (store.Store, error) { return st, nil })
}

// newArchive returns an archive that is not started.
func newArchive(q *Queue, sink Sink) *Archive {
	a := &Archive{queue: q, limit: defaultQueue, logger: zap.NewNop()}
	a.sinks = []*delivery{newDelivery(sink, a)}
	return a
}

func record(t *testing.T, a *Archive, users ...string) {
	t.Helper()
	for _, user := range users {
		if err := a.Record(t.Context(), audit.Entry{Type: audit.TypeLogin, Event: "logged_in", User: user}); err != nil {
			t.Fatal(err)
		}
	}
}

func numbered(from, to int) (users []string) {
	for n := from; n <= to; n++ {
		users = append(users, fmt.Sprintf("user-%d", n))
	}
	return users
}

// wantUsers waits until the sink has the entries of these users, in this order.
func wantUsers(t *testing.T, sink *memory, want []string) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("%d entries", len(want)), func() bool { return len(sink.users(t)) >= len(want) })
	if got := sink.users(t); !slices.Equal(got, want) {
		t.Fatalf("the sink has %d entries, want %d: %.300q", len(got), len(want), got)
	}
}

// verify verifies files with these texts.
func verify(t *testing.T, files ...string) (v Verifier, faults []error) {
	t.Helper()
	for i, text := range files {
		if err := v.Read(fmt.Sprint("file ", i), strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	return v, v.Check()
}

func wantChain(t *testing.T, text string, last int64) {
	t.Helper()
	v, faults := verify(t, text)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	if len(v.Chains) != 1 || v.Chains[0].First != 1 || v.Chains[0].Last != last {
		t.Errorf("chains %+v, want one from 1 to %d", v.Chains, last)
	}
}

func TestArchive_entries_of_a_crashed_process_arrive(t *testing.T) {
	file := filepath.Join(t.TempDir(), "store.db")
	st := openStore(t, file)
	sink := new(memory)
	crashed := newArchive(queueOn("a", st), sink) // never started: it ends between the change of the store and the sink
	record(t, crashed, numbered(1, 30)...)
	crashed.queue.release(t.Context()) // the lease of a process that has ended is free
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	next := newArchive(queueOn("a", openStore(t, file)), sink)
	next.Start()
	defer next.Stop()
	record(t, next, "user-31")
	wantUsers(t, sink, numbered(1, 31))
	wantChain(t, sink.text(), 31)
}

func TestArchive_lines_are_repeated_after_a_crash_between_the_sink_and_the_store(t *testing.T) {
	file := filepath.Join(t.TempDir(), "store.db")
	st := openStore(t, file)
	sink := new(memory)
	first := newArchive(queueOn("a", st), sink)
	record(t, first, numbered(1, 3)...)
	sink.after = func() error { return errors.New("the process ends here") }
	first.Start()
	testkit.Eventually(t, "a batch", func() bool { return len(sink.users(t)) == 3 })
	first.Stop()
	sink.after = nil
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	next := newArchive(queueOn("a", openStore(t, file)), sink)
	next.Start()
	defer next.Stop()
	wantUsers(t, sink, slices.Concat(numbered(1, 3), numbered(1, 3)))
	if v, faults := verify(t, sink.text()); len(faults) > 0 || v.Chains[0].Repeated != 3 || v.Chains[0].Last != 3 {
		t.Errorf("%v, %+v", faults, v.Chains)
	}
}

func TestArchive_sink_down_then_up_gets_all_in_order(t *testing.T) {
	sink := &memory{down: true}
	a := newArchive(queueOn("a", openStore(t, filepath.Join(t.TempDir(), "store.db"))), sink)
	a.Start()
	defer a.Stop()
	const more = segmentSize + maxBatch + 7 // several segments and batches
	record(t, a, numbered(1, more)...)
	sink.setDown(false)
	wantUsers(t, sink, numbered(1, more))
	wantChain(t, sink.text(), more)
	c, err := a.queue.chain(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the first segment to be deleted", func() bool {
		_, err := c.store.Get(t.Context(), c.logKey(0))
		return errors.Is(err, store.ErrNotFound)
	})
}

func TestArchive_full_refuse(t *testing.T) {
	sink := &memory{down: true}
	a := newArchive(queueOn("a", openStore(t, filepath.Join(t.TempDir(), "store.db"))), sink)
	a.limit = 3
	record(t, a, numbered(1, 2)...)
	if err := a.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	record(t, a, "user-3")
	if err := a.Ready(t.Context()); !errors.Is(err, errFull) {
		t.Fatalf("%v, want ErrFull", err)
	}
	record(t, a, "user-4") // the outcome of a call that was made before
	sink.setDown(false)
	a.Start()
	defer a.Stop()
	wantUsers(t, sink, numbered(1, 4))
	testkit.Eventually(t, "room", func() bool { return a.Ready(t.Context()) == nil })
}

func TestArchive_full_drop(t *testing.T) {
	sink := &memory{down: true}
	a := newArchive(queueOn("a", openStore(t, filepath.Join(t.TempDir(), "store.db"))), sink)
	a.limit, a.drop = 3, true
	record(t, a, numbered(1, 5)...)
	if err := a.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	sink.setDown(false)
	a.Start()
	defer a.Stop()
	wantUsers(t, sink, numbered(1, 3))
	testkit.Eventually(t, "room", func() bool {
		c, err := a.queue.chain(t.Context())
		return err == nil && c.waiting() == 0
	})
	record(t, a, "user-6")
	wantUsers(t, sink, append(numbered(1, 3), "", "user-6"))
	if !strings.Contains(sink.text(), `"event":"dropped","count":2`) {
		t.Errorf("the archive does not say what was dropped: %s", sink.text())
	}
}

func TestArchive_nodes_have_chains_and_deliver_those_of_nodes_that_have_ended(t *testing.T) {
	storetest.OnShared(t, deliverChainsOfOthers)
}

func deliverChainsOfOthers(t *testing.T, server *storetest.SharedServer) {
	open := func() store.Store { return server.Open(t, StatePrefix) }
	sinks := [2]*memory{{}, {}}
	nodes := [2]*Archive{newArchive(queueOn("host", open()), sinks[0]), newArchive(queueOn("host", open()), sinks[1])}
	for i, a := range nodes {
		a.Start()
		record(t, a, fmt.Sprintf("of-%d", i))
		wantUsers(t, sinks[i], []string{fmt.Sprintf("of-%d", i)})
	}
	if first, second := sinks[0].text(), sinks[1].text(); first[:strings.Index(first, ",")] == second[:strings.Index(second, ",")] {
		t.Errorf("two processes share a chain: %s %s", first, second)
	}
	// The first node cannot deliver, and ends.
	sinks[0].setDown(true)
	record(t, nodes[0], "left")
	nodes[0].Stop()
	if err := nodes[1].adoptAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	nodes[1].Stop()
	wantUsers(t, sinks[1], []string{"of-1", "left"})
	v, faults := verify(t, sinks[0].text(), sinks[1].text())
	if len(faults) > 0 {
		t.Error(faults)
	}
	if len(v.Chains) != 2 || v.Chains[0].Last != 2 || v.Chains[1].Last != 1 {
		t.Errorf("chains %+v %+v", v.Chains[0], v.Chains[1])
	}
}

func TestArchive_pseudonyms(t *testing.T) {
	const planted = "planted-user"
	sink := new(memory)
	a := newArchive(queueOn("a", openStore(t, filepath.Join(t.TempDir(), "store.db"))), sink)
	a.key = []byte("0123456789abcdef")
	a.Start()
	defer a.Stop()
	err := a.Record(t.Context(), audit.Entry{
		Type: audit.TypeReview, Event: "decided", User: planted, DecidedBy: planted, DecidedAs: planted, Reviewer: planted, ID: planted, Engagement: planted,
		Why: "of " + planted, Comment: "for " + planted,
	}, audit.Entry{Type: audit.TypeReview, Event: "decided", User: "other", DecidedAs: "group:staff", Reviewer: "oagent://reviewer"})
	if err != nil {
		t.Fatal(err)
	}
	want := pseudonym(a.key, planted)
	wantUsers(t, sink, []string{want, pseudonym(a.key, "other")})
	if text := sink.text(); strings.Contains(text, planted) || !strings.Contains(text, "group:staff") || !strings.Contains(text, "oagent://reviewer") {
		t.Errorf("the archive has %s", text)
	}
	if want == pseudonym([]byte("fedcba9876543210"), planted) {
		t.Error("a pseudonym does not depend on the key")
	}
}

// chainOf returns the lines of a chain with so many entries.
func chainOf(node string, entries int) []string {
	var l link
	var lines []string
	for n := range entries {
		lines = append(lines, string(l.seal(nil, node, fmt.Appendf(nil, `{"user":"user-%d"}`, n+1))))
	}
	return lines
}

func TestVerifier_finds_tampering(t *testing.T) {
	forged := func(lines []string) []string { // a changed line with a hash that fits
		changed := strings.Replace(lines[2], "user-3", "user-9", 1)
		body := changed[:strings.Index(changed, hashMember)]
		return slices.Concat(lines[:2], []string{body + hashMember + hashOf([]byte(body)) + "\"}\n"}, lines[3:])
	}
	for name, test := range map[string]struct {
		tamper func(lines []string) []string
		want   error
		says   string
	}{
		"intact":       {func(lines []string) []string { return lines }, nil, ""},
		"begins later": {func(lines []string) []string { return lines[2:] }, nil, ""},
		"repeated":     {func(lines []string) []string { return slices.Concat(lines[:4], lines[2:]) }, nil, ""},
		"removed line": {func(lines []string) []string { return slices.Concat(lines[:2], lines[3:]) }, ErrGap, "gap after 2"},
		"changed line": {func(lines []string) []string {
			lines[2] = strings.Replace(lines[2], "user-3", "user-9", 1)
			return lines
		}, ErrChanged, "seq 3"},
		"line is no JSON":    {func(lines []string) []string { lines[2] = "{\n"; return lines }, ErrChanged, "line 3"},
		"changed and sealed": {forged, ErrLink, "seq 4"},
		"swapped lines":      {func(lines []string) []string { lines[2], lines[3] = lines[3], lines[2]; return lines }, ErrLink, "seq 4"},
		"replaced later":     {func(lines []string) []string { return append(lines, forged(slices.Clone(lines))[2]) }, ErrLink, "occurs twice"},
		"number changed": {func(lines []string) []string {
			lines[4] = strings.Replace(lines[4], `"seq":5`, `"seq":6`, 1)
			return lines
		}, ErrChanged, "seq 6"},
	} {
		t.Run(name, func(t *testing.T) {
			lines := test.tamper(chainOf("a", 5))
			_, faults := verify(t, strings.Join(lines, ""))
			if test.want == nil && len(faults) > 0 || test.want != nil && (len(faults) == 0 || !errors.Is(faults[0], test.want) || !strings.Contains(faults[0].Error(), test.says)) {
				t.Errorf("%v, want %v with %q", faults, test.want, test.says)
			}
		})
	}
}

func TestVerifier_several_files_and_nodes_in_any_order(t *testing.T) {
	a, b := chainOf("a", 9), chainOf("b", 9)
	for name, files := range map[string][][]string{
		"two nodes in one file":                   {{a[0], b[0], a[1]}, {b[1], a[2], b[2], a[3]}},
		"each delivers what the other has left":   {{a[0], a[1], b[2], b[3]}, {b[0], b[1], a[2]}},
		"a chain that returns to its node":        {{a[0], b[0], a[3]}, {a[1], a[2]}},
		"delivered again, in the file of another": {{a[0], a[1], a[2]}, {a[1], a[2], a[3]}, {a[2], a[3], a[4], b[0]}},
		"rotated in between":                      {{a[0]}, {a[1], a[2]}, {a[3], a[4]}, {a[5]}},
		"without the beginning":                   {{a[4], b[6]}, {b[7], a[5]}},
	} {
		t.Run(name, func(t *testing.T) {
			texts := make([]string, len(files))
			for first := range files {
				for i := range files {
					texts[(first+i)%len(files)] = strings.Join(files[i], "")
				}
				if _, faults := verify(t, texts...); len(faults) > 0 {
					t.Errorf("from %d: %v", first, faults)
				}
				slices.Reverse(texts)
				if _, faults := verify(t, texts...); len(faults) > 0 {
					t.Errorf("from %d, reversed: %v", first, faults)
				}
			}
		})
	}
}

// TestVerifier_reports_each_fault_once and goes on after it.
func TestVerifier_reports_each_fault_once(t *testing.T) {
	a, b := chainOf("a", 20), chainOf("b", 4)
	sixth, _ := parse([]byte(strings.TrimSpace(a[5])))
	before := link{Seq: sixth.Seq, Hash: sixth.Hash}
	otherSeventh := string(before.seal(nil, "a", []byte(`{"user":"another"}`)))
	a[1] = strings.Replace(a[1], "user-2", "user-9", 1)
	lines := slices.Concat(a[:4], b[:1], a[5:7], []string{otherSeventh}, []string{"{\n", strings.Repeat("x", 2*maxLine) + "\n"}, a[7:9], a[12:], b[2:])
	v, faults := verify(t, strings.Join(lines, ""))
	want := []error{ErrChanged, ErrGap, ErrLink, ErrChanged, ErrChanged, ErrGap, ErrGap}
	if !slices.EqualFunc(faults, want, errors.Is) || v.Chains[0].Last != 20 || v.Chains[1].Last != 4 {
		t.Errorf("faults:\n%v\nchains %+v %+v", errors.Join(faults...), v.Chains[0], v.Chains[1])
	}
}

func TestFile_rotates_keeps_and_repairs(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	dir := t.TempDir()
	open := func() *File {
		f := &File{Path: filepath.Join(dir, "audit.jsonl"), Keep: caddy.Duration(48 * time.Hour)}
		if err := f.Provision(caddy.Context{}); err != nil {
			t.Fatal(err)
		}
		f.now = func() time.Time { return now }
		return f
	}
	write := func(f *File, line string) {
		t.Helper()
		if err := f.Write(t.Context(), "", []byte(line+"\n")); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(f.path, now, now); err != nil { // the day of a file is that of its last change
			t.Fatal(err)
		}
	}
	want := func(name, content string) {
		t.Helper()
		got, err := os.ReadFile(filepath.Join(dir, name))
		if content == "" != errors.Is(err, os.ErrNotExist) || string(got) != content {
			t.Errorf("%s has %q (%v), want %q", name, got, err, content)
		}
	}
	f := open()
	write(f, "one")
	if err := f.Cleanup(); err != nil {
		t.Fatal(err)
	}
	// A crash leaves a part of a line.
	if err := os.WriteFile(f.path, []byte("one\ntw"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(f.path, now, now); err != nil {
		t.Fatal(err)
	}
	f = open()
	write(f, "two")
	want("audit.jsonl", "one\ntwo\n")
	for _, line := range []string{"three", "four", "five", "six"} {
		now = now.Add(24 * time.Hour)
		write(f, line)
	}
	want("audit.jsonl", "six\n")
	want("audit-2026-11-26.jsonl", "five\n")
	want("audit-2026-11-25.jsonl", "four\n")
	want("audit-2026-11-24.jsonl", "")
	want("audit-2026-11-23.jsonl", "")
	info, err := os.Stat(f.path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}
