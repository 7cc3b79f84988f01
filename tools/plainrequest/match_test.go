package plainrequest

import (
	"bufio"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/match"
	"github.com/fairwayhq/fairway/tools/request"
)

// matched is a document whose operations can be taken for each other.
const matched = `openapi: 3.1.0
info: {title: T, version: "1"}
servers: [{url: https://api.example.com/v1}]
paths:
  /trips: {get: {operationId: list, parameters: [{name: page, in: query, schema: {type: integer}}], responses: {}}, post: {operationId: create, responses: {}}}
  /trips/latest: {get: {operationId: latest, responses: {}}}
  /trips/{id}:
    parameters: [{name: id, in: path, required: true, schema: {type: string}}]
    get: {operationId: get, responses: {}}
    delete: {operationId: remove, responses: {}}
  /trips/{id}.pdf:
    parameters: [{name: id, in: path, required: true, schema: {type: string}}]
    get: {operationId: print, responses: {}}
  /trips/{id}/seats:
    parameters: [{name: id, in: path, required: true, schema: {type: string}}]
    get: {operationId: seats, responses: {}}
    head: {operationId: countSeats, responses: {}}
  /files/{name}:
    parameters: [{name: name, in: path, required: true, schema: {type: string}}]
    get: {operationId: file, responses: {}}
  /{collection}/{item}/archive:
    parameters: [{name: collection, in: path, required: true, schema: {type: string}}, {name: item, in: path, required: true, schema: {type: string}}]
    post: {operationId: archive, responses: {}}
  /Stations/{code}:
    parameters: [{name: code, in: path, required: true, schema: {type: string}}]
    get: {operationId: station, responses: {}}
  /Stations/Main: {get: {operationId: main, responses: {}}}
  /slash/: {get: {operationId: slashed, responses: {}}}
  /slash: {get: {operationId: unslashed, responses: {}}}
  /range/{from}-{to}:
    parameters: [{name: from, in: path, required: true, schema: {type: string}}, {name: to, in: path, required: true, schema: {type: string}}]
    get: {operationId: range, responses: {}}
  /straße: {get: {operationId: street, responses: {}}}
  /cors: {options: {operationId: preflight, responses: {}}}
  /override: {post: {operationId: override, parameters: [{name: _method, in: query, schema: {type: string}}], responses: {}}}
`

