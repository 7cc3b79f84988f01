package search

import (
	"cmp"
	"slices"
	"sync"

	"github.com/fairwayhq/fairway/tools"
)

// Finder finds tools of a Toolset. Its index is built when it is first needed. It is safe for
// concurrent use and implements tools.Finder.
type Finder struct {
	Ranker Ranker // nil for none; set it before the first search

	names []string
	index func() *Index
}

// NewFinder returns the Finder of these tools.
func NewFinder(toolset []*tools.Tool) *Finder {
	f := &Finder{names: make([]string, len(toolset))}
	for i, t := range toolset {
		f.names[i] = t.Name
	}
	f.index = sync.OnceValue(func() *Index { return New(Entries(toolset)) })
	return f
}

// NewJoinedFinder returns the Finder of a Toolset of several documents. It also finds tools by the names of
// their documents.
func NewJoinedFinder(set *tools.Toolset) *Finder {
	f := NewFinder(set.Tools())
	f.index = sync.OnceValue(func() *Index {
		entries := Entries(set.Tools())
		for i, t := range set.Tools() {
			entries[i].Tags = append(slices.Clip(entries[i].Tags), set.PartOf(t).Name)
		}
		return New(entries)
	})
	return f
}

// A Ranker ranks tools in another way than by their words.
type Ranker interface {
	// Rank returns up to limit hits for each request, best first, of the entries for which keep returns true. It returns nil if it
	// cannot rank now.
	Rank(requests []string, limit int, keep func(entry int) bool) [][]Hit
}

const (
	maxRequests = 5 // requests that are searched at once; further ones are ignored

	// fusedRanks is the number of hits by words and of the Ranker that are fused, at least.
	fusedRanks = 50

	// fusionRank is the constant k of reciprocal rank fusion: a hit at rank r (from 0) counts
	// 1/(k+r+1).
	fusionRank = 60
)

// Find implements tools.Finder. The rankings of a request by words and by the Ranker are fused by reciprocal
// rank.
func (f *Finder) Find(requests []string, limit int, keep func(name string) bool) []tools.Match {
	requests = requests[:min(len(requests), maxRequests)]
	kept := func(entry int) bool { return keep(f.names[entry]) }
	lists := make([][]Hit, len(requests))
	for i, request := range requests {
		lists[i] = f.index().Search(request, max(limit, fusedRanks), kept)
	}
	if f.Ranker != nil {
		for i, list := range f.Ranker.Rank(requests, max(limit, fusedRanks), kept) {
			lists[i] = fuse(lists[i], list)
		}
	}
	return f.inTurn(lists, max(limit, 0))
}

// inTurn returns up to limit tools: the first of each list, then the second of each, and so on.
func (f *Finder) inTurn(lists [][]Hit, limit int) []tools.Match {
	var matches []tools.Match
	seen := map[int]bool{}
	longest := 0
	for _, list := range lists {
		longest = max(longest, len(list))
	}
	for rank := range longest {
		for i, list := range lists {
			if rank < len(list) && !seen[list[rank].Entry] && len(matches) < limit {
				seen[list[rank].Entry] = true
				matches = append(matches, tools.Match{Name: f.names[list[rank].Entry], Request: i, Best: rank == 0})
			}
		}
	}
	return matches
}

// fuse returns the hits of several lists, scored by reciprocal rank, best first.
func fuse(lists ...[]Hit) []Hit {
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
var _ tools.Finder = (*Finder)(nil)
