package text

import (
	"strings"
	"unicode"
)

// Hidden returns the first character that is not shown, if it can carry a message: a format character, a tag, a blank
// letter, or the second of two variation selectors. Joiners and marks of direction between letters of other scripts than
// Latin, and joiners in emoji, are part of the writing.
func Hidden(s string) (rune, bool) {
	var previous rune
	characters := []rune(s)
	for n, r := range characters {
		if isHiddenAt(characters, n, previous) {
			return r, true
		}
		previous = r
	}
	return 0, false
}

// Visible returns a text without the characters of Hidden and without control characters, except tabs and line breaks.
func Visible(s string) string {
	var previous rune
	var visible strings.Builder
	characters := []rune(s)
	for n, r := range characters {
		if unicode.IsControl(r) && r != '\t' && r != '\n' && r != '\r' || isHiddenAt(characters, n, previous) {
			continue
		}
		visible.WriteRune(r)
		previous = r
	}
	return visible.String()
}

func isHiddenAt(characters []rune, n int, previous rune) bool {
	r := characters[n]
	if r >= 0x200C && r <= 0x200F {
		return previous <= unicode.MaxLatin1 || n+1 == len(characters) || characters[n+1] <= unicode.MaxLatin1 || isHidden(characters[n+1])
	}
	return isHidden(r) || unicode.Is(unicode.Variation_Selector, r) && (unicode.Is(unicode.Variation_Selector, previous) || previous <= unicode.MaxLatin1 && !isKeycap(previous))
}

func isHidden(r rune) bool {
	switch r {
	case 0x115F, 0x1160, 0x2800, 0x3164, 0xFFA0: // letters that are blank
		return true
	}
	return unicode.Is(unicode.Cf, r) || r >= 0xE0000 && r <= 0xE00FF
}

// isKeycap reports whether a variation selector makes an emoji of an ASCII or Latin-1 character.
func isKeycap(r rune) bool { return strings.ContainsRune("0123456789#*©®", r) }
