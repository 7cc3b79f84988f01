package result

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/embedded"
)

// somePages returns n pages of size bytes.
func somePages(n, size int) []Page {
	all := make([]Page, n)
	for i := range all {
		all[i] = Page{Body: bytes.Repeat([]byte{byte('0' + i%10)}, size), JSON: i%2 == 0, Note: fmt.Sprint("page ", i)}
	}
	return all
}

// read follows the cursors and returns the notes of the pages.
func read(t *testing.T, k *PageKeeper, owner PageOwner, cursor string) (notes []string) {
	t.Helper()
	for cursor != "" {
		page, next, err := k.Page(t.Context(), owner, cursor)
		if err != nil {
			t.Fatal(err)
		}
		again, _, err := k.Page(t.Context(), owner, cursor)
		if err != nil || string(again.Body) != string(page.Body) {
			t.Fatalf("the same cursor returned another page: %v", err)
		}
		notes, cursor = append(notes, page.Note), next
	}
	return notes
}

func keep(t *testing.T, k *PageKeeper, owner PageOwner, all []Page) string {
	t.Helper()
	cursor, count, err := k.Keep(t.Context(), owner, share.Owner("user "+owner), all)
	if err != nil || count == 0 {
		t.Fatalf("Keep: %d pages, %v", count, err)
	}
	return cursor
}

// keepers returns a PageKeeper of each kind. The shared one writes to a store, as it does on Redis.
func keepers(t *testing.T) map[string]*PageKeeper {
	t.Helper()
	records, err := embedded.Open(t.TempDir()+"/store.db", embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = records.Close() })
	return map[string]*PageKeeper{
		"memory": NewPageKeeper(nil),
		"shared": NewSharedPageKeeper(func(context.Context) (store.Store, error) { return records, nil }),
	}
}

func TestKeeper(t *testing.T) {
	for name, k := range keepers(t) {
		t.Run(name, func(t *testing.T) {
			cursor := keep(t, k, "ann", somePages(5, 300<<10))
			if got := fmt.Sprint(read(t, k, "ann", cursor)); got != "[page 0 page 1 page 2 page 3 page 4]" {
				t.Errorf("got %s", got)
			}
			page, _, err := k.Page(t.Context(), "ann", strings.TrimSuffix(cursor, "0")+"3")
			if err != nil || page.JSON || page.Body[0] != '3' {
				t.Errorf("page 3: %v, %v", page.JSON, err)
			}
		})
	}
}

func TestKeeper_unknown_cursor(t *testing.T) {
	for name, k := range keepers(t) {
		cursor := keep(t, k, "ann", somePages(2, 10))
		for what, c := range map[string]struct {
			owner  PageOwner
			cursor string
		}{
			"another owner": {"bob", cursor}, "no owner": {"", cursor}, "behind the last": {"ann", cursor[:len(cursor)-1] + "2"},
			"negative": {"ann", cursor[:len(cursor)-1] + "-1"}, "no number": {"ann", cursor[:len(cursor)-2]}, "empty": {"ann", ""},
			"random": {"ann", "AAAAAAAAAAAAAAAAAAAAAA.0"}, "long": {"ann", strings.Repeat("A", 100000)}, "path": {"ann", "../owner/ann.0"},
		} {
			if _, _, err := k.Page(t.Context(), c.owner, c.cursor); !errors.Is(err, ErrUnknownPage) {
				t.Errorf("%s: %s: %v; want ErrUnknownPage", name, what, err)
			}
		}
	}
}

func TestKeeper_largest_owner_loses_its_oldest(t *testing.T) {
	k := NewPageKeeper(nil)
	small := keep(t, k, "ann", somePages(1, 1<<20))
	oldest := keep(t, k, "bob", somePages(1, 7<<20))
	var latest string
	for range 20 {
		latest = keep(t, k, "bob", somePages(1, 7<<20))
	}
	if _, _, err := k.Page(t.Context(), "bob", oldest); !errors.Is(err, ErrUnknownPage) {
		t.Errorf("the oldest: %v; want ErrUnknownPage", err)
	}
	read(t, k, "bob", latest)
	read(t, k, "ann", small)
	read(t, k, "carol", keep(t, k, "carol", somePages(2, 3<<20)))
	read(t, k, "ann", small)
}

