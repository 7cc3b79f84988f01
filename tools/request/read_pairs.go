package request

import (
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Pair is a name and value in a query, a form, a Cookie header or a matrix parameter.
type Pair struct {
	Name  string
	Value string // decoded; for a cookie, as received
	Taken bool   // whether a parameter has used the pair

	raw string // the value as received
}

// maxTextPairs is the maximum number of pairs in a query, a form or a Cookie header. Some servers ignore all
// further pairs (PHP, Node).
const maxTextPairs = 1000

// ParsePairs appends the pairs of a query or a URL-encoded form. A "+" is a space. A
// plain ";" is rejected, since some servers treat it as a separator and others do not.
// The error is a *ReadError.
func ParsePairs(dst []Pair, in In, text string) ([]Pair, error) {
	if strings.IndexByte(text, ';') >= 0 {
		return dst, &ReadError{Kind: Ambiguous, In: in, Problem: `has a plain ";", which some servers read as "&" and others as text: write it as %3B`}
	}
	for len(dst) < maxTextPairs {
		part, rest, more := strings.Cut(text, "&")
		if part != "" {
			name, value, _ := strings.Cut(part, "=")
			pair := Pair{Name: name, Value: value, raw: value}
			if strings.ContainsAny(part, "%+") {
				if err := pair.decode(); err != nil {
					return dst, &ReadError{Kind: Malformed, In: in, Name: name, Problem: "has a % that encodes nothing: write it as %25"}
				}
			}
			if !utf8.ValidString(pair.Name) || !utf8.ValidString(pair.Value) {
				return dst, &ReadError{Kind: Malformed, In: in, Name: name, Problem: problemText}
			}
			dst = append(dst, pair)
		}
		if !more {
			return dst, nil
		}
		text = rest
	}
	return dst, &ReadError{Kind: Malformed, In: in, Problem: fmt.Sprintf("has more than %d parameters", maxTextPairs)}
}

func (p *Pair) decode() (err error) {
	if p.Name, err = url.QueryUnescape(p.Name); err == nil {
		p.Value, err = url.QueryUnescape(p.Value)
	}
	return err
}

// ParseCookies appends the pairs of a Cookie header (RFC 6265, section 5.4). Text that
// is not a pair is ignored, as servers do.
func ParseCookies(dst []Pair, header string) ([]Pair, error) {
	for part := range strings.SplitSeq(header, ";") {
		name, value, ok := strings.Cut(strings.Trim(part, " \t"), "=")
		if !ok {
			continue
		}
		if len(dst) >= maxTextPairs {
			return dst, &ReadError{Kind: Malformed, In: Cookie, Problem: fmt.Sprintf("header has more than %d cookies", maxTextPairs)}
		}
		name, value = strings.Trim(name, " \t"), strings.Trim(value, " \t")
		dst = append(dst, Pair{Name: name, Value: value, raw: value})
	}
	return dst, nil
}

// ReadPairs is the inverse of Append for a query, a form, a cookie or a matrix
// parameter. It reads the parameter from the pairs that are not taken yet, marks those
// pairs as taken, and appends the JSON. For an absent parameter it appends nothing.
//
// An exploded object takes the pairs whose names its schema declares, so read it after
// all parameters that have names of their own. Repeated names are rejected unless the
// parameter is an exploded array, since servers differ in which pair they use.
func (s *Serializer) ReadPairs(dst []byte, pairs []Pair, shape Shape) ([]byte, error) {
	r := pairReader{s.reading(shape), pairs}
	return r.read(dst)
}

// A pairReader reads a parameter from the pairs of a query, a form, a Cookie header or a
// matrix parameter.
type pairReader struct {
	reading
	pairs []Pair
}

func (r *pairReader) read(dst []byte) ([]byte, error) {
	switch {
	case r.param.content:
		return r.readContent(dst)
	case r.param.layout.deep:
		return r.deep(dst)
	case r.param.explode && r.types&Object != 0 && r.types&(single|Array) == 0:
		return r.properties(dst)
	}
	if r.param.explode && r.types&Array != 0 {
		return r.exploded(dst)
	}
	pair, err := r.takeOne()
	if err != nil {
		return dst, err
	}
	switch {
	case pair == nil && r.param.explode && r.types&Object != 0:
		return r.properties(dst)
	case pair == nil:
		return dst, nil
	case r.param.in == Cookie:
		return r.cookie(dst, pair)
	case !r.param.explode && r.param.layout.delimiter == "," && r.types&Array != 0:
		// The items may be JSON. Split them before decoding, so that commas inside an item
		// are not separators.
		if items := typesOf(itemOf(r.shape)); items != 0 && items&single == 0 {
			return r.list(dst, pair.raw)
		}
	case r.param.explode:
		return r.appendSingle(dst, pair.Value)
	}
	return r.appendDivided(dst, pair.Value)
}

// list reads a list that is split before decoding.
func (r *pairReader) list(dst []byte, raw string) ([]byte, error) {
	items := strings.Split(raw, r.param.layout.delimiter)
	for i := range items {
		var err error
		if items[i], err = url.QueryUnescape(items[i]); err != nil {
			return dst, r.param.misread(Malformed, "has a % that encodes nothing: write it as %25")
		}
	}
	return r.appendItems(dst, items)
}

// takeOne takes the pair with the parameter's name and returns it, or nil if there is
// none. More than one such pair is an error.
func (r *pairReader) takeOne() (*Pair, error) {
	var found *Pair
	for i := range r.pairs {
		if p := &r.pairs[i]; !p.Taken && p.Name == r.param.name {
			if found != nil {
				return nil, r.param.misread(Duplicate, "is given more than once, and servers differ in which one they take: give it once")
			}
			found, p.Taken = p, true
		}
	}
	return found, nil
}

func (r *pairReader) readContent(dst []byte) ([]byte, error) {
	pair, err := r.takeOne()
	if pair == nil || err != nil {
		return dst, err
	}
	text := pair.Value
	if r.param.in == Cookie {
		if text, err = r.param.decode(text); err != nil {
			return dst, err
		}
	}
	return r.param.appendContent(dst, text)
}

// exploded reads the pairs of one name as the items of an array.
func (r *pairReader) exploded(dst []byte) ([]byte, error) {
	var onStack [8]string
	values := onStack[:0]
	for i := range r.pairs {
		p := &r.pairs[i]
		if p.Taken || p.Name != r.param.name {
			continue
		}
		p.Taken = true
		value, err := r.param.valueOf(p)
		if err != nil {
			return dst, err
		}
		values = append(values, value)
	}
	switch {
	case len(values) == 0:
		return dst, nil
	case len(values) == 1 && r.types&single != 0:
		return r.appendSingle(dst, values[0])
	}
	return r.appendItems(dst, values)
}

// properties reads the pairs that are properties of an exploded object.
func (r *pairReader) properties(dst []byte) ([]byte, error) {
	o := objectText{reading: r.reading, dst: append(dst, '{')}
	for i := range r.pairs {
		p := &r.pairs[i]
		if _, known := r.shape.Property(p.Name); p.Taken || !known || r.param.in == Cookie && p.Name == "" {
			continue
		}
		other := r.param.aliased(p.Name)
		if other == p.Name {
			continue // the pair belongs to the other parameter
		}
		if other != "" {
			return dst, r.param.misread(Ambiguous, fmt.Sprintf("would have a property %s, which some servers read as the parameter %q", quote(p.Name), other))
		}
		value, err := r.param.valueOf(p)
		if err != nil {
			return dst, err
		}
		p.Taken = true
		if r.param.layout.repeats() {
			err = o.addPairs(p.Name, value, r.pairs[i+1:])
		} else {
			err = o.add(p.Name, value)
		}
		if err != nil {
			return dst, err
		}
	}
	if len(o.names) == 0 {
		return dst, nil
	}
	return append(o.dst, '}'), nil
}

// cookie reads a cookie that is not exploded.
func (r *pairReader) cookie(dst []byte, pair *Pair) ([]byte, error) {
	if !r.param.explode && r.types&nested != 0 {
		return r.appendParts(dst, strings.Split(pair.raw, r.param.layout.delimiter))
	}
	text, err := r.param.valueOf(pair)
	if err != nil {
		return dst, err
	}
	return r.appendSingle(dst, text)
}

// valueOf returns the decoded value of a pair.
func (s *Serializer) valueOf(p *Pair) (string, error) {
	if s.in != Cookie {
		return p.Value, nil
	}
	if strings.IndexByte(p.Value, '"') >= 0 {
		return "", s.misread(Ambiguous, "has a quote, which some servers take off a cookie and others do not: write it as %22")
	}
	return s.decode(p.Value)
}

// aliased returns the other parameter that some servers would read the name as, or "".
func (s *Serializer) aliased(name string) string {
	if len(s.reserved) == 0 {
		return ""
	}
	whole, stem := Alias(name), Alias(Stem(name))
	for _, other := range s.reserved {
		if alias := Alias(other); other != s.name && (alias == whole || alias == stem) {
			return other
		}
	}
	return ""
}

// Alias returns a folded form of a name. Servers may treat names with the same Alias as
// one parameter: some ignore case and surrounding space, read a dot or a space as an
// underscore (PHP), or treat trip_id and tripId alike (gRPC gateways).
func Alias(name string) string {
	name, _, _ = strings.Cut(name, "\x00")
	return strings.Map(func(r rune) rune {
		switch r {
		case '.', '_', '-', ' ', '\t', '\r', '\n':
			return -1
		}
		return Fold(r)
	}, name)
}

// Stem returns a name without its trailing brackets. Many servers read name[…] as part
// of an array or object called name.
func Stem(name string) string {
	if i := strings.IndexByte(name, '['); i > 0 {
		return name[:i]
	}
	return name
}

// Fold returns one representative for all characters that some server treats as equal
// when it ignores case.
func Fold(r rune) rune {
	switch {
	case 'a' <= r && r <= 'z':
		return r
	case 'A' <= r && r <= 'Z':
		return r + ('a' - 'A')
	case r < unicode.MaxASCII:
		return r
	}
	return unicode.ToLower(unicode.ToUpper(r))
}
