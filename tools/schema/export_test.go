package schema

// AppendWhole appends the schema together with its $defs, as a self-contained object.
func (t *Translator) AppendWhole(dst []byte, s *Schema) []byte {
	t.round++
	p := printer{dst: dst, layout: t.layouts[0], round: t.round}
	p.schema(s)
	p.attachDefs()
	return p.dst
}

// IsPortable is isPortable.
var IsPortable = isPortable
