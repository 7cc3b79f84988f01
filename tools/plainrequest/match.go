package plainrequest

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/match"
	"github.com/fairwayhq/fairway/tools/request"
	"github.com/fairwayhq/fairway/tools/schema"
)

// Routes decide about the plain requests to the operations of toolsets. They are safe for concurrent use.
type Routes struct {
	*match.Routes

	lenient func() *match.Folded // built by the first Match
	plans   sync.Map             // *requestPlan by *tools.Tool, made by the first plain request of the tool
}

// NewRoutes returns the routes of the Toolsets' tools.
func NewRoutes(toolsets ...*tools.Toolset) *Routes {
	return &Routes{
		Routes:  match.NewRoutes(toolsets...),
		lenient: sync.OnceValue(func() *match.Folded { return match.NewFolded(fold, toolsets...) }),
	}
}

// Match returns the tool of a request to the API. Use it to decide whether the request may
// pass. Upstreams read paths differently: some ignore case, decode twice, merge slashes,
// drop text after a semicolon or a file extension, or take the method from a header. Match
// therefore compares the request as written and as each such upstream would read it:
//
//   - If the request is written as the document writes one operation, and no other reading
//     makes it a different operation, Match returns that operation's tool. A HEAD request
//     that the document does not declare is treated as a GET.
//   - If another reading makes it a different operation, the error is an *match.AmbiguousError.
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
// may match several, the error is an *match.AmbiguousError.
//
// If operations differ only in case or a final slash, Match returns the one that is
// written exactly like the request. It does not know operations that the Toolset excludes:
// if an excluded operation's path also matches a template, the request belongs to the
// template.
func (r *Routes) Match(req *http.Request) (*tools.Tool, error) {
	return r.MatchCall(req, nil)
}

// MatchCall is like Match, for the request of a tool call. If nothing in the request
// distinguishes operations that share method and path, it returns the called tool.
func (r *Routes) MatchCall(req *http.Request, called *tools.Tool) (*tools.Tool, error) {
	path := req.URL.EscapedPath()
	if req.URL.Opaque != "" || path == "" || path[0] != '/' || len(path) > maxMatched {
		return nil, match.ErrNoOperation
	}
	found, err := r.spelled(req.Method, path)
	if err != nil {
		return nil, err
	}
	var tool *tools.Tool
	if found != nil {
		tool = found.Tools[0]
	}
	if err := r.compareReadings(tool, req.Method, path); err != nil {
		return nil, err
	}
	if tool == nil {
		return nil, match.ErrNoOperation
	}
	if tool, err = found.Choose(req, called); err != nil {
		return nil, err
	}
	if rival := tool.Plan.Rival(path); rival != "" {
		return nil, &match.AmbiguousError{Tool: tool, Reason: "its path is also that of " + rival + ", which is not a tool"}
	}
	if reason := overrides(req, tool); reason != "" {
		return nil, &match.AmbiguousError{Reason: reason}
	}
	return tool, nil
}

// maxMatched is the maximum length of a path that is matched, in bytes. No server accepts
// longer paths.
const maxMatched = 32 << 10

// spelled returns the operations whose path in the document matches exactly. It returns
// nil if no operation matches the path with any escaping of its characters.
func (r *Routes) spelled(method, path string) (*match.Siblings, error) {
	found := r.At(method, path)
	if method == http.MethodHead {
		get := r.At(http.MethodGet, path)
		if found != nil && get != nil && pathKey(found.Tools[0]) != pathKey(get.Tools[0]) {
			return nil, &match.AmbiguousError{Tool: get.Tools[0], Reason: "the HEAD of " + found.Tools[0].Plan.Path + " is declared, and the path is also that of " + get.Tools[0].Operation()}
		}
		if found == nil {
			found = get
		}
	}
	if found == nil {
		return nil, nil
	}
	if tool := found.Tools[0]; !spells(tool, path) {
		return nil, &match.AmbiguousError{Tool: tool, Reason: "its path encodes characters that the document does not encode: write it as in " + tool.Plan.Path}
	}
	return found, nil
}

// spells reports whether the escaped path contains the template's texts exactly as the
// document writes them. The path must match the template.
func spells(t *tools.Tool, path string) bool {
	var onStack [8]string
	_, err := match.PathValues(t, onStack[:0], path)
	if err == nil {
		return true
	}
	// An error about parameters that cannot be separated is reported when they are read.
	misread, ok := errors.AsType[*match.RequestError](err)
	return ok && misread.Kind == request.Ambiguous
}

// compareReadings returns an error if an upstream may read the request as an operation
// other than tool. Tool is nil if the request as written matches no operation.
func (r *Routes) compareReadings(tool *tools.Tool, method, path string) error {
	if isFolded(path) {
		return r.compare(tool, method, path, path)
	}
	readings, problem := plainReadings(path, tool)
	if readings == nil {
		readings, problem = readingsOf(path, tool)
	}
	if problem != "" && tool != nil {
		return &match.AmbiguousError{Tool: tool, Reason: problem}
	}
	for _, reading := range readings {
		if err := r.compare(tool, method, path, reading); err != nil {
			return err
		}
	}
	return nil
}

