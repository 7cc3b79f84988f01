package style

import "strings"

// A layout is one row of the style table, as an RFC 6570 operator: what stands
// before, between and around values.
type layout struct {
	first     string // before the first part
	between   string // between exploded items and properties
	delimiter string // between the items of one value
	named     bool   // a value follows name=
	bareEmpty bool   // an empty value leaves "=" away too
	deep      bool   // arrays and objects are pairs named by their path in brackets

	// reads is the delimiter after percent-decoding, where an encoded delimiter
	// cannot be told from an encoded character of an item; 0 elsewhere.
	reads byte
}

// layoutOf returns the layout of a style in a place, false where OpenAPI
// defines none.
//
// Three cells which OpenAPI leaves undefined are used by documents and get the
// meaning that tools agree on: a primitive in a delimited style or deepObject
// is name=value, exploded spaceDelimited and pipeDelimited are exploded form,
// and unexploded deepObject is deepObject.
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
		// RFC 6570 would join the pairs of an exploded value by "&" inside one
		// cookie, which no server takes apart. Separate cookies, as style
		// "cookie" of OpenAPI 3.2 has them, are what servers read.
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

// isJSON reports whether a media type is JSON, parameters aside.
func isJSON(mediaType string) bool {
	mediaType, _, _ = strings.Cut(mediaType, ";")
	mediaType = strings.ToLower(strings.TrimSpace(mediaType))
	return mediaType == "application/json" || mediaType == "text/json" || strings.HasSuffix(mediaType, "+json")
}
