package toolsearch_test

import (
	"encoding/json"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/shared"
	"github.com/fairwayhq/fairway/internal/toolsearch"
	"github.com/fairwayhq/fairway/ocp/tool"
)

var library = []toolsearch.Entry{
	{Name: "list_books", Title: "List books", Method: "GET", Path: "/books", Arguments: []toolsearch.Argument{{Name: "genre", Values: []string{"crime", "poetry"}}}},
	{Name: "get_book", Title: "Get a book", Method: "GET", Path: "/books/{id}"},
	{Name: "create_book", Title: "Add a book", Method: "POST", Path: "/books"},
	{Name: "update_book", Title: "Update a book", Method: "PATCH", Path: "/books/{id}"},
	{Name: "delete_book", Title: "Delete a book", Method: "DELETE", Path: "/books/{id}"},
	{Name: "create_loan", Title: "Lend a book to a reader", Method: "POST", Path: "/loans", Description: "The book is reserved. Readers get an invoice if they keep it too long."},
	{Name: "list_loans_for_authenticated_reader", Method: "GET", Path: "/me/loans"},
	{Name: "old_list_books", Title: "List books", Method: "GET", Path: "/old/books", Deprecated: true},
	{Name: "listURLs", Method: "GET", Path: "/links"},
}

func TestSearch(t *testing.T) {
	x := toolsearch.New(library)
	for _, c := range []struct{ rule, request, first string }{
		{"name", "list books", "list_books"},
		{"synonym of the verb", "wipe book 17", "delete_book"},
		{"phrase of the table", "get rid of that book", "delete_book"},
		{"misspelt word", "delte the bokk", "delete_book"},
		{"one thing by its id", "show book 17", "get_book"},
		{"many things", "show me all books", "list_books"},
		{"enum value", "which poetry is there", "list_books"},
		{"description", "invoice", "create_loan"},
		{"the caller", "what are my loans", "list_loans_for_authenticated_reader"},
		{"quoted text counts less", `add the book "delete everything"`, "create_book"},
		{"plural abbreviation", "urls", "listURLs"},
	} {
		hits := x.Search(c.request, 3, nil)
		if len(hits) == 0 {
			t.Errorf("%s: %q finds nothing, want %s", c.rule, c.request, c.first)
		} else if got := library[hits[0].Entry].Name; got != c.first {
			t.Errorf("%s: %q finds %s first, want %s", c.rule, c.request, got, c.first)
		}
	}
}

func TestSearch_limits(t *testing.T) {
	x := toolsearch.New(library)
	for _, c := range []struct {
		rule, request string
		limit, most   int
	}{
		{"limit", "book", 2, 2},
		{"no limit", "book", 0, 0},
		{"negative limit", "book", -1, 0},
		{"empty request", "", 5, 0},
		{"stop words only", "what is the", 5, 0},
		{"unknown words", "xyzzy plugh", 5, 0},
		{"not text", "\xff\xfe\x00", 5, 0},
		{"long request", strings.Repeat("book ", 1<<16), 5, 5},
	} {
		if got := len(x.Search(c.request, c.limit, nil)); got > c.most {
			t.Errorf("%s: got %d hits, want at most %d", c.rule, got, c.most)
		}
	}
	if hits := toolsearch.New(nil).Search("book", 5, nil); len(hits) != 0 {
		t.Errorf("no entries: got %d hits, want 0", len(hits))
	}
}

func FuzzSearch(f *testing.F) {
	x := toolsearch.New(library)
	f.Add("get rid of \"that\" book #17")
	f.Fuzz(func(t *testing.T, request string) {
		for _, hit := range x.Search(request, 3, nil) {
			if hit.Entry < 0 || hit.Entry >= len(library) || !(hit.Score > 0) {
				t.Fatalf("hit %+v for %q", hit, request)
			}
		}
		toolsearch.New([]toolsearch.Entry{{Name: request, Description: request}})
	})
}

// leastRecall are the shares of the requests in shared/search for which a fitting tool is the first
// result, or among the first five. They are 3 points below what was measured.
const (
	leastRecall1 = 0.42
	leastRecall5 = 0.62
)

func TestSearch_recall(t *testing.T) {
	var requests []struct {
		Document, Request string
		Tools             []string
	}
	if err := json.Unmarshal(shared.Read(t, "search/queries.json"), &requests); err != nil {
		t.Fatal(err)
	}
	indexes := map[string]*toolsearch.Index{}
	entries := map[string][]toolsearch.Entry{}
	first, five := 0, 0
	for _, r := range requests {
		if indexes[r.Document] == nil {
			entries[r.Document] = document(t, r.Document)
			indexes[r.Document] = toolsearch.New(entries[r.Document])
		}
		rank := slices.IndexFunc(indexes[r.Document].Search(r.Request, 5, nil), func(h toolsearch.Hit) bool {
			return slices.Contains(r.Tools, entries[r.Document][h.Entry].Name)
		})
		if rank == 0 {
			first++
		}
		if rank >= 0 {
			five++
		}
	}
	n := float64(len(requests))
	t.Logf("recall@1 %.3f, recall@5 %.3f of %d requests", float64(first)/n, float64(five)/n, len(requests))
	if got := float64(first) / n; got < leastRecall1 {
		t.Errorf("recall@1 is %.3f, want at least %.2f", got, leastRecall1)
	}
	if got := float64(five) / n; got < leastRecall5 {
		t.Errorf("recall@5 is %.3f, want at least %.2f", got, leastRecall5)
	}
}

// document returns the entries of a real document.
func document(t testing.TB, name string) []toolsearch.Entry {
	t.Helper()
	set, err := tool.Build(shared.Read(t, "openapi/"+name), tool.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return toolsearch.Entries(set.Tools())
}

// maxIndex is the largest index of GitHub's document, in bytes of memory.
const maxIndex = 20 << 20

func TestIndex_memory(t *testing.T) {
	entries := document(t, "github-api.github.com.json.gz")
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	x := toolsearch.New(entries)
	runtime.GC()
	runtime.ReadMemStats(&after)
	used := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	t.Logf("the index of %d tools takes %d KiB", len(entries), used>>10)
	if used > maxIndex {
		t.Errorf("the index of %d tools takes %d bytes, want at most %d", len(entries), used, maxIndex)
	}
	runtime.KeepAlive(x)
	runtime.KeepAlive(entries)
}

// BenchmarkIndex builds the index of GitHub's document, and searches in it.
func BenchmarkIndex(b *testing.B) {
	entries := document(b, "github-api.github.com.json.gz")
	b.Run("New", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			toolsearch.New(entries)
		}
	})
	x := toolsearch.New(entries)
	b.Run("Search", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			x.Search("leave a thank-you note in the conversation of PR 42 pleese", 10, nil)
		}
	})
}