// TestMatch: each trick by which a request for one operation is made to look like
// another, or like none.
func TestMatch(t *testing.T) {
	routes := NewRoutes(buildTools(t, matched, tools.BuildOptions{}))
	const none, ambiguous = "none", "ambiguous"
	for req, want := range map[string]string{
		// as the document spells it
		"GET /v1/trips":                 "list",
		"GET /v1/trips?page=2":          "list",
		"GET /v1/trips/latest":          "latest",
		"GET /v1/trips/7":               "get",
		"GET /v1/trips/Ab-9_~.x":        "get",
		"GET /v1/trips/7.pdf":           "print",
		"GET /v1/trips/7/seats":         "seats",
		"GET /v1/files/report.pdf":      "file",
		"GET /v1/files/a%2Fb":           "file", // its value has a slash, and no operation is below it
		"GET /v1/files/50%25":           "file",
		"GET /v1/files/a%20b":           "file",
		"GET /v1/files/%37":             "file", // over-encoded, and the same to everyone
		"GET /v1/files/stra%c3%9fe":     "file",
		"GET /v1/Stations/x":            "station",
		"GET /v1/Stations/Main":         "main",
		"GET /v1/slash/":                "slashed",
		"GET /v1/slash":                 "unslashed",
		"GET /v1/range/1-5":             "range",
		"GET /v1/stra%C3%9Fe":           "street",
		"GET /v1/stra%c3%9fe":           "street",
		"POST /v1/stations/7/archive":   "archive",
		"OPTIONS /v1/cors":              "preflight",
		"POST /v1/override?_method=PUT": "override", // declared, and so an argument

		// HEAD
		"HEAD /v1/trips":         "list",
		"HEAD /v1/trips/latest":  "latest",
		"HEAD /v1/trips/7":       "get",
		"HEAD /v1/trips/7/seats": "countSeats",
		"HEAD /v1/TRIPS":         ambiguous,

		// nothing, however it is read
		"GET /":                none,
		"GET /v1":              none,
		"GET /trips":           none,
		"GET /v1/users":        none,
		"PUT /v1/trips":        none,
		"OPTIONS /v1/trips":    none,
		"TRACE /v1/trips":      none,
		"GET /v1/trips/7/crew": none,
		"GET /v1/../trips":     none,

		// case
		"GET /v1/Trips":                ambiguous,
		"GET /V1/trips":                ambiguous,
		"get /v1/trips":                ambiguous,
		"Delete /v1/trips/7":           ambiguous,
		"GET /v1/trips/LATEST":         ambiguous, // get by its spelling, latest where case does not count
		"GET /v1/trips/late%C5%BFt":    ambiguous, // ſ is a capital S
		"GET /v1/trips/7.PDF":          ambiguous,
		"GET /v1/stations/x":           ambiguous,
		"GET /v1/Stations/main":        ambiguous,
		"POST /v1/Trips/7/archive":     "archive", // no operation of another case has that path
		"GET /v1/trips/%EF%BD%8Catest": ambiguous, // a fullwidth l

		// encoding
		"GET /v1/%74rips":               ambiguous,
		"GET /v1/trips/%6Catest":        ambiguous,
		"GET /v1/trips/%256Catest":      ambiguous,
		"GET /v1/trips/%25256Catest":    ambiguous,
		"GET /v1/trips%2F7":             ambiguous,
		"GET /v1%2Ftrips/7":             ambiguous,
		"GET /v1/trips/7%2Fseats":       ambiguous,
		"GET /v1/trips/7%2fseats":       ambiguous,
		"GET /v1/trips/7%252Fseats":     ambiguous,
		"GET /v1/trips/7%5Cseats":       ambiguous,
		"GET /v1/trips/7%2Epdf":         ambiguous,
		"GET /v1/trips/latest%3Fx":      ambiguous, // decoded before the query is cut off
		"GET /v1/trips/latest%23":       ambiguous,
		"GET /v1/trips/latest%00":       ambiguous,
		"GET /v1/files/a%00":            ambiguous,
		"GET /v1/files/a%0Ab":           ambiguous,
		"GET /v1/files/%c0%af":          ambiguous,
		"GET /v1/files/%FF":             ambiguous,
		"GET /v1/files/%25252525252525": ambiguous,

		// slashes
		"GET /v1/trips/":         ambiguous,
		"GET /v1//trips":         ambiguous,
		"GET //v1/trips":         ambiguous,
		"GET /v1/trips//7":       ambiguous,
		"GET /v1/trips/7/":       ambiguous,
		"GET /v1/trips/7//seats": ambiguous,
		`GET /v1/trips\7`:        ambiguous,
		`GET /v1\trips/7`:        ambiguous,

		// segments that lead elsewhere
		"GET /v1/./trips":          ambiguous,
		"GET /v1/trips/.":          ambiguous,
		"GET /v1/trips/..":         ambiguous,
		"GET /v1/x/../trips":       ambiguous,
		"GET /v1/trips/%2e%2e":     ambiguous,
		"GET /v1/trips/%252e%252e": ambiguous,
		"GET /v1/files/..%2Ftrips": ambiguous,
		"GET /v1/files/..;/trips":  ambiguous,
		"GET /v1/files/a%2F..%2Fb": ambiguous,
		`GET /v1/files/..%5Ctrips`: ambiguous,

		// what servers cut off
		"GET /v1/trips;x=1":           ambiguous,
		"GET /v1/trips;x/7":           ambiguous,
		"GET /v1/trips/latest;x=1":    ambiguous,
		"GET /v1/trips/latest%3Bx":    ambiguous,
		"GET /v1/trips/latest;%2Fx":   ambiguous,
		"GET /v1/files/a;b":           ambiguous,
		"GET /v1/files/;b":            ambiguous,
		"GET /v1/files/a%3Bb":         "file",
		"GET /v1/files/%2fa":          ambiguous,
		"GET /v1/files/a%2f":          ambiguous,
		"GET /v1/files/a%252f":        ambiguous,
		"GET /v1/files/a%2F%2Fb":      ambiguous,
		"GET /v1/files/a%5C":          ambiguous,
		"GET /v1/trips/latest.json":   ambiguous,
		"GET /v1/trips/7.json":        "get",
		"GET /v1/trips/late%73t.json": ambiguous,
		"GET /v1/trips/latest.json;x": ambiguous,
		"GET /v1/trips.json":          ambiguous,
		"GET /v1/trips/latest.":       ambiguous,
		"GET /v1/trips/latest%20":     ambiguous,

		// another method or path
		"POST /v1/trips?_method=DELETE":                ambiguous,
		"POST /v1/trips?a=b&%5FMETHOD=DELETE":          ambiguous,
		"POST /v1/trips?_method=POST":                  "create",
		"POST /v1/trips?_HttpMethod=DELETE":            ambiguous,
		"POST /v1/trips?x-http-method-override=DELETE": ambiguous,
	} {
		method, target, _ := strings.Cut(req, " ")
		if got, err := outcomeOf(t, routes, method, target, nil); got != want {
			t.Errorf("%s: got %s (%v), want %s", req, got, err, want)
		}
	}
	for _, test := range []struct{ name, value, want string }{
		{"X-HTTP-Method-Override", "DELETE", ambiguous},
		{"X-HTTP-Method-Override", "GET", "get"},
		{"X-HTTP-Method", "delete", ambiguous},
		{"X-Method-Override", "DELETE", ambiguous},
		{"X_HTTP_Method_Override", "DELETE", ambiguous},
		{"X-Original-URL", "/v1/trips", ambiguous},
		{"X-Rewrite-Url", "/v1/trips", ambiguous},
		{"Script_name", "/v1/trips", ambiguous},
		{"Path_info", "/v1/trips/latest", ambiguous},
		{"X-Script-Name", "/v1", ambiguous},
		{"Upgrade", "h2c", ambiguous},
		{"Upgrade", "websocket", ambiguous},
		{"HTTP2-Settings", "AAMAAABkAARAAAAAAAIAAAAA", ambiguous},
		{"X-Request-Id", "DELETE", "get"},
		{"User-Agent", "DELETE", "get"},
	} {
		if got, err := outcomeOf(t, routes, "GET", "/v1/trips/7", http.Header{http.CanonicalHeaderKey(test.name): {test.value}}); got != test.want {
			t.Errorf("%s: %s: got %s (%v), want %s", test.name, test.value, got, err, test.want)
		}
	}
}

