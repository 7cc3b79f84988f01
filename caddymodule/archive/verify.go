package archive

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Kinds of faults of Verifier.Check. They are wrapped with the file and the line.
var (
	ErrGap     = errors.New("gap")            // lines are missing
	ErrChanged = errors.New("changed line")   // the content of a line does not match its hash
	ErrLink    = errors.New("wrong previous") // a line does not continue the line before it
)

// maxLine is the maximum size of a line in bytes.
const maxLine = 1 << 20

// Verifier checks the lines of an archive. The zero value is ready to use.
//
// The files may be read in any order: another node delivers the lines that a node has left, so a chain may be in the files
// of several nodes. Read cuts each file into segments, lines of a node that continue each other, and Check joins the segments
// of each node in the order of seq. Of each line the Verifier keeps its hash and its number, 40 bytes.
type Verifier struct {
	Chains []*Chain // in the order of the first lines that were read; complete after Check

	at     place // of the line that is being read
	faults []fault
}

// place is where a line is.
type place struct {
	file   int // number of the file, from 1
	name   string
	number int
	inside bool // there are lines before it in the file
}

type fault struct {
	place
	err error
}

// Chain is what a Verifier has seen of the chain of a node.
type Chain struct {
	Node        string
	First, Last int64  // numbers of lines
	Hash        string // of the last line
	Repeated    int64  // lines that were delivered again
	Inside      bool   // the chain begins after lines of other nodes in a file, where anyone who can write the file can put it

	segments []*segment
}

type digest [sha256.Size]byte

// segment is lines of a node in one file that continue each other.
type segment struct {
	place         // of the first line
	first int64   // seq of the first line
	prev  digest  // of the first line; zero if there is none
	lines []entry // in the order of seq
}

type entry struct {
	hash   digest
	number int // of the line in its file
}

// Read reads the lines of a file. The error is that of the reader.
func (v *Verifier) Read(name string, r io.Reader) error {
	lines := bufio.NewReaderSize(r, maxLine)
	for v.at = (place{file: v.at.file + 1, name: name, number: 1}); ; v.at.number++ {
		text, err := lines.ReadSlice('\n')
		if text = bytes.TrimRight(text, "\r\n"); len(text) > 0 {
			v.add(text) // the beginning of a longer line does not match its hash
			v.at.inside = true
		}
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = lines.ReadSlice('\n')
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("%s, line %d: %w", name, v.at.number, err)
		}
	}
}

func (v *Verifier) add(text []byte) {
	l, intact := parse(text)
	if !intact {
		v.report(v.at, "%w: seq %d of node %q does not match its hash", ErrChanged, l.Seq, l.Node)
	}
	var c *Chain
	if i := slices.IndexFunc(v.Chains, func(known *Chain) bool { return known.Node == l.Node }); i >= 0 {
		c = v.Chains[i]
	}
	prev := digestOf(l.Prev)
	continues := c != nil && c.segments[len(c.segments)-1].continuedBy(v.at.file, l.Seq, prev)
	switch {
	case !intact && !continues:
		return // which line it was is unknown
	case c == nil:
		c = &Chain{Node: l.Node}
		v.Chains = append(v.Chains, c)
	}
	if !continues {
		c.segments = append(c.segments, &segment{place: v.at, first: l.Seq, prev: prev})
	}
	s := c.segments[len(c.segments)-1]
	s.lines = append(s.lines, entry{digestOf(l.Hash), v.at.number})
}

// digestOf decodes a hash. It is zero if the text has none.
func digestOf(text string) (d digest) {
	if raw, err := hex.DecodeString(text); err == nil {
		copy(d[:], raw)
	}
	return d
}

// last returns the seq of the last line.
func (s *segment) last() int64 { return s.first + int64(len(s.lines)) - 1 }

// continuedBy reports whether a line of a file is the next one of the segment.
func (s *segment) continuedBy(file int, seq int64, prev digest) bool {
	return s.file == file && seq == s.last()+1 && prev == s.lines[len(s.lines)-1].hash
}

func (v *Verifier) report(at place, format string, arguments ...any) {
	v.faults = append(v.faults, fault{at, fmt.Errorf("%s, line %d: "+format, append([]any{at.name, at.number}, arguments...)...)})
}

// Check returns the faults of all lines that were read, in the order of the files and their lines. It is called once.
func (v *Verifier) Check() (faults []error) {
	for _, c := range v.Chains {
		v.join(c)
	}
	slices.SortStableFunc(v.faults, func(a, b fault) int { return cmp.Or(a.file-b.file, a.number-b.number) })
	for _, f := range v.faults {
		faults = append(faults, f.err)
	}
	return faults
}

// join joins the segments of a chain. After a fault it goes on with the segment as if there were none, so that each fault is
// reported once.
func (v *Verifier) join(c *Chain) {
	slices.SortStableFunc(c.segments, func(a, b *segment) int { return cmp.Compare(a.first, b.first) })
	joined := *c.segments[0] // the lines since the last gap
	latest := joined.place   // of the segment that was joined last
	if c.First = joined.first; c.First == 1 && joined.prev != (digest{}) {
		v.report(latest, "%w: seq 1 of node %q has a line before it", ErrLink, c.Node)
	}
	c.Inside = !slices.ContainsFunc(c.segments, func(s *segment) bool { return s.first == c.First && !s.inside })
	for _, s := range c.segments[1:] {
		last := joined.last()
		if s.first <= last {
			known := joined.lines[s.first-joined.first:]
			both, same := min(len(known), len(s.lines)), 0
			for same < both && known[same].hash == s.lines[same].hash {
				same++
			}
			if c.Repeated += int64(same); same < both {
				at := place{file: s.file, name: s.name, number: s.lines[same].number}
				v.report(at, "%w: seq %d of node %q occurs twice, with different content", ErrLink, s.first+int64(same), c.Node)
			}
			joined.lines = append(joined.lines, s.lines[both:]...)
			continue
		}
		switch {
		case s.first > last+1:
			v.report(s.place, "%w after %d: the next line of node %q is %d", ErrGap, last, c.Node, s.first)
			joined = *s
		case !joined.continuedBy(joined.file, s.first, s.prev):
			v.report(s.place, "%w: seq %d of node %q does not continue %d", ErrLink, s.first, c.Node, last)
		case s.file == latest.file && s.number < latest.number:
			v.report(s.place, "%w: seq %d of node %q is before %d in the file", ErrLink, s.first, c.Node, last)
		}
		if latest = s.place; s.first == last+1 {
			joined.lines, s.lines = append(joined.lines, s.lines...), nil
		}
	}
	hash := joined.lines[len(joined.lines)-1].hash
	c.Last, c.Hash = joined.last(), hex.EncodeToString(hash[:])
}
