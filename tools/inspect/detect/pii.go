package detect

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Entities of personal data that PII finds.
const (
	Email = "email" // name@example.com, also with %40
	Phone = "phone" // +49 30 1234567, (212) 555-0123, 030 1234567; any digits in members that are named phone, mobile, fax or tel
	IBAN  = "iban"  // of a country of the registry, with valid check digits (ISO 13616)
	Card  = "card"  // payment cards with the prefix and length of a known network, and a valid check digit (Luhn)
	SSN   = "ssn"   // United States: 123-45-6789; without hyphens in members that are named ssn
)

// Entities are all entities.
var Entities = [...]string{Email, Phone, IBAN, Card, SSN}

// A Pattern is an entity of the operator.
type Pattern struct {
	Label      string
	Expression *regexp.Regexp // must not match the empty text
}

// PII returns the detector of personal data. It finds the given entities, all if there are none, and the patterns.
//
// One pass over a text looks for @ and for digits. Everything else happens around these. Patterns are expressions that run
// on each text, unless they begin with a literal that the text does not contain.
func PII(entities []string, patterns []Pattern) (detector, error) {
	for _, e := range entities {
		if !slices.Contains(Entities[:], e) {
			return nil, fmt.Errorf("unknown entity %q; known are %s", e, strings.Join(Entities[:], ", "))
		}
	}
	finds := func(e string) bool { return len(entities) == 0 || slices.Contains(entities, e) }
	p := &pii{iban: finds(IBAN), card: finds(Card), ssn: finds(SSN), phone: finds(Phone), patterns: patterns}
	for _, own := range patterns {
		if own.Expression.MatchString("") {
			return nil, fmt.Errorf("pattern %s matches the empty text, and would match everywhere", own.Label)
		}
	}
	if finds(Email) {
		p.traits, p.begins['@'], p.begins['%'] = hasAt, true, true
	}
	if p.iban || p.card || p.ssn || p.phone {
		p.traits |= hasDigits
		for _, c := range []byte(digits) {
			p.begins[c] = true
		}
	}
	return p, nil
}

type pii struct {
	iban, card, ssn, phone bool
	traits                 traits    // of texts in which something may be
	begins                 [256]bool // bytes at which something may begin
	patterns               []Pattern
}

// wants implements Detector.
func (p *pii) wants(t traits, _ nameKind) bool { return t&p.traits != 0 || len(p.patterns) > 0 }

// find implements Detector.
func (p *pii) find(hits []hit, name nameKind, text []byte) []hit {
	for i := 0; i < len(text); i++ {
		if !p.begins[text[i]] {
			continue
		}
		free := 0 // where the last hit ends
		if len(hits) > 0 {
			free = hits[len(hits)-1].End
		}
		var h hit
		var ok bool
		next := i
		if isDigit[text[i]] {
			if i > 0 && isWord[text[i-1]] && name == 0 && (i == 1 || !isLetter[text[i-1]] || !isLetter[text[i-2]]) {
				continue // inside of a word, which is no IBAN
			}
			h, next, ok = p.number(name, text, i, free)
		} else {
			h, ok = findEmail(text, i, free)
		}
		if ok {
			hits, next = append(hits, h), h.End-1
		}
		i = max(i, next)
	}
	for _, own := range p.patterns {
		hits = own.find(hits, text)
	}
	return hits
}

// find appends the hits of a pattern that overlap with no other.
func (p *Pattern) find(hits []hit, text []byte) []hit {
	if prefix, _ := p.Expression.LiteralPrefix(); prefix != "" && !bytes.Contains(text, []byte(prefix)) {
		return hits
	}
	found := len(hits)
	for _, at := range p.Expression.FindAllIndex(text, -1) {
		h := hit{Start: at[0], End: at[1], Label: p.Label}
		if h.Start < h.End && !slices.ContainsFunc(hits, func(o hit) bool { return h.Start < o.End && o.Start < h.End }) {
			hits = append(hits, h)
		}
	}
	if len(hits) > found {
		slices.SortFunc(hits, func(a, b hit) int { return a.Start - b.Start })
	}
	return hits
}