// outcomeOf returns the name of the tool that the request is matched to, or what it
// is refused as.
func outcomeOf(t *testing.T, routes *Routes, method, target string, header http.Header) (string, error) {
	t.Helper()
	parsed, err := url.ParseRequestURI(target)
	if err != nil {
		t.Fatal(err)
	}
	tool, err := routes.Match(&http.Request{Method: method, URL: parsed, Header: header})
	var ambiguous *match.AmbiguousError
	switch {
	case errors.As(err, &ambiguous):
		return "ambiguous", err
	case errors.Is(err, match.ErrNoOperation):
		return "none", err
	case err != nil:
		t.Fatal(err)
	}
	return tool.Name, nil
}

// TestMatch_is_no_proxy_target: requests without a path of their own match nothing.
func TestMatch_is_no_proxy_target(t *testing.T) {
	routes := NewRoutes(buildTools(t, matched, tools.BuildOptions{}))
	for _, target := range []*url.URL{
		{Opaque: "/v1/trips"}, {Path: "*"}, {}, {Path: "v1/trips"}, {Path: "/" + strings.Repeat("a", maxMatched)},
	} {
		if tool, err := routes.Match(&http.Request{Method: "GET", URL: target}); !errors.Is(err, match.ErrNoOperation) {
			t.Errorf("%v: %v, %v", target, tool, err)
		}
	}
}

// TestMatch_several_toolsets: an operation that two documents declare is the first's.
func TestMatch_several_toolsets(t *testing.T) {
	first, second := buildTools(t, matched, tools.BuildOptions{Name: "first"}), buildTools(t, matched, tools.BuildOptions{Name: "second"})
	tool, err := NewRoutes(first, second).Match(&http.Request{Method: "GET", URL: &url.URL{Path: "/v1/trips/7"}})
	if want, _ := first.Tool("get"); err != nil || tool != want {
		t.Errorf("%v, %v", tool, err)
	}
}

