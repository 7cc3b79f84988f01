package build

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gosimple/unidecode"

	"github.com/fairwayhq/fairway/internal/text"
)

// MaxName is the maximum length of a tool or argument name, in bytes. Every known client
// accepts names of this length.
const MaxName = 64

// NameForOperation returns the name of an operation according to the OCP rules (OCP 1.0, Tool
// Naming). It is the operationId, with invalid characters replaced if necessary. If there
// is no usable operationId, it is the method and path in snake case.
func NameForOperation(operationID, method, path string) string {
	if name := SanitizeName(operationID); name != "" {
		return ShortenName(name)
	}
	var name strings.Builder
	name.WriteString(strings.ToLower(method))
	for segment := range strings.SplitSeq(path, "/") {
		if word := snake(segment); word != "" {
			name.WriteByte('_')
			name.WriteString(word)
		}
	}
	return ShortenName(name.String())
}

// SanitizeName replaces invalid characters by underscores and makes the name start with a
// letter. It returns "" if s has no letter or digit.
func SanitizeName(s string) string {
	name := strings.Map(func(r rune) rune {
		if isNameRune(r) {
			return r
		}
		return '_'
	}, s)
	if IsName(name) {
		return name
	}
	name = strings.TrimLeft(name, "_")
	switch {
	case name == "":
		return ""
	case '0' <= name[0] && name[0] <= '9':
		return "n" + name
	}
	return name
}

// IsName reports whether s matches [a-zA-Z][a-zA-Z0-9_]*.
func IsName(s string) bool {
	for i, r := range s {
		if !isNameRune(r) || i == 0 && (r == '_' || '0' <= r && r <= '9') {
			return false
		}
	}
	return s != ""
}

func isNameRune(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_'
}

func isLetterOrDigit(r rune) bool { return r != '_' && isNameRune(r) }

// snake converts one path segment to snake case: "{tripId}" becomes trip_id and
// "users.json" becomes users_json.
func snake(segment string) string {
	var word strings.Builder
	var previous rune
	for _, r := range segment {
		switch {
		case !isNameRune(r) || r == '_':
			r = '_'
			if word.Len() == 0 || previous == '_' {
				continue
			}
		case unicode.IsUpper(r) && (unicode.IsLower(previous) || unicode.IsDigit(previous)):
			word.WriteByte('_')
		}
		word.WriteRune(unicode.ToLower(r))
		previous = r
	}
	return strings.TrimRight(word.String(), "_")
}

