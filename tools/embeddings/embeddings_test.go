package embeddings_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/embeddings"
	"github.com/fairwayhq/fairway/tools/search"
)

// embedder is an Embedder whose vectors say which of a few words a text has. It takes "tome" for "book".
type embedder struct {
	texts []string // all that were sent
	err   error
	short bool // return vectors of another length
}

func (e *embedder) Embed(_ context.Context, texts []string) ([][]float32, error) {
	if e.err != nil {
		return nil, e.err
	}
	e.texts = append(e.texts, texts...)
	vectors := make([][]float32, len(texts))
	for i, t := range texts {
		for _, word := range []string{"book", "loan", "reader"} {
			value := float32(0)
			if strings.Contains(strings.ReplaceAll(strings.ToLower(t), "tome", "book"), word) {
				value = 1
			}
			vectors[i] = append(vectors[i], value)
		}
		if e.short {
			vectors[i] = vectors[i][:2]
		}
	}
	return vectors, nil
}

// libraryTools returns tools for books, loans and readers.
func libraryTools(t *testing.T, further string) []*tools.Tool {
	t.Helper()
	set, err := tools.Build([]byte(`{"openapi":"3.1.0","info":{"title":"T","version":"1"},"paths":{
		"/books":{"get":{"operationId":"list_books"}},"/loans":{"get":{"operationId":"list_loans"}},"/readers":{"get":{"operationId":"list_readers"}}`+further+`}}`), tools.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return set.Tools()
}

// find returns the names of the tools that the Finder finds.
func find(f *search.Finder, requests []string, limit int, keep func(string) bool) (names []string) {
	for _, match := range f.Find(requests, limit, keep) {
		names = append(names, match.Name)
	}
	return names
}

func anyName(string) bool { return true }

func TestFinder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := new(embedder)
		var warnings []error
		warn := func(err error) { warnings = append(warnings, err) }
		f := embeddings.NewFinder(libraryTools(t, ""), e, nil, warn)
		if len(e.texts) > 0 {
			t.Error("vectors are computed before they are needed")
		}
		if got := find(f, []string{"tome"}, 1, anyName); len(got) > 0 {
			t.Errorf("before there are vectors: got %v, want nothing", got)
		}
		synctest.Wait()
		if got := find(f, []string{"tome"}, 1, anyName); !slices.Equal(got, []string{"list_books"}) {
			t.Errorf("by meaning: got %v, want list_books", got)
		}
		if got := find(f, []string{"loans"}, 1, anyName); !slices.Equal(got, []string{"list_loans"}) {
			t.Errorf("by words and meaning: got %v, want list_loans", got)
		}
		if got := find(f, []string{"tome", "loans"}, 3, func(name string) bool { return name != "list_books" }); slices.Contains(got, "list_books") || len(got) == 0 || got[0] != "list_loans" {
			t.Errorf("limited to other tools: got %v, want list_loans first and not list_books", got)
		}

		sent := len(e.texts)
		next := embeddings.NewFinder(libraryTools(t, `,"/fines":{"get":{"operationId":"list_fines"}}`), e, f, warn)
		find(next, []string{"tome"}, 1, anyName)
		synctest.Wait()
		if added := e.texts[sent:]; len(added) != 1 || !strings.Contains(added[0], "list_fines") {
			t.Errorf("a changed document computes %q, want the new tool only", added)
		}

		e.err = errors.New("down")
		if got := find(f, []string{"loans"}, 1, anyName); !slices.Equal(got, []string{"list_loans"}) || len(warnings) != 1 {
			t.Errorf("while the server is down: got %v and the warnings %v, want list_loans and one warning", got, warnings)
		}
		find(f, []string{"loans"}, 1, anyName)
		if len(warnings) != 1 {
			t.Errorf("the second failure in a row warns again: %v", warnings)
		}
		e.err, e.short = nil, true
		time.Sleep(time.Minute) // of the bubble's clock
		if got := find(f, []string{"loans"}, 1, anyName); !slices.Equal(got, []string{"list_loans"}) || len(warnings) != 2 {
			t.Errorf("vectors of another length: got %v and the warnings %v, want list_loans and a warning", got, warnings)
		}
	})
}

func TestFinder_retries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &embedder{err: errors.New("down")}
		warnings := 0
		f := embeddings.NewFinder(libraryTools(t, ""), e, nil, func(error) { warnings++ })
		find(f, []string{"tome"}, 1, anyName)
		synctest.Wait()
		e.err = nil
		find(f, []string{"tome"}, 1, anyName)
		synctest.Wait()
		if len(e.texts) > 0 || warnings != 1 {
			t.Errorf("directly after a failure: %d texts are sent and %d warnings logged, want 0 and 1", len(e.texts), warnings)
		}
		time.Sleep(time.Minute) // of the bubble's clock
		find(f, []string{"tome"}, 1, anyName)
		synctest.Wait()
		if got := find(f, []string{"tome"}, 1, anyName); !slices.Equal(got, []string{"list_books"}) {
			t.Errorf("later: got %v, want list_books", got)
		}
	})
}

// hangingEmbedder answers for tools, but not for searches.
type hangingEmbedder struct {
	embedder
	searches int
}

func (e *hangingEmbedder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	if len(texts) > 1 {
		return e.embedder.Embed(ctx, texts)
	}
	e.searches++
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestFinder_server_that_hangs checks that it delays one search, not all of them.
func TestFinder_server_that_hangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := new(hangingEmbedder)
		f := embeddings.NewFinder(libraryTools(t, ""), e, nil, func(error) {})
		find(f, []string{"loans"}, 1, anyName)
		synctest.Wait()
		if find(f, []string{"", " "}, 1, anyName); e.searches != 0 {
			t.Error("empty requests were sent, which servers reject")
		}
		find(f, []string{"loans"}, 1, anyName)
		start := time.Now()
		for range 5 {
			if got := find(f, []string{"loans"}, 1, anyName); !slices.Equal(got, []string{"list_loans"}) {
				t.Errorf("got %v, want list_loans", got)
			}
		}
		if waited := time.Since(start); waited > 0 || e.searches != 1 {
			t.Errorf("after a failure: searches waited %s and the server got %d requests, want no wait and 1", waited, e.searches)
		}
		time.Sleep(time.Minute) // of the bubble's clock
		if find(f, []string{"loans"}, 1, anyName); e.searches != 2 {
			t.Errorf("later: the server got %d requests, want 2", e.searches)
		}
	})
}
