package match

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fairwayhq/fairway/internal/headerkind"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/ocp/internal/style"
	"github.com/fairwayhq/fairway/ocp/internal/validate"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// ErrNoOperation reports a request that matches no operation of the documents, even with
// lenient matching.
var ErrNoOperation = errors.New("the request is not an operation that the documents declare")

// An AmbiguousError reports a request that an upstream may treat as a different operation.
// Code that decides by the operation must reject it.
type AmbiguousError struct {
	Tool   *tool.Tool // the operation that an upstream may choose; nil if not known
	Reason string     // completes "the request is ambiguous: …" and says how to fix it
}

// Error returns the reason.
func (e *AmbiguousError) Error() string {
	return "the request is ambiguous: " + e.Reason
}

// Match returns the tool of a request to the API. Use it to decide whether the request may
// pass. Upstreams read paths differently: some ignore case, decode twice, merge slashes,
// drop text after a semicolon or a file extension, or take the method from a header. Match
// therefore compares the request as written and as each such upstream would read it:
//
//   - If the request is written as the document writes one operation, and no other reading
//     makes it a different operation, Match returns that operation's tool. A HEAD request
//     that the document does not declare is treated as a GET.
//   - If another reading makes it a different operation, the error is an *AmbiguousError.
//     This also applies to a "." or ".." segment, a control character or text that is not
//     UTF-8 in an operation's path, to a header or query that requests another method or
//     path, and to a request to switch protocols, after which the gateway cannot see the
//     data.
//   - If no reading makes it an operation, the error is ErrNoOperation. OPTIONS is an
//     operation only if the document declares it.
//
// Operations may share method and path. They are then distinguished by the query in their
// Path, by query parameters and headers with one allowed value, and by required ones that
// only some of them have. A request that lacks such a value matches no operation. If it
// may match several, the error is an *AmbiguousError.
//
// If operations differ only in case or a final slash, Match returns the one that is
// written exactly like the request. It does not know operations that the Toolset excludes:
// if an excluded operation's path also matches a template, the request belongs to the
// template.
func (r *Routes) Match(request *http.Request) (*tool.Tool, error) {
	return r.match(request, nil)
}

// MatchCall is like Match, for the request of a tool call. If nothing in the request
// distinguishes operations that share method and path, it returns the called tool.
func (r *Routes) MatchCall(request *http.Request, called *tool.Tool) (*tool.Tool, error) {
	return r.match(request, called)
}