// ShortenName cuts a name that is too long and appends a hash of the full name, so that the
// short name is the same each time the document is read.
func ShortenName(name string) string {
	if len(name) <= MaxName {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	suffix := "_" + hex.EncodeToString(sum[:4])
	return strings.TrimRight(name[:MaxName-len(suffix)], "_") + suffix
}

// A NameSet makes names unique. The time for a name does not depend on how often the
// same name was claimed before.
type NameSet struct {
	Taken map[string]bool
	last  map[string]int // the last suffix tried, by name without suffix
}

func NewNameSet() NameSet {
	return NameSet{Taken: make(map[string]bool), last: make(map[string]int)}
}

// Claim returns name, or name with the first free suffix of _2, _3, ….
func (n NameSet) Claim(name string) string {
	if !n.Taken[name] {
		n.Taken[name] = true
		return name
	}
	const longestSuffix = len("_999999")
	stem := name[:min(len(name), MaxName-longestSuffix)]
	for i := max(n.last[stem]+1, 2); ; i++ {
		suffix := "_" + strconv.Itoa(i)
		unique := name[:min(len(name), MaxName-len(suffix))] + suffix
		if !n.Taken[unique] {
			n.Taken[unique], n.last[stem] = true, i
			return unique
		}
	}
}

// A Renaming corrects the names that the rules above give to the tools of a document or the arguments of a tool, in
// the order of the document. These names stay as they are, with two exceptions: an exact name, which the document has
// in this form, belongs to what has it in the document; and a name must not lack letters of the document's name.
type Renaming struct {
	Own    []string                                     // the names in the document; "" for a name that the document does not have
	Former []string                                     // the names by the rules above, all different
	Name   func(i int, read func(string) string) string // the rule, for the name in the document that read has rewritten; "" if nothing is left
	Prefix func(i int) string                           // for a name that is taken
}

// Names returns the corrected names. A corrected name is never one that something else had before, unless it is exact:
// so a configuration with a former name is an error, and does not apply to something else.
func (r *Renaming) Names() []string {
	names, owner := NewNameSet(), make(map[string]int)
	for i, own := range r.Own {
		names.Taken[r.Former[i]] = true
		if _, owned := owner[own]; !owned && IsName(own) && len(own) <= MaxName {
			names.Taken[own] = true
			owner[own] = i
		}
	}
	corrected, fields := slices.Clone(r.Former), 0
	for i, own := range r.Own {
		holder, exact := owner[own]
		if exact && holder == i {
			corrected[i] = own
			continue
		}
		_, belongs := owner[r.Former[i]]
		if !belongs && Readable(own) == own && (own == "" || strings.ContainsFunc(own, isLetterOrDigit)) {
			continue
		}
		readable, spelled := r.Name(i, Readable), r.Name(i, spell)
		switch {
		case readable != "" && !names.Taken[readable]:
			corrected[i] = names.Claim(readable)
		case spelled != "" && !names.Taken[spelled]:
			corrected[i] = names.Claim(spelled)
		case readable != "":
			corrected[i] = names.Claim(ShortenName(r.Prefix(i) + "_" + readable))
		default:
			for corrected[i] = ""; corrected[i] == "" || names.Taken[corrected[i]]; fields++ {
				corrected[i] = "field_" + strconv.Itoa(fields+1)
			}
			names.Claim(corrected[i])
		}
	}
	return corrected
}

// comparisons are the signs at the end of a name that stand for a comparison, as in "StartTime>".
var comparisons = [...]struct{ sign, word string }{{"<=", "lte"}, {">=", "gte"}, {"!=", "ne"}, {"<>", "ne"}, {"<", "lt"}, {">", "gt"}}

// Readable returns a name in Latin letters, and with a word for a comparison at its end: 姓名 becomes Xing_Ming.
func Readable(name string) string {
	for _, c := range comparisons {
		if stem, compares := strings.CutSuffix(name, c.sign); compares && !strings.Contains(stem, "<") { // not Page<User>
			name = stem + "_" + c.word
			break
		}
	}
	if !strings.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return name
	}
	latin, ideograph := make([]byte, 0, 2*len(name)), false
	for _, r := range name {
		word, before := string(r), ideograph
		ideograph = false
		if r >= utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r)) {
			word = unidecode.Unidecode(word)
			if word == "" && !unicode.IsMark(r) {
				word = "_"
			}
			ideograph = strings.HasSuffix(word, " ")
			word = strings.TrimSpace(word)
		}
		if (before || ideograph) && len(latin) > 0 && latin[len(latin)-1] != '_' && SanitizeName(word) != "" {
			latin = append(latin, '_')
		}
		latin = append(latin, word...)
	}
	return string(latin)
}

// spell is Readable with words for the signs that names cannot have.
func spell(name string) string { return signs.Replace(Readable(name)) }

var signs = strings.NewReplacer("<=", "_lte_", ">=", "_gte_", "!=", "_ne_", "<", "_lt_", ">", "_gt_", "=", "_eq_", "!", "_not_", "[]", "_list_",
	"-", "_dash_", "+", "_plus_", ".", "_dot_", "@", "_at_", "$", "_dollar_", "*", "_star_", "%", "_percent_", "&", "_and_", "#", "_hash_")

// TellName returns the description with a name in the document, which differs from the name that callers use.
func TellName(own, description string) string {
	return strings.TrimSuffix("`"+text.Cut(own, maxTold)+"`: "+description, ": ")
}

// maxTold is the maximum length of a name in a description, in bytes.
const maxTold = 4 * MaxName
