package ocp

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fairwayhq/fairway/internal/headerkind"
)

// ErrNoOperation reports a request that no operation of the documents is, however
// freely it is read.
var ErrNoOperation = errors.New("the request is not an operation that the documents declare")

// An AmbiguousError is a request that some upstream may take for another one than
// it seems to be. Whoever decides by the operation refuses it.
type AmbiguousError struct {
	Tool   *Tool  // what some upstreams may take it for; nil if that is not known
	Reason string // completes "the request is ambiguous: …", and says what to do
}

// Error returns the reason.
func (e *AmbiguousError) Error() string {
	return "the request is ambiguous: " + e.Reason
}

// Match returns the tool of a request that goes to the API, for those who decide
// by it whether the request may pass. What an upstream does with a path is not
// known here: some overlook case, decode it twice, merge slashes, drop what
// follows a semicolon, or a file extension, or take a method from a header. So a
// request is matched as it stands and as each of these upstreams would read it:
//
//   - It is spelled as the document spells one operation, and no reading makes it
//     another one: that operation's tool. A HEAD that the document does not
//     declare is a GET.
//   - A reading makes it another operation than it is as it stands: an
//     *AmbiguousError. So is every request with a "." or ".." segment, a control
//     character or text that is not UTF-8 in an operation's path, every one whose
//     header or query asks for another method or path, and every one that would
//     switch protocols, for what follows is not seen.
//   - No reading makes it an operation: ErrNoOperation. OPTIONS is an operation
//     where the document says so.
//
// Operations may share method and path, and are told apart by the query of their
// Path, by query parameters and headers with one allowed value, and by required
// ones that only some of them have. A request that lacks such a value is of no
// operation; one that could be of several is an *AmbiguousError.
//
// Of the operations that are told apart by case alone, or a slash at the end, the
// one that is spelled exactly is found. An operation that the Toolset excludes is
// not known, and a path that one template and an excluded operation share is the
// template's.
func (r *Routes) Match(request *http.Request) (*Tool, error) {
	return r.match(request, nil)
}

// MatchCall is Match for the request of a tool call: where nothing in it tells
// operations apart that share method and path, it is of the tool that was called.
func (r *Routes) MatchCall(request *http.Request, called *Tool) (*Tool, error) {
	return r.match(request, called)
}

func (r *Routes) match(request *http.Request, called *Tool) (*Tool, error) {
	path := request.URL.EscapedPath()
	if request.URL.Opaque != "" || path == "" || path[0] != '/' || len(path) > maxMatched {
		return nil, ErrNoOperation
	}
	found, err := r.spelled(request.Method, path)
	if err != nil {
		return nil, err
	}
	var tool *Tool
	if found != nil {
		tool = found.tools[0]
	}
	if err := r.compareReadings(tool, request.Method, path); err != nil {
		return nil, err
	}
	if tool == nil {
		return nil, ErrNoOperation
	}
	if tool, err = found.choose(request, called); err != nil {
		return nil, err
	}
	if reason := overrides(request, tool); reason != "" {
		return nil, &AmbiguousError{Reason: reason}
	}
	return tool, nil
}

// maxMatched is the longest path that is matched, in bytes: longer than any
// server takes.
const maxMatched = 32 << 10

// spelled returns the operations whose path it is as the document spells it, nil if no
// operation has that path in any spelling of its characters.
func (r *Routes) spelled(method, path string) (*siblings, error) {
	found := r.at(method, path)
	if method == http.MethodHead {
		get := r.at(http.MethodGet, path)
		if found != nil && get != nil && found.tools[0].pathKey() != get.tools[0].pathKey() {
			return nil, &AmbiguousError{Tool: get.tools[0], Reason: "the HEAD of " + found.tools[0].Path + " is declared, and the path is also that of " + get.tools[0].where()}
		}
		if found == nil {
			found = get
		}
	}
	if found == nil {
		return nil, nil
	}
	if tool := found.tools[0]; !tool.spells(path) {
		return nil, &AmbiguousError{Tool: tool, Reason: "its path encodes characters that the document does not encode: write it as in " + tool.Path}
	}
	return found, nil
}

// spells reports whether the texts of the template stand in the escaped path as
// the document has them. That the path matches is known.
func (t *Tool) spells(path string) bool {
	var onStack [8]string
	_, err := t.pathValues(onStack[:0], path)
	if err == nil {
		return true
	}
	// Parameters that cannot be told apart are reported when they are read.
	misread, ok := errors.AsType[*RequestError](err)
	return ok && misread.Kind == AmbiguousValue
}

// compareReadings returns an error if an upstream may take the request for
// another operation than tool, which is nil if it is none as it stands.
func (r *Routes) compareReadings(tool *Tool, method, path string) error {
	if isFolded(path) {
		return r.compare(tool, method, path, path)
	}
	readings, problem := plainReadings(path, tool)
	if readings == nil {
		readings, problem = readingsOf(path, tool)
	}
	if problem != "" && tool != nil {
		return &AmbiguousError{Tool: tool, Reason: problem}
	}
	for _, reading := range readings {
		if err := r.compare(tool, method, path, reading); err != nil {
			return err
		}
	}
	return nil
}

func (r *Routes) compare(tool *Tool, method, path, reading string) error {
	r.once.Do(r.makeLenient)
	if tool == nil {
		method = strings.ToUpper(method)
	}
	found := r.lenientTools(method, reading, tool)
	if len(found) == 0 || tool != nil && has(found, tool) {
		return nil
	}
	reason := "some servers read the path " + strconv.Quote(clip(path, maxProblem)) + " as one of " + found[0].where()
	if tool != nil {
		reason += ", and it is one of " + tool.where()
	} else {
		reason += ": write it exactly so"
	}
	return &AmbiguousError{Tool: found[0], Reason: reason}
}