func TestKeeper_too_many_pages(t *testing.T) {
	for name, k := range keepers(t) {
		cursor, count, err := k.Keep(t.Context(), "ann", "user ann", somePages(20, 1<<20-1000))
		if err != nil || count != 8 {
			t.Errorf("%s: kept %d, %v; want 8", name, count, err)
		}
		if notes := read(t, k, "ann", cursor); len(notes) != 8 || !strings.Contains(notes[7], "no more") {
			t.Errorf("%s: notes %q", name, notes)
		}
		if _, _, err := k.Keep(t.Context(), "ann", "user ann", somePages(1, maxKeptResponse)); !errors.Is(err, errPageTooLarge) {
			t.Errorf("%s: %v; want ErrPageTooLarge", name, err)
		}
	}
}

func TestKeeper_total_limit(t *testing.T) {
	k := NewPageKeeper(nil)
	first := keep(t, k, "user 0", somePages(1, 7<<20))
	for i := range 8 {
		keep(t, k, PageOwner(fmt.Sprint("user ", i+1)), somePages(1, 7<<20))
	}
	last := keep(t, k, "user 9", somePages(1, 7<<20))
	if _, _, err := k.Page(t.Context(), "user 0", first); !errors.Is(err, ErrUnknownPage) {
		t.Errorf("the oldest: %v; want ErrUnknownPage", err)
	}
	read(t, k, "user 9", last)
	if k.memory.bound.Usage().Used > maxKeptPages {
		t.Errorf("%d bytes are kept", k.memory.bound.Usage().Used)
	}
}

func TestKeeper_expiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := NewPageKeeper(nil)
		defer k.Close()
		cursor := keep(t, k, "ann", somePages(1, 10))
		time.Sleep(PageLifetime / 2)
		later := keep(t, k, "ann", somePages(1, 10))
		time.Sleep(PageLifetime / 2)
		if _, _, err := k.Page(t.Context(), "ann", cursor); !errors.Is(err, ErrUnknownPage) {
			t.Errorf("expired: %v", err)
		}
		read(t, k, "ann", later)
		time.Sleep(PageLifetime)
		synctest.Wait()
		k.memory.mu.Lock()
		defer k.memory.mu.Unlock()
		got := [...]int{int(k.memory.bound.Usage().Used), len(k.memory.sets), len(k.memory.owners), k.memory.all.Len()}
		if want := [4]int{}; got != want || k.memory.sweep != nil {
			t.Errorf("kept bytes, sets, owners and pages: got %d, want none; got the next sweep %v, want none", got, k.memory.sweep)
		}
	})
}

func TestKeeper_owner(t *testing.T) {
	for name, k := range keepers(t) {
		owner := func(identity ...string) PageOwner {
			o, err := k.Owner(t.Context(), identity...)
			if err != nil {
				t.Fatal(err)
			}
			return o
		}
		a := owner("/mcp", "ann")
		if again := owner("/mcp", "ann"); a != again || strings.Contains(string(a), "ann") {
			t.Errorf("%s: got the owners %q and %q, want the same without the name", name, a, again)
		}
		for _, other := range [][]string{{"/mcp", "bob"}, {"/otc", "ann"}, {"/mcpann"}} {
			if owner(other...) == a {
				t.Errorf("%s: %q and ann at /mcp are the same owner %q", name, other, a)
			}
		}
	}
}

func TestKeeper_store_fails(t *testing.T) {
	down := errors.New("down")
	k := NewSharedPageKeeper(func(context.Context) (store.Store, error) { return nil, down })
	if _, _, err := k.Keep(t.Context(), "ann", "user ann", somePages(1, 10)); !errors.Is(err, down) {
		t.Errorf("Keep: %v", err)
	}
	if _, _, err := k.Page(t.Context(), "ann", "AAAAAAAAAAAAAAAAAAAAAA.0"); !errors.Is(err, down) {
		t.Errorf("Page: %v", err)
	}
}

func FuzzPage(f *testing.F) {
	f.Add(appendPage(nil, &Page{Body: []byte("[1]"), JSON: true, Note: "note"}), "AAAAAAAAAAAAAAAAAAAAAA.0")
	k := NewPageKeeper(nil)
	f.Fuzz(func(t *testing.T, entry []byte, cursor string) {
		if page, err := parsePage(entry); err == nil {
			again, err := parsePage(appendPage(nil, &page))
			if err != nil || string(again.Body) != string(page.Body) || again.Note != page.Note {
				t.Fatalf("%+v became %+v, %v", page, again, err)
			}
		}
		if _, _, err := k.Page(t.Context(), "ann", cursor); !errors.Is(err, ErrUnknownPage) {
			t.Fatal(err)
		}
	})
}
