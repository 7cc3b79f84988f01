package schema

import (
	"bytes"
	"slices"

	"github.com/fairwayhq/fairway/tools/openapi"
)

// draft is the text of one component while it is written: JSON, with holes where other
// components belong.
type draft struct {
	dst   []byte
	holes []hole
	about span
	part  string // the name of the component, for warnings
	depth int    // nesting of the schema that is being written; the component itself is 1
	lost  bool   // the output accepts more than the document says
}

// clear empties the draft and keeps its buffers.
func (d *draft) clear() {
	*d = draft{dst: d.dst[:0], holes: d.holes[:0]}
}

// copyTo copies the finished text to c.
func (d *draft) copyTo(c *component) {
	c.text = bytes.Clone(d.dst)
	c.holes = slices.Clone(d.holes)
	c.about = d.about
	c.loose = d.lost
}

// hole leaves a place for another component.
func (d *draft) hole(to *component, f translatedForm, r reach) {
	d.holes = append(d.holes, hole{at: len(d.dst), to: to, form: f, reach: r})
}

func (d *draft) text(s string) {
	d.dst = append(d.dst, s...)
}

// member begins a member of an object.
func (d *draft) member(name string) {
	d.dst = appendName(d.dst, name)
}

func (d *draft) value(n *openapi.Node) {
	d.dst = n.AppendJSON(d.dst)
}

// keep appends m unchanged if its value is valid.
func (d *draft) keep(m openapi.Member, valid bool) {
	if valid {
		d.member(m.Name)
		d.value(m.Value)
	}
}

// judge appends m if its value is valid. Otherwise it records that the output accepts more
// than the document means.
func (d *draft) judge(m openapi.Member, valid bool) {
	d.lost = d.lost || !valid
	d.keep(m, valid)
}

// completely calls write, and reports whether the output accepts no more than the document says. What write has
// appended is discarded otherwise.
func (d *draft) completely(write func()) bool {
	before := *d
	d.lost = false
	write()
	complete := !d.lost
	d.lost = d.lost || before.lost
	if !complete {
		d.dst, d.holes = d.dst[:len(before.dst)], d.holes[:len(before.holes)]
	}
	return complete
}
