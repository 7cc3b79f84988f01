// Package search finds the tools that match a request in natural language.
//
// New builds an Index of the tools: the words of their names, titles, paths, tags, descriptions,
// arguments and enum values, with a weight for each of these fields. Search then does the following:
//
//  1. It splits the request into words. Quoted texts, URLs, ids, numbers and clauses that give a reason count
//     less (request.go).
//  2. It adds words of the same meaning from a general table (synonyms.txt). A word that neither the
//     tools nor the table know is split into two that they know, or corrected to the nearest one
//     (spelling.go).
//  3. It ranks the tools with BM25F. The score of a tool is higher if the request covers its name, if its
//     title or first sentence says what the request says, and if its action (read, create, update or
//     delete; see package verb) is that of the request's verb.
//
// A Finder searches the tools of a Toolset. If it has a Ranker, such as that of package
// embeddings, it fuses both rankings.
//
// The stems of words are those of the Snowball algorithm for English. An Index is immutable and safe
// for concurrent use.
package search

import (
	"math"
	"slices"
	"strings"

	"github.com/fairwayhq/fairway/tools/build"
)

// Entry describes one tool.
type Entry struct {
	Name        string
	Title       string // the operation's summary
	Description string
	Method      string // upper case
	Path        string
	Tags        []string
	Arguments   []Argument
	Deprecated  bool
}

// Argument describes one argument of a tool.
type Argument struct {
	Name        string
	Description string
	Values      []string // of its enum
}

// Hit is one result of a search.
type Hit struct {
	Entry int // the index in the entries given to New
	Score float64
}

// field is a part of an entry that has its own weight.
type field int

const (
	inName      field = iota
	inQualifier       // participles in the name: namespaced in NamespacedPod
	inTitle
	inPath
	inResource // last fixed part of the path, which names the resource
	inTags
	inLead // first sentence of the description
	inDescription
	inArguments
	inArgumentText
	inState // participles among the arguments and enum values: closed, archived
	fields
)

// fieldWeights are the weights of a word in each field. lengthWeights say how strongly a long
// field lowers the weight of each of its words (the b of BM25F).
var (
	fieldWeights  = [fields]float64{inName: 3, inQualifier: 0.5, inTitle: 2, inPath: 1, inResource: 1.5, inTags: 0.8, inLead: 1.6, inDescription: 0.5, inArguments: 0.5, inArgumentText: 0.2, inState: 1.5}
	lengthWeights = [fields]float64{inName: 0.6, inTitle: 0.4, inPath: 0.4, inResource: 0.2, inTags: 0.2, inLead: 0.5, inDescription: 0.7, inArguments: 0.9, inArgumentText: 0.8}
)

const (
	maxDescription  = 2000 // bytes of a description that are indexed
	maxArgumentText = 160  // bytes of an argument's description that are indexed
	maxNotice       = 200  // bytes of a description that may say that the tool is deprecated
	maxValues       = 40   // enum values of an argument that are indexed
)

// phrase is a text of an entry that says its purpose in one sentence.
type phrase int

const (
	ofName phrase = iota // name and title together
	ofTitle
	ofLead
	phrases
)

// posting is the weight of a term in an entry.
type posting struct {
	entry  int32
	weight float32
	in     uint8 // set of the phrases that have the term
}

// Index is a search index of a toolset's tools.
type Index struct {
	entries  []indexed
	terms    map[string]int32 // ids of stems
	words    []string         // the stems, by id
	postings [][]posting      // by id
	idf      []float64        // by id
	spelling speller
}

// indexed is the data of an entry that the ranking needs in addition to the postings.
type indexed struct {
	weights    [phrases]float64 // sum of the idf of each phrase's terms, without repetition
	action     build.Action
	item       bool // the path ends with a parameter: a single resource, not a collection
	deprecated bool
}

// New builds the index of the entries.
func New(entries []Entry) *Index {
	b := builder{ids: map[string]int32{}, index: &Index{terms: map[string]int32{}, entries: make([]indexed, len(entries))}}
	for i := range entries {
		b.add(&entries[i])
	}
	x := b.index
	x.postings = make([][]posting, len(x.words))
	for i, e := range b.counted {
		for _, t := range e.terms {
			x.postings[t.id] = append(x.postings[t.id], posting{int32(i), b.weight(t, e.lengths), t.in()})
		}
	}
	x.idf = make([]float64, len(x.words))
	for id, list := range x.postings {
		n := float64(len(list))
		x.idf[id] = math.Log(1 + (float64(len(entries))-n+0.5)/(n+0.5))
	}
	for i := range entries {
		e := &entries[i]
		x.entries[i].action, x.entries[i].item, x.entries[i].deprecated = actionOf(e), e.isItem(), e.isDeprecated()
	}
	for id, list := range x.postings {
		for _, p := range list {
			for f := range phrases {
				if p.in>>f&1 != 0 {
					x.entries[p.entry].weights[f] += x.idf[id]
				}
			}
		}
	}
	x.spelling = newSpeller(x.words)
	return x
}