var (
	isLocal  = tableOf(digits + letters + "._+-'~!#$&*")
	isDomain = tableOf(digits + letters + "-.")

	// quotedLocal matches a quoted local part (RFC 5321, section 4.1.2).
	quotedLocal = regexp.MustCompile(`"\w(?:[^"\\\n]|\\.)*\w"$`)
)

// Bounds of an e-mail address (RFC 5321, section 4.5.3.1).
const (
	maxLocal = 64
	maxHost  = 255
)

// findEmail returns the e-mail address whose @, or %40, is at a position.
func findEmail(text []byte, at, free int) (h hit, ok bool) {
	after := at + 1
	if text[at] == '%' {
		if after = at + 3; after > len(text) || text[at+1] != '4' || text[at+2] != '0' {
			return h, false
		}
	}
	start := at
	for start > max(free, at-maxLocal) && (isLocal[text[start-1]] || text[start-1] >= 0x80) {
		start--
	}
	if start == at && at > free && text[at-1] == '"' {
		start -= len(quotedLocal.Find(text[max(free, at-maxLocal):at]))
	}
	end := after
	for end < min(len(text), after+maxHost) && (isDomain[text[end]] || text[end] >= 0x80) {
		end++
	}
	for end > after && !isLetter[text[end-1]] && !isDigit[text[end-1]] && text[end-1] < 0x80 {
		end--
	}
	host := text[after:end]
	dot := bytes.LastIndexByte(host, '.')
	if start == at || string(text[start:at]) == "git" || dot < 1 || string(host[dot:]) == ".invalid" || len(host)-dot < 3 || !isLetter[host[dot+1]] && host[dot+1] < 0x80 {
		return h, false
	}
	return hit{Start: start, End: end, Label: Email, Whole: "masked@email.invalid"}, true
}

const maxNumber = 48 // characters of a number with its separators

var isSeparator = tableOf(" -./()")

// number looks for an entity that begins at a digit. Next is the last position that was read.
func (p *pii) number(name nameKind, text []byte, at, free int) (h hit, next int, ok bool) {
	if at >= free+2 {
		end, valid := findIBAN(text, at-2)
		if valid && p.iban {
			return hit{Start: at - 2, End: end, Label: IBAN}, at, true
		}
		if end > 0 {
			return h, end - 1, false // its groups are no telephone number
		}
	}
	run := at
	for run < len(text) && isDigit[text[run]] {
		run++
	}
	if name&(phoneName|ssnName) != 0 {
		// whatever the form
	} else if at > 0 && (isWord[text[at-1]] || text[at-1] == '.' || text[at-1] == '-' && at > 1 && isWord[text[at-2]]) {
		return h, run, false // inside of an identifier or a number
	}
	r := digitRun{text: text, start: at, name: name, free: free}
	if r.read(); r.count < minDigits {
		return h, run - 1, false
	}
	if r.end < len(text) && text[r.end]|0x20 == 'e' && exponential.Match(text[at:]) {
		form := exponential.Find(text[at:])
		value, _ := strconv.ParseFloat(string(form), 64)
		h, _, ok = p.number(name, strconv.AppendFloat(nil, value, 'f', -1, 64), 0, 0)
		h.Start, h.End = at, at+len(form)
		return h, h.End - 1, ok
	}
	switch {
	case p.card && r.isCard():
		h.Label = Card
	case p.ssn && r.isSSN():
		h.Label = SSN
	case p.phone && r.isPhone():
		h.Label = Phone
	case r.isInFours():
		return h, r.end - 1, false // its groups are no telephone number
	default:
		return h, run - 1, false
	}
	h.Start, h.End = r.start, r.end
	return h, run, true
}

// exponential matches a number with an exponent: 4.1E15.
var exponential = regexp.MustCompile(`^\d+(?:\.\d+)?[eE][+-]?\d{1,2}\b`)

// A digitRun is a number with separators: groups of digits.
type digitRun struct {
	text       []byte
	start, end int      // start may move to a sign before the number
	name       nameKind // of the member
	free       int      // where the last hit ends
	count      int      // of digits
	memory     [maxNumber]byte
}