func (r *Routes) match(request *http.Request, called *tool.Tool) (*tool.Tool, error) {
	path := request.URL.EscapedPath()
	if request.URL.Opaque != "" || path == "" || path[0] != '/' || len(path) > maxMatched {
		return nil, ErrNoOperation
	}
	found, err := r.spelled(request.Method, path)
	if err != nil {
		return nil, err
	}
	var tool *tool.Tool
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

// maxMatched is the maximum length of a path that is matched, in bytes. No server accepts
// longer paths.
const maxMatched = 32 << 10

// spelled returns the operations whose path in the document matches exactly. It returns
// nil if no operation matches the path with any escaping of its characters.
func (r *Routes) spelled(method, path string) (*siblings, error) {
	found := r.at(method, path)
	if method == http.MethodHead {
		get := r.at(http.MethodGet, path)
		if found != nil && get != nil && pathKey(found.tools[0]) != pathKey(get.tools[0]) {
			return nil, &AmbiguousError{Tool: get.tools[0], Reason: "the HEAD of " + found.tools[0].Path + " is declared, and the path is also that of " + get.tools[0].Operation()}
		}
		if found == nil {
			found = get
		}
	}
	if found == nil {
		return nil, nil
	}
	if tool := found.tools[0]; !spells(tool, path) {
		return nil, &AmbiguousError{Tool: tool, Reason: "its path encodes characters that the document does not encode: write it as in " + tool.Path}
	}
	return found, nil
}

// spells reports whether the escaped path contains the template's texts exactly as the
// document writes them. The path must match the template.
func spells(t *tool.Tool, path string) bool {
	var onStack [8]string
	_, err := pathValues(t, onStack[:0], path)
	if err == nil {
		return true
	}
	// An error about parameters that cannot be separated is reported when they are read.
	misread, ok := errors.AsType[*RequestError](err)
	return ok && misread.Kind == AmbiguousValue
}

// compareReadings returns an error if an upstream may read the request as an operation
// other than tool. Tool is nil if the request as written matches no operation.
func (r *Routes) compareReadings(tool *tool.Tool, method, path string) error {
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

func (r *Routes) compare(tool *tool.Tool, method, path, reading string) error {
	r.once.Do(r.makeLenient)
	if tool == nil {
		method = strings.ToUpper(method)
	}
	found := r.lenientTools(method, reading, tool)
	if len(found) == 0 || tool != nil && has(found, tool) {
		return nil
	}
	reason := "some servers read the path " + strconv.Quote(text.Cut(path, validate.MaxProblem)) + " as one of " + found[0].Operation()
	if tool != nil {
		reason += ", and it is one of " + tool.Operation()
	} else {
		reason += ": write it exactly so"
	}
	return &AmbiguousError{Tool: found[0], Reason: reason}
}

// lenientTools returns the tools of the most concrete path that matches the reading.
func (r *Routes) lenientTools(method, reading string, t *tool.Tool) []*tool.Tool {
	var found []*tool.Tool
	if root := r.lenient[method]; root != nil {
		found = root.find(reading)
	}
	if method == http.MethodHead && (len(found) == 0 || t != nil && !has(found, t)) {
		if root := r.lenient[http.MethodGet]; root != nil {
			if got := root.find(reading); len(got) > 0 {
				return got
			}
		}
	}
	return found
}

func has(tools []*tool.Tool, tool *tool.Tool) bool {
	for _, t := range tools {
		if t == tool || t.Method == tool.Method && pathKey(t) == pathKey(tool) {
			return true
		}
	}
	return false
}

// overrides returns why an upstream may use another method or path than the request's, or
// "" if nothing in the request suggests it.
func overrides(request *http.Request, tool *tool.Tool) string {
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
		if isOverride(name) && value != request.Method && !takesQuery(tool, name) {
			return "its query parameter " + name + " asks some servers for another method: leave it away"
		}
	}
	return ""
}

// maxOverride is the length of the longest name that isOverride knows, with each character
// escaped.
const maxOverride = 3 * len("X-HTTP-Method-Override")

// takesQuery reports whether the document declares a query parameter with that name, also
// as part of the path.
func takesQuery(t *tool.Tool, name string) bool {
	return fixes(t, style.Query, name) != nil || slices.ContainsFunc(t.All(), func(a tool.Argument) bool { return a.In == tool.InQuery && a.WireName == name })
}

// isFolded reports whether a path is its own only reading: it has only lower case letters,
// digits and characters that no server interprets.
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

// plainReadings returns the readings of a path with only unreserved characters, as most
// paths have, and nil for other paths.
func plainReadings(path string, tool *tool.Tool) (readings []string, problem string) {
	if !style.IsPlainPath(path) || style.HasDotSegment([]byte(path), false) {
		return nil, ""
	}
	return appendStems([]string{fold(path)}, tool), ""
}

// maxDecoded is how many layers of percent-encoding are decoded.
const maxDecoded = 4

// readingsOf returns the folded paths that servers may read an escaped path as. Problem
// says what is not allowed in the path of any operation; "" if nothing is wrong.
func readingsOf(path string, tool *tool.Tool) (readings []string, problem string) {
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
	case text.HasControl(decoded):
		problem = "its path has a control character"
	case style.HasDotSegment([]byte(path), false), style.HasDotSegment([]byte(decoded), false):
		problem = "its path has a . or .. segment, which leads to another path: write the path it leads to"
	}
	// A server may split the path before or after it decodes it.
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

// appendStems appends the readings without a file extension, because some servers use the
// extension to choose the format of a response. It does nothing if the template itself has
// an extension.
func appendStems(readings []string, tool *tool.Tool) []string {
	if tool != nil && !endsWithParameter(tool) {
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

// endsWithParameter reports whether the last segment of the tool's path is a single
// parameter. A file extension would be part of its value.
func endsWithParameter(t *tool.Tool) bool {
	parts := t.Plan().Parts
	n := len(parts)
	return n > 1 && parts[n-1].Literal == "" && strings.HasSuffix(parts[n-2].Literal, "/")
}