func (r *Routes) compare(tool *tools.Tool, method, path, reading string) error {
	if tool == nil {
		method = strings.ToUpper(method)
	}
	found := r.lenientTools(method, reading, tool)
	if len(found) == 0 || tool != nil && has(found, tool) {
		return nil
	}
	reason := "some servers read the path " + strconv.Quote(text.Cut(path, schema.MaxProblem)) + " as one of " + found[0].Operation()
	if tool != nil {
		reason += ", and it is one of " + tool.Operation()
	} else {
		reason += ": write it exactly so"
	}
	return &match.AmbiguousError{Tool: found[0], Reason: reason}
}

// lenientTools returns the tools of the most concrete path that matches the reading.
func (r *Routes) lenientTools(method, reading string, t *tools.Tool) []*tools.Tool {
	found := r.lenient().Find(method, reading)
	if method == http.MethodHead && (len(found) == 0 || t != nil && !has(found, t)) {
		if got := r.lenient().Find(http.MethodGet, reading); len(got) > 0 {
			return got
		}
	}
	return found
}

func has(toolset []*tools.Tool, tool *tools.Tool) bool {
	return slices.ContainsFunc(toolset, func(t *tools.Tool) bool {
		return t == tool || t.Plan.Method == tool.Plan.Method && pathKey(t) == pathKey(tool)
	})
}

// overrides returns why an upstream may use another method or path than the request's, or
// "" if nothing in the request suggests it.
func overrides(req *http.Request, tool *tools.Tool) string {
	for name, values := range req.Header {
		switch httpheader.KindOf(name) {
		case httpheader.MethodOverride:
			if len(values) != 1 || values[0] != req.Method {
				return "its header " + name + " asks some servers for another method: remove it"
			}
		case httpheader.PathOverride:
			return "its header " + name + " asks some servers for another path: remove it"
		case httpheader.ProtocolSwitch:
			return "it asks to switch protocols, and what follows then cannot be seen: remove the header " + name
		}
	}
	query := req.URL.RawQuery
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
		if isOverride(name) && value != req.Method && !takesQuery(tool, name) {
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
func takesQuery(t *tools.Tool, name string) bool {
	return fixes(t, request.Query, name) != nil || slices.ContainsFunc(t.Plan.Arguments, func(a tools.Argument) bool { return a.In == tools.InQuery && a.WireName == name })
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
func plainReadings(path string, tool *tools.Tool) (readings []string, problem string) {
	if !request.IsPlainPath(path) || request.HasDotSegment([]byte(path), false) {
		return nil, ""
	}
	return appendStems([]string{fold(path)}, tool), ""
}

// maxDecoded is how many layers of percent-encoding are decoded.
const maxDecoded = 4

// readingsOf returns the folded paths that servers may read an escaped path as. Problem
// says what is not allowed in the path of any operation; "" if nothing is wrong.
func readingsOf(path string, tool *tools.Tool) (readings []string, problem string) {
	decoded := path
	for range maxDecoded {
		next := request.DecodeTriples(decoded)
		if next == decoded {
			break
		}
		decoded = next
	}
	switch {
	case request.DecodeTriples(decoded) != decoded:
		problem = "its path is percent-encoded more than " + strconv.Itoa(maxDecoded) + " times"
	case !utf8.ValidString(decoded):
		problem = "its path is not text in UTF-8"
	case text.HasControl(decoded):
		problem = "its path has a control character"
	case request.HasDotSegment([]byte(path), false), request.HasDotSegment([]byte(decoded), false):
		problem = "its path has a . or .. segment, which leads to another path: write the path it leads to"
	case tool != nil:
		problem = argumentProblem(tool, path)
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

// argumentProblem says what servers read in different ways in the arguments of an escaped path: many cut a
// segment at a plain semicolon, and drop empty segments after they decode slashes. It returns "" if nothing
// is wrong.
func argumentProblem(t *tools.Tool, path string) string {
	var onStack [8]string
	values, _ := match.PathValues(t, onStack[:0], path) // an error is reported when the arguments are read
	for _, part := range t.Plan.Parts {
		if part.Literal != "" || len(values) == 0 {
			continue
		}
		value := values[0]
		values = values[1:]
		if strings.Contains(value, ";") && !t.Plan.Encodings[part.Argument].Param.IsMatrix() {
			return `its path has a plain ";" in the argument ` + t.Plan.Arguments[part.Argument].WireName + ", where some servers cut it: write it as %3B"
		}
		for range maxDecoded {
			value = request.DecodeTriples(value)
		}
		if strings.Contains("/"+strings.ReplaceAll(value, `\`, "/")+"/", "//") {
			return "its path has an encoded slash at an end of the argument " + t.Plan.Arguments[part.Argument].WireName + ", or two in a row, which some servers remove"
		}
	}
	return ""
}

// appendStems appends the readings without a file extension, because some servers use the
// extension to choose the format of a response. It does nothing if the template itself has
// an extension.
func appendStems(readings []string, tool *tools.Tool) []string {
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
func endsWithParameter(t *tools.Tool) bool {
	parts := t.Plan.Parts
	n := len(parts)
	return n > 1 && parts[n-1].Literal == "" && strings.HasSuffix(parts[n-2].Literal, "/")
}

// pathKey returns the path without the names of its parameters.
func pathKey(t *tools.Tool) string {
	return strings.Join(t.Plan.Route(), "/")
}

// fixes returns the value that the tool's requests must have for a query parameter or
// header, or nil if any value is allowed.
func fixes(t *tools.Tool, in request.In, name string) []string {
	identity := t.Plan.Identity
	for i := range identity {
		if id := &identity[i]; id.In == in && id.Name == name {
			return id.Values
		}
	}
	return nil
}
