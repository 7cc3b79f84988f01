// Package embeddings ranks tools by the vectors of an embeddings server, in addition to the words of package search.
package embeddings

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/search"
)

// Embedder computes the vectors of texts, in their order. All vectors have the same length and the norm
// 1. Texts of a similar meaning have vectors with a large dot product.
type Embedder interface {
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}

// NewFinder returns a Finder that also ranks the tools by the vectors of an Embedder. The vectors are computed in the background at the
// first search. Until then, and while the Embedder fails, it finds tools by their words only; warn is called with the reason, from time
// to time. Previous is the Finder of an earlier version of the tools, or nil: vectors of equal tools are taken from it.
func NewFinder(toolset []*tools.Tool, embedder Embedder, previous tools.Finder, warn func(error)) *search.Finder {
	var before *semantic
	if p, ok := previous.(*search.Finder); ok {
		before, _ = p.Ranker.(*semantic)
	}
	f := search.NewFinder(toolset)
	f.Ranker = newSemantic(search.Entries(toolset), embedder, before, warn)
	return f
}

// Limits of searching with vectors.
const (
	maxEmbedded   = 5000             // tools that have vectors; if there are more, none has
	embedBatch    = 64               // texts of one request
	embedText     = 1000             // bytes of a tool's description that its vector covers
	embedAllTime  = 5 * time.Minute  // for the vectors of all tools
	embedTime     = 3 * time.Second  // for the vectors of the requests of a search
	retryEmbedAll = time.Minute      // after a failure
	retryEmbed    = 30 * time.Second // after a failure; until then searches do not use the server
	warnInterval  = 30 * time.Second // between two warnings
)

// textKey identifies the text of a tool.
type textKey [sha256.Size]byte

// semantic ranks tools by their vectors. The vectors are computed in the background, at the first
// search. Until then and after failures, it ranks nothing.
type semantic struct {
	embedder Embedder
	warn     func(error)
	texts    []string // of the tools
	previous *semantic

	vectors atomic.Pointer[[][]float32] // of the tools; nil until they are computed

	mu      sync.Mutex
	running bool
	next    time.Time // time of the next attempt after the vectors of the tools could not be computed
	resume  time.Time // time of the next attempt after the vectors of a search could not be computed
	warned  time.Time
}

// newSemantic returns the ranking of the entries. Previous is the ranking of an earlier version of the
// tools, or nil; its vectors are reused for equal texts.
func newSemantic(entries []search.Entry, embedder Embedder, previous *semantic, warn func(error)) *semantic {
	s := &semantic{embedder: embedder, warn: warn, previous: previous.computed(), texts: make([]string, len(entries))}
	for i := range entries {
		e := &entries[i]
		s.texts[i] = fmt.Sprintf("%s: %s\n%s", e.Name, e.Title, text.Cut(e.Description, embedText))
	}
	return s
}

// ready returns the vectors. If they are not computed yet, it starts to compute them and returns nil.
func (s *semantic) ready() [][]float32 {
	if vectors := s.vectors.Load(); vectors != nil {
		return *vectors
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running && !time.Now().Before(s.next) {
		s.running = true
		go s.compute()
	}
	return nil
}

// compute computes the vectors of the tools.
func (s *semantic) compute() {
	ctx, cancel := context.WithTimeout(context.Background(), embedAllTime)
	defer cancel()
	vectors, err := s.embedAll(ctx)
	s.mu.Lock()
	s.running, s.next = false, time.Now().Add(retryEmbedAll)
	if err == nil {
		s.vectors.Store(&vectors)
		s.previous = nil
	}
	s.mu.Unlock()
	if err != nil {
		s.report(fmt.Errorf("computing the vectors of %d tools: %w", len(s.texts), err))
	}
}

// embedAll returns the vectors of all tools.
func (s *semantic) embedAll(ctx context.Context) ([][]float32, error) {
	if len(s.texts) > maxEmbedded {
		return nil, fmt.Errorf("only up to %d tools can have vectors: choose operations with include and exclude", maxEmbedded)
	}
	known := s.known()
	vectors := make([][]float32, len(s.texts))
	var missing []int
	for i, t := range s.texts {
		if vectors[i] = known[sha256.Sum256([]byte(t))]; vectors[i] == nil {
			missing = append(missing, i)
		}
	}
	for batch := range slices.Chunk(missing, embedBatch) {
		texts := make([]string, len(batch))
		for j, i := range batch {
			texts[j] = s.texts[i]
		}
		embedded, err := s.embedder.Embed(ctx, texts)
		if err != nil {
			return nil, err
		}
		for j, i := range batch {
			vectors[i] = embedded[j]
		}
	}
	for _, v := range vectors {
		if len(v) != len(vectors[0]) {
			return nil, errors.New("the server has returned vectors of different lengths")
		}
	}
	return vectors, nil
}

// computed returns s, or the latest earlier version that has vectors, or nil if there is none.
func (s *semantic) computed() *semantic {
	for s != nil && s.vectors.Load() == nil {
		s.mu.Lock()
		previous := s.previous
		s.mu.Unlock()
		s = previous
	}
	return s
}

// known returns the vectors that are already computed, by their text.
func (s *semantic) known() map[textKey][]float32 {
	if s = s.computed(); s == nil {
		return nil
	}
	known := make(map[textKey][]float32, len(s.texts))
	for i, v := range *s.vectors.Load() {
		known[sha256.Sum256([]byte(s.texts[i]))] = v
	}
	return known
}

// Rank implements search.Ranker. It returns the nearest tools for each request: none for an empty one, and nil if there are no
// vectors.
func (s *semantic) Rank(requests []string, limit int, keep func(entry int) bool) [][]search.Hit {
	vectors := s.ready()
	var texts []string
	var positions []int
	for i, request := range requests {
		if strings.TrimSpace(request) != "" { // servers reject empty texts
			texts, positions = append(texts, request), append(positions, i)
		}
	}
	if vectors == nil || len(texts) == 0 || s.paused() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), embedTime)
	defer cancel()
	wanted, err := s.embedder.Embed(ctx, texts)
	if err == nil && len(vectors) > 0 && len(wanted[0]) != len(vectors[0]) {
		err = errors.New("the server has returned vectors of another length than before")
	}
	if err != nil {
		s.pause()
		s.report(fmt.Errorf("computing the vectors of a search: %w", err))
		return nil
	}
	lists := make([][]search.Hit, len(requests))
	for j, w := range wanted {
		i := positions[j]
		for entry, v := range vectors {
			if keep(entry) {
				lists[i] = append(lists[i], search.Hit{Entry: entry, Score: dot(w, v)})
			}
		}
		slices.SortStableFunc(lists[i], func(a, b search.Hit) int { return cmp.Compare(b.Score, a.Score) })
		lists[i] = lists[i][:min(len(lists[i]), limit)]
	}
	return lists
}

// pause makes searches skip the server for retryEmbed, so that a server that hangs delays few of them.
func (s *semantic) pause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resume = time.Now().Add(retryEmbed)
}

// paused reports whether searches skip the server.
func (s *semantic) paused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Before(s.resume)
}

// report calls warn, but not more often than warnInterval.
func (s *semantic) report(err error) {
	s.mu.Lock()
	now := time.Now()
	quiet := now.Sub(s.warned) < warnInterval
	if !quiet {
		s.warned = now
	}
	s.mu.Unlock()
	if !quiet {
		s.warn(err)
	}
}

func dot(a, b []float32) float64 {
	var sum float32
	for i, x := range a {
		sum += x * b[i]
	}
	return float64(sum)
}
