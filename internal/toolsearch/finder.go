package toolsearch

import (
	"cmp"
	"slices"
	"sync"

	"github.com/fairwayhq/fairway/ocp/tool"
)

// Finder finds tools of a Toolset. Its index is built when it is first needed. It is safe for
// concurrent use and implements tool.Finder.
type Finder struct {
	names    []string
	index    func() *Index
	semantic *semantic // nil without an Embedder
}

// NewFinder returns the Finder of these tools.
func NewFinder(tools []*tool.Tool) *Finder {
	f := &Finder{names: make([]string, len(tools))}
	for i, t := range tools {
		f.names[i] = t.Name
	}
	f.index = sync.OnceValue(func() *Index { return New(Entries(tools)) })
	return f
}

// NewSemanticFinder returns a Finder that also ranks the tools by the vectors of an Embedder, and fuses
// both rankings. The vectors are computed in the background at the first search. Until then, and while
// the Embedder fails, it finds tools by their words only; warn is called with the reason, from time to
// time. Previous is the Finder of an earlier version of the tools, or nil: vectors of equal tools are
// taken from it.
func NewSemanticFinder(tools []*tool.Tool, embedder Embedder, previous tool.Finder, warn func(error)) *Finder {
	f := NewFinder(tools)
	var before *semantic
	if p, ok := previous.(*Finder); ok {
		before = p.semantic
	}
	f.semantic = newSemantic(Entries(tools), embedder, before, warn)
	return f
}

const (
	maxRequests = 5 // requests that are searched at once; further ones are ignored

	// fusedRanks is the number of hits of each request, and at least that of the result, that are
	// fused if there are several requests.
	fusedRanks = 50

	// fusionRank is the constant k of reciprocal rank fusion: a hit at rank r (from 0) counts
	// 1/(k+r+1).
	fusionRank = 60
)

// Find returns the names of up to limit tools that fit the requests, best first. Several requests
// are fused by reciprocal rank. It returns only names for which keep returns true.
func (f *Finder) Find(requests []string, limit int, keep func(name string) bool) []string {
	requests = requests[:min(len(requests), maxRequests)]
	kept := func(entry int) bool { return keep(f.names[entry]) }
	lists := make([][]Hit, len(requests))
	for i, request := range requests {
		lists[i] = f.index().Search(request, max(limit, fusedRanks), kept)
	}
	if f.semantic != nil {
		lists = append(lists, f.semantic.rank(requests, max(limit, fusedRanks), kept)...)
	}
	hits := fuse(lists)
	names := make([]string, 0, max(limit, 0))
	for _, hit := range hits[:min(len(hits), max(limit, 0))] {
		names = append(names, f.names[hit.Entry])
	}
	return names
}

// fuse returns the hits of several lists, scored by reciprocal rank, best first. It returns a single
// list as it is.
func fuse(lists [][]Hit) []Hit {
	if len(lists) == 1 {
		return lists[0]
	}
	scores := map[int]float64{}
	var fused []Hit
	for _, list := range lists {
		for rank, hit := range list {
			if _, seen := scores[hit.Entry]; !seen {
				fused = append(fused, Hit{Entry: hit.Entry})
			}
			scores[hit.Entry] += 1 / float64(fusionRank+rank+1)
		}
	}
	for i := range fused {
		fused[i].Score = scores[fused[i].Entry]
	}
	slices.SortStableFunc(fused, func(a, b Hit) int { return cmp.Compare(b.Score, a.Score) })
	return fused
}

// Interface guard
var _ tool.Finder = (*Finder)(nil)
