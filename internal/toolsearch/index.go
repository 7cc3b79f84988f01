// Package toolsearch finds the tools that match a request in natural language.
//
// New builds an Index of the tools: the words of their names, titles, paths, tags, descriptions,
// arguments and enum values, with a weight for each of these fields. Search then does the following:
//
//  1. It splits the request into words. Quoted texts, URLs, ids and numbers count less (request.go).
//  2. It adds words of the same meaning from a general table (synonyms.txt). A word that neither the
//     tools nor the table know is corrected to the nearest one that they know (spelling.go).
//  3. It ranks the tools with BM25F. The score of a tool is higher if the request covers its name, and if
//     its action (read, create, update or delete) is that of the request's verb.
//
// A Finder searches the tools of a Toolset. It may rank them by the vectors of an embeddings server too
// (semantic.go), and then fuses both rankings.
//
// The stems of words are those of the Snowball algorithm for English. An Index is immutable and safe
// for concurrent use.
package toolsearch

import (
	"math"
	"slices"
	"strings"
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
	inName field = iota
	inTitle
	inPath
	inTags
	inLead // first sentence of the description
	inDescription
	inArguments
	inArgumentText
	fields
)

// fieldWeights are the weights of a word in each field. lengthWeights say how strongly a long
// field lowers the weight of each of its words (the b of BM25F).
var (
	fieldWeights  = [fields]float64{inName: 3, inTitle: 2, inPath: 1.5, inTags: 0.8, inLead: 1.6, inDescription: 0.5, inArguments: 0.5, inArgumentText: 0.2}
	lengthWeights = [fields]float64{inName: 0.6, inTitle: 0.4, inPath: 0.4, inTags: 0.2, inLead: 0.5, inDescription: 0.7, inArguments: 0.9, inArgumentText: 0.8}
)

const (
	maxDescription  = 2000 // bytes of a description that are indexed
	maxArgumentText = 160  // bytes of an argument's description that are indexed
	maxValues       = 40   // enum values of an argument that are indexed
)

// posting is the weight of a term in an entry.
type posting struct {
	entry  int32
	weight float32
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
	name       []int32 // terms of the name and title, without repetition
	nameWeight float64 // sum of their idf
	action     action
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
			x.postings[t.id] = append(x.postings[t.id], posting{int32(i), b.weight(t, e.lengths)})
		}
	}
	x.idf = make([]float64, len(x.words))
	for id, list := range x.postings {
		n := float64(len(list))
		x.idf[id] = math.Log(1 + (float64(len(entries))-n+0.5)/(n+0.5))
	}
	for i := range entries {
		x.entries[i] = x.describe(&entries[i])
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

func (b *builder) add(e *Entry) {
	var c counted
	addEntry(e, func(f field, text string) {
		for _, w := range split(text) {
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
	add(inName, e.Name)
	add(inTitle, e.Title)
	add(inPath, e.Path)
	for _, t := range e.Tags {
		add(inTags, t)
	}
	description := e.Description[:min(len(e.Description), maxDescription)]
	lead, rest := firstSentence(description)
	add(inLead, lead)
	add(inDescription, rest)
	for i := range e.Arguments {
		a := &e.Arguments[i]
		add(inArguments, a.Name)
		for _, v := range a.Values[:min(len(a.Values), maxValues)] {
			add(inArguments, v)
		}
		add(inArgumentText, a.Description[:min(len(a.Description), maxArgumentText)])
	}
}

// describe returns the data of an entry that the ranking needs.
func (x *Index) describe(e *Entry) indexed {
	d := indexed{deprecated: e.Deprecated, item: strings.HasSuffix(strings.TrimSuffix(e.Path, "/"), "}")}
	for _, w := range split(e.Name + " " + e.Title) {
		if stopWords[w] {
			continue
		}
		id := x.terms[stem(w)]
		if !slices.Contains(d.name, id) {
			d.name = append(d.name, id)
			d.nameWeight += x.idf[id]
		}
	}
	d.action = actionOf(e)
	return d
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
