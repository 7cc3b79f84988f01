package search

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/fairwayhq/fairway/tools/build"
)

// The weights of the ranking. They were chosen with the requests of shared/search, and rounded.
const (
	saturation     = 1.2  // the k1 of BM25F
	synonymWeight  = 0.75 // of a word of the same meaning, compared with the word itself
	partWeight     = 0.6  // of a word that is part of a phrase of the same meaning
	literalWeight  = 0.5  // of a word that is quoted, or part of a name or number
	spellingWeight = 0.9  // of a corrected word
	asideWeight    = 0.5  // of a word in a clause that gives a reason, a time or a condition
	verbWeight     = 0.7  // of a word of the same meaning as a verb, in addition: factor uses its action

	nameCoverage   = 1.4  // added to the factor of a tool whose whole name the request covers
	exactPhrase    = 3.0  // added to the factor of a tool whose title or first sentence is the request
	rightAction    = 1.7  // factor for a tool whose action the request names
	wrongAction    = 0.75 // factor for a tool with another action
	readsOnly      = 0.6  // factor for a tool that reads if the request names another action
	rightNumber    = 1.05 // factor for a tool that returns a list, or one resource, if the request asks for that
	deprecatedTool = 0.8  // factor for a deprecated tool
)

// concept is the meaning of one word of the request: terms of the index, each with its weight.
type concept []weightedTerm

type weightedTerm struct {
	id     int32
	weight float64
}

// match is how an entry fits a request.
type match struct {
	score float64          // of BM25F
	cover [phrases]float64 // the idf of the phrase's terms that the request has
	reach [phrases]float64 // the weight of the request's concepts that the phrase has
	best  float64          // score of the current concept
	in    uint8            // phrases that have the current concept
}

// Search returns up to limit entries that fit the request, best first. It returns only entries for
// which keep returns true; nil keeps all.
func (x *Index) Search(request string, limit int, keep func(entry int) bool) []Hit {
	words := x.correct(splitRequest(request))
	matches := make([]match, len(x.entries))
	var matched []int32
	total := 0.0 // weight of all concepts
	for _, c := range x.concepts(words) {
		matched = matched[:0]
		weight := 0.0
		for _, t := range c {
			idf := t.weight * x.idf[t.id]
			weight = max(weight, idf)
			for _, p := range x.postings[t.id] {
				m := &matches[p.entry]
				if m.best == 0 {
					matched = append(matched, p.entry)
				}
				w := float64(p.weight)
				m.best = max(m.best, idf*w*(saturation+1)/(saturation+w))
				m.in |= p.in
				for f := range phrases {
					if p.in>>f&1 != 0 {
						m.cover[f] += idf
					}
				}
			}
		}
		total += weight
		for _, e := range matched {
			m := &matches[e]
			m.score += m.best
			for f := range phrases {
				if m.in>>f&1 != 0 {
					m.reach[f] += weight
				}
			}
			m.best, m.in = 0, 0
		}
	}
	wanted := readIntent(words)
	var hits []Hit
	for i := range matches {
		if m := &matches[i]; m.score > 0 && (keep == nil || keep(i)) {
			hits = append(hits, Hit{i, m.score * x.entries[i].factor(m, total, wanted)})
		}
	}
	slices.SortStableFunc(hits, func(a, b Hit) int { return cmp.Compare(b.Score, a.Score) })
	return hits[:min(len(hits), max(limit, 0))]
}

// factor returns the factor of an entry's score. It depends on how much of the entry's name, title and
// first sentence the request covers, how much of the request they cover, and on the entry's action. total
// is the weight of the request.
func (e *indexed) factor(m *match, total float64, wanted intent) float64 {
	f := 1.0
	exact := 0.0
	for i, weight := range e.weights {
		if weight > 0 {
			cover := min(m.cover[i]/weight, 1)
			if phrase(i) == ofName {
				f += nameCoverage * cover
			}
			exact = max(exact, cover*m.reach[i]/total)
		}
	}
	f *= 1 + exactPhrase*exact*exact
	switch {
	case wanted.action == 0 || e.action == 0:
	case wanted.action&e.action != 0:
		f *= rightAction
	case e.action == build.Reads:
		f *= readsOnly
	default:
		f *= wrongAction
	}
	if wanted.many && e.action&build.Reads != 0 && !e.item || wanted.one && e.item {
		f *= rightNumber
	}
	if e.deprecated {
		f *= deprecatedTool
	}
	return f
}

// compound reports whether the index has the first two words as one: "toll free" as tollfree.
func (x *Index) compound(words []word) bool {
	if len(words) < 2 || stopWords[words[0].text] || stopWords[words[1].text] {
		return false
	}
	_, known := x.terms[stem(words[0].text+words[1].text)]
	return known
}

// parts returns the phrase of the two words that the index has for a compound, "" if there are none:
// stateful_set for "statefulset".
func (x *Index) parts(compound string) string {
	for i := minPart; i <= len(compound)-minPart; i++ {
		a, b := stem(compound[:i]), stem(compound[i:])
		if _, known := x.terms[a]; !known {
			continue
		}
		if _, known := x.terms[b]; known {
			return a + "_" + b
		}
	}
	return ""
}

// correct finds the words that an unknown word may mean: its parts, or those with the nearest spelling.
func (x *Index) correct(words []word) []word {
	for i := range words {
		w := &words[i]
		if stopWords[w.text] || w.literal {
			continue
		}
		stemmed := stem(w.text)
		if _, known := x.terms[stemmed]; known || len(synonyms[stemmed]) > 0 || build.ImperativeActions(w.text) != 0 || len(w.text) < minCorrected {
			continue
		}
		if parts := x.parts(w.text); parts != "" {
			w.near = []string{parts}
		} else if w.near = x.spelling.nearest(stemmed); len(w.near) == 0 {
			w.near = synonymSpelling.nearest(stemmed)
		}
	}
	return words
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
			w.near = nil
			i += n - 1
		case x.compound(words[i:]):
			stemmed = stem(w.text + words[i+1].text)
			w.near = nil
			i++
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
		if w.aside {
			weight *= asideWeight
		}
		if c := x.concept(stemmed, w.near, weight); len(c) > 0 {
			list = append(list, c)
		}
	}
	return list
}

// concept returns the terms for a stemmed word or phrase: the word itself and words of the same
// meaning. If near has words, they are meant instead.
func (x *Index) concept(stemmed string, near []string, weight float64) (c concept) {
	if len(near) == 0 {
		return x.addSynonyms(x.addTerm(nil, stemmed, weight), stemmed, weight)
	}
	for _, n := range near {
		c = x.addSynonyms(x.addTerm(c, n, weight*spellingWeight), n, weight*spellingWeight)
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
	if build.VerbActions(stemmed) != 0 {
		weight *= verbWeight
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
