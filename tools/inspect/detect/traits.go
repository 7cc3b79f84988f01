package detect

import (
	"strings"
	"unicode/utf8"
)

// traits say what may be in a text. One loop over its bytes determines them, so that detectors need not read texts in which
// there is nothing for them.
type traits uint8

const (
	hasKeyword traits = 1 << iota // the beginning of a keyword of secrets
	hasAt                         // @ or %, or a byte of a character that a reader may take for another
	hasDigits                     // minDigits or more
	hasEscape                     // a \ of JSON: the text must be decoded first
	anyTrait   = ^traits(0)
)

// minDigits is the number of digits of the shortest entity of PII, a telephone number.
const minDigits = 7

// weights add up to the traits of a text: the lower half counts digits, the upper half @ and %, and with specialWeight & and all that
// is not printable ASCII. The bytes that end a scan have stopWeight.
var weights = func() (table [256]uint64) {
	for c := range table {
		if c == '&' || c >= utf8.RuneSelf || isControl(rune(c)) {
			table[c] = specialWeight
		}
	}
	for _, c := range []byte(digits) {
		table[c] = 1
	}
	table['@'], table['%'] = 1<<32, 1<<32
	table['"'], table['\\'] = stopWeight, stopWeight
	return table
}()

const (
	specialWeight = 1 << 40
	stopWeight    = 1 << 63
)

// A keywordFilter is a set of hashes of three bytes, with false positives.
type keywordFilter [1 << (hashBits - 6)]uint64

const hashBits = 15

// noKeywords is the filter of searches without secrets.
var noKeywords keywordFilter

// rolled adds a byte to a hash. It depends on the last three bytes.
func rolled(hash uint32, c byte) uint32 { return (hash<<(hashBits/3) ^ uint32(c)) & (1<<hashBits - 1) }

func (f *keywordFilter) add(start string) {
	hash := rolled(rolled(rolled(0, start[0]), start[1]), start[2])
	f[hash>>6] |= 1 << (hash & 63)
}

// scan determines the traits of a string of JSON whose content begins at i. It stops at the quotation mark that ends the string, or
// at the first escape.
func (f *keywordFilter) scan(source []byte, i int) (end int, t traits) {
	var hash uint32
	var sum, found uint64
	for ; i < len(source); i++ {
		c := source[i]
		weight := weights[c]
		if int64(weight) < 0 {
			if c == '\\' {
				t = hasEscape
			}
			break
		}
		sum += weight
		hash = rolled(hash, c)
		found |= f[hash>>6] >> (hash & 63)
	}
	return i, t | traitsOf(sum, found)
}

// traits determines the traits of a decoded text.
func (f *keywordFilter) traits(text []byte) (all traits) {
	for i := 0; ; i++ {
		end, t := f.scan(text, i)
		all |= t
		if end >= len(text) {
			return all
		}
		i = end
	}
}

func traitsOf(sum, found uint64) (t traits) {
	if found&1 != 0 {
		t = hasKeyword
	}
	if sum>>32 != 0 {
		t |= hasAt
	}
	if sum&(1<<32-1) >= minDigits {
		t |= hasDigits
	}
	return t
}

// A nameKind says what the name of a member tells about its value.
type nameKind uint8

const (
	secretName nameKind = 1 << iota
	phoneName
	ssnName
	cursorName // an opaque position
)

// nameEnds are the ends of names of members by kind, in lower case without - and _.
var nameEnds = [...]struct {
	kind nameKind
	ends []string
}{
	{secretName, []string{
		"password", "passwd", "secret", "apikey", "accesstoken", "refreshtoken", "authtoken", "sessiontoken", "privatekey", "secretkey",
		"accesskey",
	}},
	{phoneName, []string{"fax", "telnumber"}},
	{ssnName, []string{"ssn", "socialsecuritynumber", "taxid"}},
	{cursorName, []string{"cursor", "requeststate", "pagetoken", "continuationtoken", "synctoken", "deltatoken"}},
}

// kindOf returns the kind of the name of a member.
func kindOf(name []byte) (kind nameKind) {
	memory := make([]byte, 0, 32)
	for _, c := range name {
		switch {
		case c >= 'A' && c <= 'Z':
			memory = append(memory, c+'a'-'A')
		case c != '_' && c != '-' && c != ' ':
			memory = append(memory, c)
		}
	}
	lower := string(memory)
	for _, n := range nameEnds {
		for _, end := range n.ends {
			if strings.HasSuffix(lower, end) {
				kind |= n.kind
			}
		}
	}
	if lower == "tel" || strings.Contains(lower, "phone") || strings.Contains(lower, "mobile") {
		kind |= phoneName
	}
	return kind
}