// read sets the digits from start on, over single separators, and their end.
func (r *digitRun) read() {
	r.end = r.start
	for i := r.start; i < len(r.text) && i-r.start < maxNumber; i++ {
		switch c := r.text[i]; {
		case isDigit[c]:
			r.memory[r.count] = c
			r.count, r.end = r.count+1, i+1
		case i-r.end >= 2 || !isSeparator[c]:
			return
		}
	}
}

// isOpen reports whether the number goes on with something that makes it another one.
func (r *digitRun) isOpen() bool {
	return r.end < len(r.text) && (isWord[r.text[r.end]] || r.text[r.end] == '-' && r.end+1 < len(r.text) && isWord[r.text[r.end+1]])
}

// written returns the number as it is written.
func (r *digitRun) written() []byte { return r.text[r.start:r.end] }

// networks are the prefixes of payment cards, from the lowest to the highest, with the numbers of digits (ISO/IEC 7812).
var networks = [...]struct {
	low, high string
	lengths   []int
}{
	{"4", "4", []int{13, 16, 19}},                        // Visa
	{"51", "55", []int{16}}, {"2221", "2720", []int{16}}, // Mastercard
	{"34", "34", []int{15}}, {"37", "37", []int{15}}, // American Express
	{"6011", "6011", []int{16, 19}}, {"644", "659", []int{16, 19}}, // Discover
	{"300", "305", []int{14}}, {"36", "36", []int{14, 16}}, {"38", "39", []int{14}}, // Diners
	{"3528", "3589", []int{16, 19}}, {"62", "62", []int{16, 17, 18, 19}}, // JCB, UnionPay
	{"50", "50", []int{16, 18, 19}}, {"56", "58", []int{16, 18, 19}}, {"63", "63", []int{16, 18, 19}}, {"67", "67", []int{16, 18, 19}}, // Maestro
}

func (r *digitRun) isCard() bool {
	if r.count < 13 || r.isOpen() {
		return r.shorterCard()
	}
	w := r.written() // a decimal number has one dot, or groups of three digits
	if bytes.ContainsAny(w, "/()") || bytes.IndexByte(w, '.') >= 0 && (isDigit[w[4]] || bytes.Count(w, []byte(".")) < 2) || !isCardNumber(r.memory[:r.count]) {
		return r.shorterCard()
	}
	return true
}

// shorterCard looks for a card that other digits follow: "4111 1111 1111 1111 12/27".
func (r *digitRun) shorterCard() bool {
	if r.count < 14 {
		return false
	}
	count := 0
	for i := r.start; i < r.end; i++ {
		c := r.text[i]
		if c == '.' || c == '/' || c == '(' || c == ')' {
			return false
		}
		if !isDigit[c] {
			continue
		}
		if count++; count >= 13 && count < r.count && !isDigit[r.text[i+1]] && isCardNumber(r.memory[:count]) {
			r.end = i + 1
			return true
		}
	}
	return false
}

// isInFours reports whether the number is written like that of a card: in groups of four, but for the last.
func (r *digitRun) isInFours() bool {
	w := r.written()
	for i := range w {
		if isDigit[w[i]] != (i%5 != 4) {
			return false
		}
	}
	return r.count > 12
}

