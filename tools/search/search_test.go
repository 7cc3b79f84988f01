package search_test

import (
	"encoding/json"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/search"
)

func TestMain(m *testing.M) {
	testkit.CollectRarely()
	os.Exit(m.Run())
}

var library = []search.Entry{
	{Name: "list_books", Title: "List books", Method: "GET", Path: "/books", Arguments: []search.Argument{{Name: "genre", Values: []string{"crime", "poetry"}}}},
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
	x := search.New(library)
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

// TestSearch_language checks rules of the language of requests, names and descriptions.
func TestSearch_language(t *testing.T) {
	entries := []search.Entry{
		{Name: "deleteNamespace", Description: "delete a Namespace", Method: "DELETE", Path: "/namespaces/{name}"},
		{Name: "deleteNamespacedEvent", Description: "delete an Event", Method: "DELETE", Path: "/namespaces/{namespace}/events/{name}"},
		{Name: "readNamespacedScale", Description: "read scale of the Deployment", Method: "GET", Path: "/namespaces/{namespace}/deployments/{name}/scale"},
		{Name: "patchNamespacedScale", Description: "partially update scale of the Deployment", Method: "PATCH", Path: "/namespaces/{namespace}/deployments/{name}/scale"},
		{Name: "GetRefunds", Description: "Returns a list of refunds.", Method: "GET", Path: "/refunds"},
		{Name: "PostRefunds", Description: "Create a refund of a payment.", Method: "POST", Path: "/refunds"},
		{Name: "jobs_rerun", Title: "Re-run a job", Method: "POST", Path: "/jobs/{id}/rerun"},
		{Name: "jobs_dispatch", Title: "Create a dispatch event", Description: "You can use this endpoint to trigger a job manually. It takes an input.", Method: "POST", Path: "/jobs/{id}/dispatches"},
		{Name: "users_get_authenticated", Title: "Get the authenticated user", Method: "GET", Path: "/user"},
		{Name: "users_list", Title: "List users", Method: "GET", Path: "/users"},
		{Name: "runners_list_self_hosted", Title: "List self-hosted runners", Method: "GET", Path: "/runners"},
		{Name: "tickets_update", Title: "Update a ticket", Method: "PATCH", Path: "/tickets/{id}", Arguments: []search.Argument{{Name: "state", Values: []string{"open", "closed"}}}},
		{Name: "tickets_list", Title: "List tickets", Method: "GET", Path: "/tickets"},
		{Name: "ListTollfreeNumber", Method: "GET", Path: "/Tollfree"},
		{Name: "createStatefulSet", Method: "POST", Path: "/statefulsets"},
		{Name: "PostQuotesQuoteAccept", Method: "POST", Path: "/quotes/{id}/accept"},
		{Name: "PostQuotes", Description: "Creates a quote for a client.", Method: "POST", Path: "/quotes"},
	}
	x := search.New(entries)
	for _, c := range []struct{ rule, request, first string }{
		{"exact sentence, and no participle", "delete a namespace", "deleteNamespace"},
		{"verb that writes", "scale a deployment to 5 replicas", "patchNamespacedScale"},
		{"verb of a collection", "refund a payment", "PostRefunds"},
		{"verb that reads", "show the refunds", "GetRefunds"},
		{"first sentence", "trigger a job manually", "jobs_dispatch"},
		{"the caller", "who am I", "users_get_authenticated"},
		{"the caller in one word", "whoami", "users_get_authenticated"},
		{"state among the arguments", "close ticket 12", "tickets_update"},
		{"two misspelt words", "closs tiket", "tickets_update"},
		{"two words for one", "list toll free numbers", "ListTollfreeNumber"},
		{"one word for two", "add a statefulset", "createStatefulSet"},
		{"irregular verb", "the client said yes to the quote", "PostQuotesQuoteAccept"},
		{"reason in a clause", "list the tickets so jobs can rerun", "tickets_list"},
	} {
		hits := x.Search(c.request, 1, nil)
		if len(hits) == 0 {
			t.Errorf("%s: %q finds nothing, want %s", c.rule, c.request, c.first)
		} else if got := entries[hits[0].Entry].Name; got != c.first {
			t.Errorf("%s: %q finds %s first, want %s", c.rule, c.request, got, c.first)
		}
	}
}

func TestSearch_limits(t *testing.T) {
	x := search.New(library)
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
	if hits := search.New(nil).Search("book", 5, nil); len(hits) != 0 {
		t.Errorf("no entries: got %d hits, want 0", len(hits))
	}
}

func FuzzSearch(f *testing.F) {
	x := search.New(library)
	f.Add("get rid of \"that\" book #17")
	f.Fuzz(func(t *testing.T, request string) {
		for _, hit := range x.Search(request, 3, nil) {
			if hit.Entry < 0 || hit.Entry >= len(library) || !(hit.Score > 0) {
				t.Fatalf("hit %+v for %q", hit, request)
			}
		}
		search.New([]search.Entry{{Name: request, Description: request}})
	})
}

// TestSearch_recall checks the share of requests for which a fitting tool is the first result, or among
// the first five: for the requests in shared/search, which the ranking was chosen with, and for those in
// testdata/requests.json. The tools of the latter were fixed before the first search, and the ranking must
// not be tuned to them. Measured: 0.53 and 0.73, 0.68 and 0.87.
func TestSearch_recall(t *testing.T) {
	held, err := os.ReadFile("testdata/requests.json")
	if err != nil {
		t.Fatal(err)
	}
	documents := make(map[string]indexed)
	checkRecall(t, documents, "shared/search", testkit.ReadDocument(t, "search/queries.json"), 0.52, 0.72)
	checkRecall(t, documents, "testdata", held, 0.66, 0.85)
}

// indexed is a document with its index.
type indexed struct {
	entries []search.Entry
	index   *search.Index
}

// checkRecall searches the requests in the documents that they name. It adds these to the documents.
func checkRecall(t *testing.T, documents map[string]indexed, list string, content []byte, least1, least5 float64) {
	t.Helper()
	var requests []struct {
		Document, Request string
		Tools             []string
	}
	if err := json.Unmarshal(content, &requests); err != nil {
		t.Fatal(err)
	}
	first, five := 0, 0
	for _, r := range requests {
		d, isKnown := documents[r.Document]
		if !isKnown {
			entries := document(t, r.Document)
			d = indexed{entries, search.New(entries)}
			documents[r.Document] = d
		}
		for _, name := range r.Tools {
			if !slices.ContainsFunc(d.entries, func(e search.Entry) bool { return e.Name == name }) {
				t.Errorf("%s: %q names %s, which %s does not have", list, r.Request, name, r.Document)
			}
		}
		hits := d.index.Search(r.Request, 5, nil)
		rank := slices.IndexFunc(hits, func(h search.Hit) bool {
			return slices.Contains(r.Tools, d.entries[h.Entry].Name)
		})
		if rank == 0 {
			first++
		}
		if rank >= 0 {
			five++
		}
	}
	n := float64(len(requests))
	t.Logf("%s: recall@1 %.3f, recall@5 %.3f of %d requests", list, float64(first)/n, float64(five)/n, len(requests))
	if got := float64(first) / n; got < least1 {
		t.Errorf("%s: recall@1 is %.3f, want at least %.2f", list, got, least1)
	}
	if got := float64(five) / n; got < least5 {
		t.Errorf("%s: recall@5 is %.3f, want at least %.2f", list, got, least5)
	}
}

// document returns the entries of a real document.
func document(t testing.TB, name string) []search.Entry {
	t.Helper()
	set, err := tools.Build(testkit.ReadDocument(t, "openapi/"+name), tools.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return search.Entries(set.Tools())
}

// maxIndex is the largest index of GitHub's document, in bytes of memory.
const maxIndex = 20 << 20

func TestIndex_memory(t *testing.T) {
	entries := document(t, "github-api.github.com.json.gz")
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	x := search.New(entries)
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
			search.New(entries)
		}
	})
	x := search.New(entries)
	b.Run("Search", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			x.Search("leave a thank-you note in the conversation of PR 42 pleese", 10, nil)
		}
	})
}
