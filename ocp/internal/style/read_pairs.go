package style

import (
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"
)

// A Pair is a name and value in a query, a form, a Cookie header or a matrix parameter.
type Pair struct {
	Name  string
	Value string // decoded; for a cookie, as received
	Taken bool   // whether a parameter has used the pair

	raw string // the value as received
}

// MaxPairs is the maximum number of pairs in a query, a form or a Cookie header.
const MaxPairs = 4096

// ParsePairs appends the pairs of a query or a URL-encoded form. A "+" is a space. A
// plain ";" is rejected, since some servers treat it as a separator and others do not.
// The error is a *ReadError.
func ParsePairs(dst []Pair, in In, text string) ([]Pair, error) {
	if strings.IndexByte(text, ';') >= 0 {
		return dst, &ReadError{Kind: Ambiguous, In: in, Problem: `has a plain ";", which some servers read as "&" and others as text: write it as %3B`}
	}
	for len(dst) < MaxPairs {
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
	return dst, &ReadError{Kind: Malformed, In: in, Problem: fmt.Sprintf("has more than %d parameters", MaxPairs)}
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
		if len(dst) >= MaxPairs {
			return dst, &ReadError{Kind: Malformed, In: Cookie, Problem: fmt.Sprintf("header has more than %d cookies", MaxPairs)}
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
	types := typesOf(shape)
	switch {
	case s.content:
		return s.readContent(dst, pairs)
	case s.layout.deep:
		return s.readDeep(dst, pairs, shape)
	case s.explode && types&Object != 0 && types&(single|Array) == 0:
		return s.readProperties(dst, pairs, shape)
	}
	if s.explode && types&Array != 0 {
		return s.readExploded(dst, pairs, shape)
	}
	pair, err := s.takeOne(pairs)
	if err != nil {
		return dst, err
	}
	switch {
	case pair == nil && s.explode && types&Object != 0:
		return s.readProperties(dst, pairs, shape)
	case pair == nil:
		return dst, nil
	case s.in == Cookie:
		return s.readCookie(dst, pair, shape)
	case !s.explode && s.layout.delimiter == "," && types&Array != 0:
		// The items may be JSON. Split them before decoding, so that commas inside an item
		// are not separators.
		if items := typesOf(itemOf(shape)); items != 0 && items&single == 0 {
			return s.readRaw(dst, pair.raw, shape)
		}
	case s.explode:
		return s.readSingle(dst, pair.Value, types&^nested)
	}
	return s.divide(dst, pair.Value, shape)
}

// readRaw reads a list that is split before decoding.
func (s *Serializer) readRaw(dst []byte, raw string, shape Shape) ([]byte, error) {
	items := strings.Split(raw, s.layout.delimiter)
	for i := range items {
		var err error
		if items[i], err = url.QueryUnescape(items[i]); err != nil {
			return dst, s.misread(Malformed, "has a % that encodes nothing: write it as %25")
		}
	}
	return s.appendItems(dst, items, shape)
}

// takeOne takes the pair with the parameter's name and returns it, or nil if there is
// none. More than one such pair is an error.
func (s *Serializer) takeOne(pairs []Pair) (*Pair, error) {
	var found *Pair
	for i := range pairs {
		if p := &pairs[i]; !p.Taken && p.Name == s.name {
			if found != nil {
				return nil, s.misread(Duplicate, "is given more than once, and servers differ in which one they take: give it once")
			}
			found, p.Taken = p, true
		}
	}
	return found, nil
}

func (s *Serializer) readContent(dst []byte, pairs []Pair) ([]byte, error) {
	pair, err := s.takeOne(pairs)
	if pair == nil || err != nil {
		return dst, err
	}
	text := pair.Value
	if s.in == Cookie {
		if text, err = s.decode(text); err != nil {
			return dst, err
		}
	}
	return s.appendContent(dst, text)
}

// readExploded reads the pairs of one name as the items of an array.
func (s *Serializer) readExploded(dst []byte, pairs []Pair, shape Shape) ([]byte, error) {
	var onStack [8]string
	values := onStack[:0]
	for i := range pairs {
		p := &pairs[i]
		if p.Taken || p.Name != s.name {
			continue
		}
		p.Taken = true
		value, err := s.valueOf(p)
		if err != nil {
			return dst, err
		}
		values = append(values, value)
	}
	types := typesOf(shape)
	switch {
	case len(values) == 0:
		return dst, nil
	case len(values) == 1 && types&single != 0:
		return s.readSingle(dst, values[0], types&^nested)
	}
	return s.appendItems(dst, values, shape)
}

// readProperties reads the pairs that are properties of an exploded object.
func (s *Serializer) readProperties(dst []byte, pairs []Pair, shape Shape) ([]byte, error) {
	o := object{Serializer: s, dst: append(dst, '{'), shape: shape}
	for i := range pairs {
		p := &pairs[i]
		if _, known := shape.Property(p.Name); p.Taken || !known || s.in == Cookie && p.Name == "" {
			continue
		}
		other := s.aliased(p.Name)
		if other == p.Name {
			continue // the pair belongs to the other parameter
		}
		if other != "" {
			return dst, s.misread(Ambiguous, fmt.Sprintf("would have a property %s, which some servers read as the parameter %q", quote(p.Name), other))
		}
		value, err := s.valueOf(p)
		if err != nil {
			return dst, err
		}
		p.Taken = true
		if err := o.add(p.Name, value); err != nil {
			return dst, err
		}
	}
	if len(o.names) == 0 {
		return dst, nil
	}
	return append(o.dst, '}'), nil
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

// readCookie reads a cookie that is not exploded.
func (s *Serializer) readCookie(dst []byte, pair *Pair, shape Shape) ([]byte, error) {
	types := typesOf(shape)
	if !s.explode && types&nested != 0 {
		return s.readParts(dst, strings.Split(pair.raw, s.layout.delimiter), shape)
	}
	text, err := s.valueOf(pair)
	if err != nil {
		return dst, err
	}
	return s.readSingle(dst, text, types&^nested)
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