func isCardNumber(number []byte) bool {
	known := false
	for _, n := range networks {
		prefix := string(number[:len(n.low)])
		known = known || prefix >= n.low && prefix <= n.high && slices.Contains(n.lengths, len(number))
	}
	if !known {
		return false
	}
	sum := 0
	for i := range number { // Luhn, from the last digit on
		d := int(number[len(number)-1-i] - '0')
		if i%2 == 1 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return sum%10 == 0
}

func (r *digitRun) isSSN() bool {
	const length = len("123-45-6789")
	switch w := r.written(); {
	case len(w) == 9 && r.name&ssnName != 0:
	case len(w) == length && w[3] == w[6] && (w[3] == '-' || w[3] == ' '):
	default:
		return false
	}
	if r.count != 9 || r.isOpen() {
		return false
	}
	area, group, serial := string(r.memory[:3]), string(r.memory[3:5]), string(r.memory[5:9])
	return area != "000" && area != "666" && area < "900" && group != "00" && serial != "0000"
}

func (r *digitRun) isPhone() bool {
	n := r.count
	if n < 7 || n > 16 || r.isOpen() && r.name&phoneName == 0 {
		return false
	}
	w := r.written()
	before := byte(0)
	if r.start > r.free {
		before = r.text[r.start-1]
	}
	groups := len(bytes.FieldsFunc(w, func(c rune) bool { return c < '0' || c > '9' }))
	switch {
	case before == '+' && n >= 8:
		r.start--
	case r.name&phoneName != 0 && n <= 15:
		if before == '+' || before == '(' {
			r.start--
		}
	case bytes.ContainsRune(w, '.') && groups != 3: // a decimal number
		return false
	case w[0] == '0' && w[1] == '0' && n >= 10 && groups >= 2: // international
	case n == 10 && w[0] >= '2' && isNorthAmerican(w, before): // (212) 555-0123, 212-555-0123
		if before == '(' {
			r.start--
		}
	case n == 11 && w[0] == '1' && !isDigit[w[1]] && isNorthAmerican(w[2:], w[1]): // 1-800-555-0199
	case w[0] == '0' && w[1] != '0' && n >= 9 && n <= 12 && groups >= 2 && groups <= 5 && !bytes.ContainsAny(w, "."): // national
	default:
		return false
	}
	return true
}

// isNorthAmerican reports whether ten digits are written as an area code and a number.
func isNorthAmerican(written []byte, before byte) bool {
	groups := bytes.FieldsFunc(written, func(c rune) bool { return c < '0' || c > '9' })
	return len(groups) == 3 && len(groups[0]) == 3 && len(groups[1]) == 3 && groups[1][0] >= '2' &&
		(before == '(' || bytes.ContainsAny(written, "-. "))
}

const maxIBAN = 34 // characters

// ibanLengths has the countries of the IBAN registry (ISO 13616) with the lengths of their IBANs.
const ibanLengths = "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 EE20 EG29 " +
	"ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 LI21 " +
	"LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 PT25 QA29 RO24 RS22 RU33 SA24 " +
	"SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30"

// ibanLength returns the length of the IBANs of a country, 0 if it has none.
func ibanLength(country []byte) (length int) {
	if at := strings.Index(ibanLengths, strings.ToUpper(string(country))); at >= 0 {
		length = int(ibanLengths[at+2]-'0')*10 + int(ibanLengths[at+3]-'0')
	}
	return length
}

// findIBAN returns the end of the IBAN that begins at a position, in one word or in groups of four. One with wrong check digits is
// not valid. The end is 0 if there is none.
func findIBAN(text []byte, at int) (end int, valid bool) {
	if at < 0 || at+4 > len(text) || !isLetter[text[at]] || !isLetter[text[at+1]] || !isDigit[text[at+3]] || at > 0 && isWord[text[at-1]] {
		return 0, false
	}
	length, characters := ibanLength(text[at:at+2]), 0
	var moved [maxIBAN]byte
	for i := at; i < len(text) && characters < length; i++ {
		c := text[i]
		if (c == ' ' || c == '-' || c == '.') && characters%4 == 0 && i+1 < len(text) && isWord[text[i+1]] {
			continue
		}
		if !isWord[c] || c == '_' {
			break
		}
		moved[characters] = c
		characters++
		if characters == length && (i+1 == len(text) || !isWord[text[i+1]]) {
			return i + 1, ibanRest(moved[:length]) == 1
		}
	}
	return 0, false
}

// ibanRest returns the number of an IBAN modulo 97; it is 1 if the check digits are right.
func ibanRest(iban []byte) (rest int) {
	for i := range iban {
		switch c := iban[(i+4)%len(iban)]; {
		case isDigit[c]:
			rest = (rest*10 + int(c-'0')) % 97
		default:
			rest = (rest*100 + int(c&^0x20-'A') + 10) % 97
		}
	}
	return rest
}
