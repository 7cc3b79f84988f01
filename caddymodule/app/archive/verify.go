package archive

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// Errors of Verifier.Read. They are wrapped with the file and the line.
var (
	ErrGap     = errors.New("gap")            // lines are missing
	ErrChanged = errors.New("changed line")   // the content of a line does not match its hash
	ErrLink    = errors.New("wrong previous") // a line does not continue the line before it
)

// maxLine is the maximum size of a line in bytes.
const maxLine = 1 << 20

// Verifier checks the lines of an archive, in the order of its files. The zero value is ready to use.
type Verifier struct {
	Chains []*Chain // in the order of their first lines

	inside bool // a line of the file was read
}

// Chain is what a Verifier has seen of the chain of a node.
type Chain struct {
	Node        string
	First, Last int64  // numbers of lines
	Hash        string // of the last line
	Repeated    int64  // lines that were delivered again
	Inside      bool   // the chain begins after lines of other nodes in a file, where anyone who can write the file can put it

	hashes []string // of the lines from First
}

// Read checks the lines of a file. The error is the first one; all chains can be used afterwards.
func (v *Verifier) Read(name string, r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	number := 0
	v.inside = false
	for lines.Scan() {
		if number++; len(lines.Bytes()) == 0 {
			continue
		}
		if err := v.add(lines.Bytes()); err != nil {
			return fmt.Errorf("%s, line %d: %w", name, number, err)
		}
		v.inside = true
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s, line %d: %w", name, number+1, err)
	}
	return nil
}

func (v *Verifier) add(text []byte) error {
	l, intact := parse(text)
	if !intact {
		return fmt.Errorf("%w: seq %d of node %q does not match its hash", ErrChanged, l.Seq, l.Node)
	}
	var c *Chain
	for _, known := range v.Chains {
		if known.Node == l.Node {
			c = known
		}
	}
	if c == nil {
		c = &Chain{Node: l.Node, First: l.Seq, Last: l.Seq - 1, Hash: l.Prev, Inside: v.inside}
		if l.Seq == 1 && l.Prev != "" {
			return fmt.Errorf("%w: seq 1 of node %q has a line before it", ErrLink, l.Node)
		}
		v.Chains = append(v.Chains, c)
	}
	switch {
	case l.Seq > c.Last+1:
		return fmt.Errorf("%w after %d: the next line of node %q is %d", ErrGap, c.Last, l.Node, l.Seq)
	case l.Seq < c.First:
		return fmt.Errorf("%w: seq %d of node %q is after %d; give the files in the order of their dates", ErrLink, l.Seq, l.Node, c.Last)
	case l.Seq <= c.Last && c.hashes[l.Seq-c.First] == l.Hash:
		c.Repeated++
		return nil
	case l.Seq <= c.Last:
		return fmt.Errorf("%w: seq %d of node %q occurs twice, with different content", ErrLink, l.Seq, l.Node)
	case l.Prev != c.Hash:
		return fmt.Errorf("%w: seq %d of node %q does not continue %d", ErrLink, l.Seq, l.Node, c.Last)
	}
	c.Last, c.Hash, c.hashes = l.Seq, l.Hash, append(c.hashes, l.Hash)
	return nil
}
