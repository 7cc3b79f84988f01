package style

// A layout is one row of the style table, as an RFC 6570 operator: the text before,
// between and around values.
type layout struct {
	first     string // before the first part
	between   string // between exploded items and properties
	delimiter string // between the items of one value
	named     bool   // values are written as name=value
	bareEmpty bool   // an empty value is written without "="
	deep      bool   // arrays and objects are pairs with the path in brackets as name

	// reads is the delimiter after percent-decoding, for styles where an encoded
	// delimiter looks like an encoded character of an item; 0 for the others.
	reads byte
}

// layoutOf returns the layout of a style in a part of the request, or false if OpenAPI
// defines none.
//
// OpenAPI leaves three cases undefined that documents use. They get the meaning that
// tools agree on:
//
//   - A primitive in a delimited style or deepObject is written as name=value.
//   - Exploded spaceDelimited and pipeDelimited are written as exploded form.
//   - Unexploded deepObject is written as deepObject.
func layoutOf(in In, style Style) (layout, bool) {
	switch in {
	case Path:
		switch style {
		case Simple:
			return layout{between: ",", delimiter: ","}, true
		case Label:
			return layout{first: ".", between: ".", delimiter: ","}, true
		case Matrix:
			return layout{first: ";", between: ";", delimiter: ",", named: true, bareEmpty: true}, true
		}
	case Header:
		if style == Simple {
			return layout{between: ",", delimiter: ","}, true
		}
	case Cookie:
		// RFC 6570 would join the pairs of an exploded value by "&" inside one cookie,
		// which no server splits again. Servers read separate cookies, as in the style
		// "cookie" of OpenAPI 3.2.
		if style == Form {
			return layout{between: "; ", delimiter: ",", named: true}, true
		}
	case Query, Body:
		switch style {
		case Form:
			return layout{between: "&", delimiter: ",", named: true}, true
		case SpaceDelimited:
			return layout{between: "&", delimiter: "%20", named: true, reads: ' '}, true
		case PipeDelimited:
			return layout{between: "&", delimiter: "%7C", named: true, reads: '|'}, true
		case DeepObject:
			return layout{between: "&", named: true, deep: true}, true
		}
	}
	return layout{}, false
}