// FuzzMatch: what matches is spelled as its document spells it.
func FuzzMatch(f *testing.F) {
	for _, seed := range []string{"/v1/trips", "/v1/trips/7%2Fseats", "/V1/./trips//;x", "/v1/trips/%C3%9F.json", `/v1\trips`, "/%25252e"} {
		f.Add("GET", seed)
	}
	routes := NewRoutes(buildTools(f, matched, tools.BuildOptions{}))
	f.Fuzz(func(t *testing.T, method, target string) {
		parsed, err := url.ParseRequestURI(target)
		if err != nil {
			return
		}
		tool, err := routes.Match(&http.Request{Method: method, URL: parsed})
		if (tool == nil) == (err == nil) {
			t.Fatalf("%v, %v", tool, err)
		}
		if err != nil {
			return
		}
		path := parsed.EscapedPath()
		if tool.Plan.Method != method && (method != "HEAD" || tool.Plan.Method != "GET") || !strings.HasPrefix(path, "/v1/") {
			t.Fatalf("%s %s is %s", method, path, tool.Operation())
		}
		if request.HasDotSegment([]byte(path), false) || strings.Contains(path, "//") || strings.HasSuffix(path, "/") != strings.HasSuffix(tool.Plan.Path, "/") {
			t.Fatalf("%s %s is %s", method, path, tool.Operation())
		}
	})
}

func BenchmarkMatch(b *testing.B) {
	routes := NewRoutes(buildTools(b, matched, tools.BuildOptions{}))
	header := http.Header{
		"Accept": {"*/*"}, "User-Agent": {"test"}, "Authorization": {"Bearer x"}, "X-Request-Id": {"1"}, "Accept-Encoding": {"gzip"},
	}
	for _, target := range []string{"/v1/trips/7/seats", "/v1/files/A%20b.pdf"} {
		b.Run(target, func(b *testing.B) {
			parsed, _ := url.Parse(target)
			req := &http.Request{Method: "GET", URL: parsed, Header: header}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := routes.Match(req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestMatchRaw: requests as they come from the wire.
func TestMatchRaw(t *testing.T) {
	routes := NewRoutes(buildTools(t, matched, tools.BuildOptions{}))
	for line, want := range map[string]string{
		"GET /v1/trips/7":                                "get",
		"GET http://api.example.com/v1/trips/7":          "get", // its authority is the Host
		"GET http://api.example.com/v1/trips/LATEST":     "ambiguous",
		"GET http://api.example.com//v1/trips/7":         "ambiguous",
		"GET http://api.example.com":                     "none",
		"GET http://user:secret@api.example.com/v1/x":    "none",
		"GET //api.example.com/v1/trips/7":               "none",
		"GET ///v1/trips/7":                              "ambiguous",
		"GET /v1/trips/latest#x":                         "ambiguous",
		"GET /v1/trips/7?/../latest":                     "get",
		"GET /v1/trips/latest%3F/../7":                   "ambiguous",
		"GET /v1/trips/latest;/../7":                     "ambiguous",
		"GET /v1/trips/%C0%AE%C0%AE/latest":              "none", // two segments, of which no operation is
		"GET /v1/trips/l%E1atest":                        "ambiguous",
		"OPTIONS *":                                      "none",
		"CONNECT api.example.com:443":                    "none",
		"PRI *":                                          "none",
		"get /v1/trips/7":                                "ambiguous",
		"DELETE /v1/trips/7":                             "remove",
		"GET /v1/trips/7?_method=DELETE&_method=GET":     "ambiguous",
		"POST /v1/trips?%5Fmethod=DELETE":                "ambiguous",
		"POST /v1/trips?X-HTTP-Method-Override=DELETE&a": "ambiguous",
	} {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(line + " HTTP/1.1\r\nHost: localhost\r\n\r\n")))
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		tool, err := routes.Match(r)
		got := "none"
		var ambiguous *match.AmbiguousError
		switch {
		case tool != nil:
			got = tool.Name
		case errors.As(err, &ambiguous):
			got = "ambiguous"
		}
		if got != want {
			t.Errorf("%s: got %s (%v), want %s", line, got, err, want)
		}
	}
}
