package toolsearch

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// The weights of the ranking. They were chosen with the requests of shared/search, and rounded.
const (
	saturation     = 1.2  // the k1 of BM25F
	synonymWeight  = 0.75 // of a word of the same meaning, compared with the word itself
	partWeight     = 0.6  // of a word that is part of a phrase of the same meaning
	literalWeight  = 0.5  // of a word that is quoted, or part of a name or number
	spellingWeight = 0.9  // of a corrected word

	nameCoverage   = 1.4  // factor for a tool whose whole name the request covers
	rightAction    = 1.7  // factor for a tool whose action the request names
	wrongAction    = 0.75 // factor for a tool with another action
	rightNumber    = 1.05 // factor for a tool that returns a list, or one resource, if the request asks for that
	deprecatedTool = 0.8  // factor for a deprecated tool
)

// concept is the meaning of one word of the request: terms of the index, each with its weight.
type concept []weightedTerm

type weightedTerm struct {
	id     int32
	weight float64
}

// Search returns up to limit entries that fit the request, best first. It returns only entries for
// which keep returns true; nil keeps all.
func (x *Index) Search(request string, limit int, keep func(entry int) bool) []Hit {
	words := splitRequest(request)
	scores := make([]float64, len(x.entries))
	covered := map[int32]float64{} // terms of the request, with their weights
	var matched []int32
	best := make([]float64, len(x.entries)) // scores of the current concept
	for _, c := range x.concepts(words) {
		matched = matched[:0]
		for _, t := range c {
			covered[t.id] = max(covered[t.id], t.weight)
			for _, p := range x.postings[t.id] {
				if best[p.entry] == 0 {
					matched = append(matched, p.entry)
				}
				w := float64(p.weight)
				best[p.entry] = max(best[p.entry], t.weight*x.idf[t.id]*w*(saturation+1)/(saturation+w))
			}
		}
		for _, e := range matched {
			scores[e] += best[e]
			best[e] = 0
		}
	}
	wanted := readIntent(words)
	var hits []Hit
	for i, score := range scores {
		if score > 0 && (keep == nil || keep(i)) {
			hits = append(hits, Hit{i, score * x.factor(&x.entries[i], covered, wanted)})
		}
	}
	slices.SortStableFunc(hits, func(a, b Hit) int { return cmp.Compare(b.Score, a.Score) })
	return hits[:min(len(hits), max(limit, 0))]
}

// factor returns the factor of an entry's score. It depends on how much of the entry's name the
// request covers, and on the entry's action.
func (x *Index) factor(e *indexed, covered map[int32]float64, wanted intent) float64 {
	f := 1.0
	if e.nameWeight > 0 {
		sum := 0.0
		for _, id := range e.name {
			sum += covered[id] * x.idf[id]
		}
		f += nameCoverage * sum / e.nameWeight
	}
	switch {
	case wanted.action == 0 || e.action == 0:
	case wanted.action&e.action != 0:
		f *= rightAction
	default:
		f *= wrongAction
	}
	if wanted.many && e.action&reads != 0 && !e.item || wanted.one && e.item {
		f *= rightNumber
	}
	if e.deprecated {
		f *= deprecatedTool
	}
	return f
}

// concepts returns the concepts of the words and phrases of a request.
func (x *Index) concepts(words []word) []concept {
	var list []concept
	seen := map[string]bool{}
	for i := 0; i < len(words); i++ {
		w := words[i]
		stemmed, n := phraseAt(words[i:])
		switch {
		case n > 1:
			i += n - 1
		case selfWords[w.text]:
			stemmed = self
		case stopWords[w.text]:
			continue
		default:
			stemmed = stem(w.text)
		}
		if seen[stemmed] {
			continue
		}
		seen[stemmed] = true
		weight := 1.0
		if w.literal {
			weight = literalWeight
		}
		if c := x.concept(stemmed, weight); len(c) > 0 {
			list = append(list, c)
		}
	}
	return list
}

// concept returns the terms for a stemmed word or phrase: the word itself and words of the same
// meaning, or else the same for the nearest words that the index or the table of synonyms has.
func (x *Index) concept(stemmed string, weight float64) (c concept) {
	c = x.addSynonyms(x.addTerm(nil, stemmed, weight), stemmed, weight)
	if len(c) > 0 {
		return c
	}
	for _, near := range x.spelling.nearest(stemmed) {
		c = x.addSynonyms(x.addTerm(c, near, weight*spellingWeight), near, weight*spellingWeight)
	}
	if len(c) > 0 {
		return c
	}
	for _, near := range synonymSpelling.nearest(stemmed) {
		c = x.addSynonyms(c, near, weight*spellingWeight)
	}
	return c
}

// addSynonyms adds the words of the same meaning. Each has at most the weight of the word itself, however
// rare the synonym is.
func (x *Index) addSynonyms(c concept, stemmed string, weight float64) concept {
	limit := math.Inf(1)
	if id, ok := x.terms[stemmed]; ok {
		limit = x.idf[id]
	}
	for _, s := range synonyms[stemmed] {
		w := weight * synonymWeight
		if id, ok := x.terms[s]; ok && x.idf[id] > limit {
			w *= limit / x.idf[id]
		}
		c = x.addTerm(c, s, w)
	}
	return c
}

// addTerm adds the terms of a stemmed word or phrase that the index has.
func (x *Index) addTerm(c concept, stemmed string, weight float64) concept {
	parts := strings.Split(stemmed, "_")
	if len(parts) > 1 {
		weight *= partWeight
	}
	for _, part := range parts {
		id, ok := x.terms[part]
		if !ok {
			continue
		}
		if i := slices.IndexFunc(c, func(t weightedTerm) bool { return t.id == id }); i >= 0 {
			c[i].weight = max(c[i].weight, weight)
		} else {
			c = append(c, weightedTerm{id, weight})
		}
	}
	return c
}

// phraseAt returns the stems of the phrase of the table of synonyms that the words begin with, and
// the number of its words. n is 1 if there is none.
func phraseAt(words []word) (phrase string, n int) {
	for n = min(maxPhrase, len(words)); n > 1; n-- {
		stems := make([]string, n)
		for i := range stems {
			stems[i] = stem(words[i].text)
		}
		phrase = strings.Join(stems, "_")
		if _, ok := synonyms[phrase]; ok {
			return phrase, n
		}
	}
	return "", 1
}