// lenientTools returns the tools of the most concrete path that the reading is.
func (r *Routes) lenientTools(method, reading string, tool *Tool) []*Tool {
	var found []*Tool
	if root := r.lenient[method]; root != nil {
		found = root.find(reading)
	}
	if method == http.MethodHead && (len(found) == 0 || tool != nil && !has(found, tool)) {
		if root := r.lenient[http.MethodGet]; root != nil {
			if got := root.find(reading); len(got) > 0 {
				return got
			}
		}
	}
	return found
}

func has(tools []*Tool, tool *Tool) bool {
	for _, t := range tools {
		if t == tool || t.Method == tool.Method && t.pathKey() == tool.pathKey() {
			return true
		}
	}
	return false
}

// overrides returns why an upstream may do something else than the request's
// method to the request's path, "" if nothing of it says so.
func overrides(request *http.Request, tool *Tool) string {
	for name, values := range request.Header {
		switch headerkind.Of(name) {
		case headerkind.MethodOverride:
			if len(values) != 1 || values[0] != request.Method {
				return "its header " + name + " asks some servers for another method: remove it"
			}
		case headerkind.PathOverride:
			return "its header " + name + " asks some servers for another path: remove it"
		case headerkind.ProtocolSwitch:
			return "it asks to switch protocols, and what follows then cannot be seen: remove the header " + name
		}
	}
	query := request.URL.RawQuery
	for query != "" {
		var part string
		part, query, _ = strings.Cut(query, "&")
		name, value, _ := strings.Cut(part, "=")
		if len(name) < len("_method") || len(name) > maxOverride {
			continue
		}
		if strings.ContainsAny(name, "%+") {
			name, _ = url.QueryUnescape(name)
		}
		if isOverride(name) && value != request.Method && !tool.takesQuery(name) {
			return "its query parameter " + name + " asks some servers for another method: leave it away"
		}
	}
	return ""
}

// maxOverride is the length of the longest name that isOverride knows, each
// character of it encoded.
const maxOverride = 3 * len("X-HTTP-Method-Override")

// takesQuery reports whether the document declares a query parameter of the name, or its
// path has one.
func (t *Tool) takesQuery(name string) bool {
	return t.fixes(InQuery, name) != nil || slices.ContainsFunc(t.all, func(a Argument) bool { return a.In == InQuery && a.WireName == name })
}

// isFolded reports whether each reading of a path is the path itself: it has small
// letters, digits and what no server makes anything of.
func isFolded(path string) bool {
	for i := range len(path) {
		switch c := path[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
		case c == '/', c == '-', c == '_', c == '~':
		default:
			return false
		}
	}
	return true
}

// plainReadings are the readings of a path that has unreserved characters only, as
// most have; nil if it has others.
func plainReadings(path string, tool *Tool) (readings []string, problem string) {
	if !isPlainPath(path) || hasDotSegments(path) {
		return nil, ""
	}
	return appendStems([]string{fold(path)}, tool), ""
}

// maxDecoded is how often a path may be percent-encoded.
const maxDecoded = 4

// readingsOf returns the paths, folded, that servers may take an escaped path for.
// Problem says what no operation's path may have, "" for nothing.
func readingsOf(path string, tool *Tool) (readings []string, problem string) {
	decoded := path
	for range maxDecoded {
		next := decodeTriples(decoded)
		if next == decoded {
			break
		}
		decoded = next
	}
	switch {
	case decodeTriples(decoded) != decoded:
		problem = "its path is percent-encoded more than " + strconv.Itoa(maxDecoded) + " times"
	case !utf8.ValidString(decoded):
		problem = "its path is not text in UTF-8"
	case hasControl(decoded):
		problem = "its path has a control character"
	case hasDotSegments(path), hasDotSegments(decoded):
		problem = "its path has a . or .. segment, which leads to another path: write the path it leads to"
	}
	// A server may divide the path before it decodes it, or after.
	kept := strings.Map(keepSlashes, decodeSegments(path))
	for _, divided := range [...]string{decoded, kept} {
		for _, cut := range [...]string{divided, cutSegments(divided), cutSegments(decodeSegments(cutSegments(path)))} {
			readings = appendReading(readings, cut)
			if end := strings.IndexAny(cut, "?#\x00"); end >= 0 {
				readings = appendReading(readings, cut[:end])
			}
		}
	}
	return appendStems(readings, tool), problem
}

// appendStems appends the readings without a file extension, by which some servers
// choose the form of an answer. A template that has an extension itself leaves
// none to choose.
func appendStems(readings []string, tool *Tool) []string {
	if tool != nil && !tool.endsWithParameter() {
		return readings
	}
	for _, reading := range readings {
		last := strings.LastIndexByte(reading, '/')
		if dot := strings.LastIndexByte(reading, '.'); dot > last+1 {
			readings = appendReading(readings, reading[:dot])
		}
	}
	return readings
}

// endsWithParameter reports whether the last segment of the tool's path is one
// parameter, to which an extension would belong.
func (t *Tool) endsWithParameter() bool {
	n := len(t.path)
	return n > 1 && t.path[n-1].literal == "" && strings.HasSuffix(t.path[n-2].literal, "/")
}