// builder counts the words of the entries.
type builder struct {
	index   *Index
	ids     map[string]int32 // word -> term, or noTerm
	counted []counted
	total   [fields]int // words of all entries
	at      []int32     // by term: the position in the terms of the current entry, plus 1
}

// noTerm is the id of words that are not indexed.
const noTerm = -1

// counted are the terms of an entry and the number of words in each of its fields.
type counted struct {
	terms   []termCount
	lengths [fields]int
}

// termCount is the number of times that a term occurs in each field of an entry, at most 255.
type termCount struct {
	id     int32
	counts [fields]uint8
}

// in returns the set of the phrases that have the term.
func (t *termCount) in() (set uint8) {
	if t.counts[inName]+t.counts[inQualifier]+t.counts[inTitle] > 0 {
		set = 1 << ofName
	}
	if t.counts[inTitle] > 0 {
		set |= 1 << ofTitle
	}
	if t.counts[inLead] > 0 {
		set |= 1 << ofLead
	}
	return set
}

func (b *builder) add(e *Entry) {
	var c counted
	addEntry(e, func(f field, text string) {
		words := split(text)
		for i, w := range words {
			if isPrefix(words[i:]) {
				continue
			}
			id := b.id(w)
			if id == noTerm {
				continue
			}
			if b.at[id] == 0 {
				c.terms = append(c.terms, termCount{id: id})
				b.at[id] = int32(len(c.terms))
			}
			if n := &c.terms[b.at[id]-1].counts[f]; *n < math.MaxUint8 {
				*n++
			}
			c.lengths[f]++
			b.total[f]++
		}
	})
	for _, t := range c.terms {
		b.at[t.id] = 0
	}
	b.counted = append(b.counted, c)
}

func (b *builder) id(w string) int32 {
	id, ok := b.ids[w]
	if !ok {
		id = noTerm
		if !stopWords[w] {
			id = b.index.term(stem(w))
		}
		b.ids[w] = id
		if n := len(b.index.words); n > len(b.at) {
			b.at = append(b.at, 0)
		}
	}
	return id
}

// weight returns the weight of a term in an entry: the sum over the fields, as BM25F defines it.
func (b *builder) weight(t termCount, lengths [fields]int) float32 {
	sum := 0.0
	for f, n := range t.counts {
		if n > 0 {
			mean := float64(b.total[f]) / float64(len(b.counted))
			sum += fieldWeights[f] * float64(n) / (1 - lengthWeights[f] + lengthWeights[f]*float64(lengths[f])/mean)
		}
	}
	return float32(sum)
}

// addEntry passes the text of each field of the entry to add.
func addEntry(e *Entry, add func(field, string)) {
	words := split(e.Name)
	for i, w := range words {
		switch {
		case isPrefix(words[i:]):
		case i > 0 && i+1 < len(words) && strings.HasSuffix(w, "ed"):
			add(inQualifier, w)
		default:
			add(inName, w)
		}
	}
	add(inTitle, e.Title)
	add(inPath, e.Path)
	add(inResource, e.resource())
	for _, t := range e.Tags {
		add(inTags, t)
	}
	description := e.Description[:min(len(e.Description), maxDescription)]
	lead, rest := firstSentence(description)
	add(inLead, lead)
	add(inDescription, rest)
	for i := range e.Arguments {
		a := &e.Arguments[i]
		for _, w := range append([]string{a.Name}, a.Values[:min(len(a.Values), maxValues)]...) {
			add(inArguments, w)
			if e.Method != "GET" && strings.HasSuffix(w, "ed") {
				add(inState, w)
			}
		}
		add(inArgumentText, a.Description[:min(len(a.Description), maxArgumentText)])
	}
}

// isPrefix reports whether the first word is a part of the second one, as in self-hosted.
func isPrefix(words []string) bool {
	return words[0] == "self" && len(words) > 1 && strings.HasSuffix(words[1], "ed")
}

// isDeprecated reports whether the entry is deprecated, or its description begins by saying so.
func (e *Entry) isDeprecated() bool {
	return e.Deprecated || strings.Contains(strings.ToLower(e.Description[:min(len(e.Description), maxNotice)]), "deprecated")
}

// isItem reports whether the path ends with a parameter: it is that of a single resource.
func (e *Entry) isItem() bool { return strings.HasSuffix(strings.TrimSuffix(e.Path, "/"), "}") }

// resource returns the last part of the path that is not a parameter.
func (e *Entry) resource() string {
	parts := strings.Split(e.Path, "/")
	for _, part := range slices.Backward(parts) {
		if part != "" && !strings.HasSuffix(part, "}") {
			return part
		}
	}
	return ""
}

func (x *Index) term(s string) int32 {
	id, ok := x.terms[s]
	if !ok {
		id = int32(len(x.words))
		x.terms[s] = id
		x.words = append(x.words, s)
	}
	return id
}
