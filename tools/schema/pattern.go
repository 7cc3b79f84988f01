package schema

import (
	"regexp"
	"strings"
)

// portable matches a regular expression of which each part means the same in Go, in JavaScript with the flag u, and in
// the re of Python, with which clients and model APIs compile patterns. It is conservative.
var portable = func() *regexp.Regexp {
	const (
		escape = `\\(?:[fnrtv^$\\.*+?()\[\]{}|/]|x[0-9a-fA-F]{2})`
		set    = `\\[dDwWsS]`
		single = `(?:[^\\\[\]-]|\\-|` + escape + `)` // in a class
		class  = `\[\^?-?(?:` + set + `|` + single + `-` + single + `-?|` + single + `)*-?\]`
		atom   = `(?:[^\\^$.*+?()\[\]{}|]|\.|` + escape + `|` + set + `|` + class + `|\))`
		repeat = `(?:(?:[*+?]|\{[0-9]+(?:,[0-9]*)?\})\??)?`
	)
	return regexp.MustCompile(`^(?s:` + atom + repeat + `|\(\?:|\(|\||\^|\$|\\[bB])*$`)
}()

// isPortable reports whether a pattern that Go compiles may be listed. Python warns about doubled signs in classes.
func isPortable(pattern string) bool {
	isDoubled := func(signs string) bool { return strings.Contains(pattern, signs) }
	return portable.MatchString(pattern) && !isDoubled("--") && !isDoubled("&&") && !isDoubled("~~") && !isDoubled("||")
}
