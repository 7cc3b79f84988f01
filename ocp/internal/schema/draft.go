package schema

import (
	"bytes"
	"slices"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp/internal/openapi"
)

// draft is the text of one component while it is written: JSON, with holes where other
// components belong.
type draft struct {
	dst     []byte
	holes   []hole
	choices []choice
	about   span
	depth   int  // nesting of the schema that is being written; the component itself is 1
	lost    bool // something was left out, so the output accepts more
	arm     bool // the outermost schema distinguishes values only by format
}

// clear empties the draft and keeps its buffers.
func (d *draft) clear() {
	*d = draft{dst: d.dst[:0], holes: d.holes[:0], choices: d.choices[:0]}
}

// copyTo copies the finished text to c.
func (d *draft) copyTo(c *component) {
	c.text = bytes.Clone(d.dst)
	c.holes = slices.Clone(d.holes)
	c.choices = slices.Clone(d.choices)
	c.about = d.about
	c.loose = d.lost || d.arm
}

// hole leaves a place for another component.
func (d *draft) hole(to *component, f form, r reach) {
	d.holes = append(d.holes, hole{at: len(d.dst), to: to, form: f, reach: r})
}

func (d *draft) text(s string) {
	d.dst = append(d.dst, s...)
}

// member begins a member of an object. The name must not need escaping.
func (d *draft) member(name string) {
	d.comma()
	d.dst = append(d.dst, '"')
	d.dst = append(d.dst, name...)
	d.dst = append(d.dst, '"', ':')
}

func (d *draft) comma() {
	if d.dst[len(d.dst)-1] != '{' {
		d.dst = append(d.dst, ',')
	}
}

// named begins a member of an object, with any name.
func (d *draft) named(name string) {
	d.comma()
	d.dst = wire.AppendString(d.dst, name)
	d.dst = append(d.dst, ':')
}

func (d *draft) quote(s string) {
	d.dst = append(d.dst, '"')
	d.dst = append(d.dst, s...)
	d.dst = append(d.dst, '"')
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

// mark is a position of a draft, used to discard the output after it.
type mark struct {
	dst, holes, choices int
	lost                bool
}

func (d *draft) mark() mark {
	m := mark{len(d.dst), len(d.holes), len(d.choices), d.lost}
	d.lost = false
	return m
}

// loosened ends the part that began at m and reports whether anything in it was left out.
func (d *draft) loosened(m mark) bool {
	lost := d.lost
	d.lost = lost || m.lost
	return lost
}

func (d *draft) takeBack(m mark) {
	d.dst, d.holes, d.choices = d.dst[:m.dst], d.holes[:m.holes], d.choices[:m.choices]
}
