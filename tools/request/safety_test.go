package request_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/tools/request"
)

// TestReserved: a property of an exploded object does not pass for another
// parameter, however a server reads its name.
func TestReserved(t *testing.T) {
	for _, in := range []request.In{request.Query, request.Cookie, request.InBody} {
		p := request.Param{Name: "filter", In: in, Style: request.Form, Explode: true, Reserved: []string{"filter", "page", "a[b]"}}
		for _, value := range []string{`{"page":2}`, `{"x":1,"PAGE":2}`, `{"p\u0061ge":2}`, `{"page[]":2}`, `{"page[x]":2}`, `{"a[b]":1}`} {
			if problem := refused(t, p, value); !testkit.ContainsAll(problem, "read argument") {
				t.Errorf("%s: %s is refused with %q", in, value, problem)
			}
		}
		if got := appended(t, p, `{"filter":1,"pages":2,"a":3}`); strings.Count(got, "=") != 3 {
			t.Errorf("%s: got %q", in, got)
		}
		p.Explode = false
		if got := appended(t, p, `{"page":2}`); got != "filter=page,2" && got != "filter=page%2C2" {
			t.Errorf("%s: not exploded: got %q", in, got)
		}
	}
}

// TestPath: a path value never leaves its segment.
func TestPath(t *testing.T) {
	id := func(s request.Style, explode bool) request.Param {
		return request.Param{Name: "id", In: request.Path, Style: s, Explode: explode}
	}
	for value, want := range map[string]string{
		`"a/b"`:           "a%2Fb",
		`"a\\b"`:          "a%5Cb",
		`"a?b#c%d"`:       "a%3Fb%23c%25d",
		`"a b"`:           "a%20b",
		`"100%"`:          "100%25",
		`"%41"`:           "%2541",
		`"é"`:             "%C3%A9",
		`"..."`:           "...",
		`"a..b"`:          "a..b",
		`".hidden"`:       ".hidden",
		`"v1.."`:          "v1..",
		`"a;b=c"`:         "a%3Bb%3Dc",
		`"@me:x"`:         "%40me%3Ax",
		`0`:               "0",
		`false`:           "false",
		`["..a","b."]`:    "..a,b.",
		`["a",""]`:        "a,",
		`{"a":[ "../" ]}`: "a,%5B%22..%2F%22%5D",
	} {
		if got := appended(t, id(request.Simple, false), value); got != want {
			t.Errorf("%s: got %q, want %q", value, got, want)
		}
	}
	for _, c := range []struct {
		rule   string
		word   string // in the problem
		values []string
	}{
		{"empty", "empty", []string{`""`, `" "`, `null`, `[]`, `{}`, `[""]`, `[null]`, `"/"`, `"//"`, `"\\"`, `" / "`}},
		{"dot segments", "path segment", []string{
			`"."`, `".."`, `"../a"`, `"a/.."`, `"a/../b"`, `"a/./b"`, `"..\\a"`, `"a\\..\\b"`,
			`"\u002e\u002e"`, `".. "`, `" .."`, `"..;"`, `"..;x=y"`, `"a/..;x/b"`, `["a",".."]`, `{"..":1}`, `"/.."`,
		}},
		{"encoded dot segments", "path segment", []string{`"%2e"`, `"%2e%2e"`, `"%2E."`, `".%2e"`, `"a/%2e%2e/b"`}},
		{"encoded slashes", "percent-encoded", []string{`"%2f"`, `"a%2Fb"`, `"..%2f..%2fa"`, `"%5c"`, `"a%5Cb"`}},
		{"control characters", "control", []string{`"a\u0000"`, `"a\nb"`, `"a\r\nb"`, `"\t"`, `"\u007f"`, `"\u0085"`, `"\u009f"`}},
		{"encoded control characters", "control", []string{`"a%00"`, `"a%0d%0ab"`, `"%7f"`, `"%c2%85"`}},
		{"not JSON", "valid JSON", []string{``, ` `, `"a`, `["a"`, `["a" "b"]`, `{"a"}`, `{"a":`, `[,]`, `"\x"`}},
	} {
		for _, value := range c.values {
			if problem := refused(t, id(request.Simple, true), value); !testkit.ContainsAll(problem, c.word) {
				t.Errorf("%s: %s is refused with %q, which does not say %q", c.rule, value, problem, c.word)
			}
		}
	}

	// What single values do not show: the label's dot makes dot segments.
	refused(t, id(request.Label, false), `""`)
	refused(t, id(request.Label, true), `["",""]`)
	refused(t, id(request.Label, true), `["","/x"]`)
	refused(t, id(request.Label, false), `"/x"`)
	refused(t, id(request.Matrix, true), `[]`)

	p := id(request.Simple, false)
	_, err := must(t, p).Append(nil, []byte(`""`))
	if want := "the path argument id must not be empty"; err == nil || err.Error() != want {
		t.Errorf("the error is %v, want %s", err, want)
	}
}

func TestHeader(t *testing.T) {
	p := request.Param{Name: "X-Note", In: request.Header}
	for value, want := range map[string]string{
		`"Mon, 02 Jan 2006 15:04:05 GMT"`: "Mon, 02 Jan 2006 15:04:05 GMT",
		`"W/\"abc\", \"def\""`:            `W/"abc", "def"`,
		`"  a  "`:                         "a",
		`" \u0061 "`:                      "a",
		`"   "`:                           "",
		`"100% %41"`:                      "100% %41",
		`"José 100%"`:                     "Jos%C3%A9 100%25",
		`"\u00e9"`:                        "%C3%A9",
		`["a,b"," c ","d%"]`:              "a%2Cb,c,d%",
		`[{"é": 1}]`:                      `{"\u00e9":1}`,
	} {
		if got := appended(t, p, value); got != want {
			t.Errorf("%s: got %q, want %q", value, got, want)
		}
	}
	p.Explode = true
	if got, want := appended(t, p, `{"a=b":"c=d,e"}`), "a%3Db=c=d%2Ce"; got != want {
		t.Errorf("exploded object: got %q, want %q", got, want)
	}
	for _, value := range []string{
		`"a\r\nEvil: 1"`, `"a\nb"`, `"a\u0000"`, `"\ta"`, `"a\u007f"`, `"a\u0085b"`,
		`["a","b\r"]`, `{"a\n":"b"}`, `{"a":"b\n"}`,
	} {
		if problem := refused(t, p, value); !testkit.ContainsAll(problem, "control") {
			t.Errorf("%s: refused with %q", value, problem)
		}
	}
}

func TestForbiddenHeader(t *testing.T) {
	for _, name := range []string{
		"Connection", "keep-alive", "PROXY-Authorization", "Proxy-Connection", "TE", "Trailer",
		"Transfer-Encoding", "transfer_encoding", "Upgrade", "HTTP2-Settings", "Host", "Content-Length", "Content_Length",
		"Content-Type", "Content-Encoding", "Accept", "Expect", "Via", "Authorization", "Cookie", "Set-Cookie", "Forwarded",
		"X-Forwarded-For", "X_Forwarded_Host", "X-Real-IP", "X-HTTP-Method-Override", "X-Method-Override", "X-HTTP-Method",
		"X-Original-URL", "X-Rewrite-URL", "X-Accel-Mapping",
	} {
		if !request.ForbiddenHeader(name) {
			t.Errorf("%s may be set", name)
		}
	}
	for _, name := range []string{
		"X-Request-Id", "If-Match", "Accept-Language", "Idempotency-Key", "Stripe-Version",
		"Xero-Tenant-Id", "Range", "Prefer", "Content-Language", "Hostname", "X-Api-Key",
	} {
		if request.ForbiddenHeader(name) {
			t.Errorf("%s may not be set", name)
		}
	}
}

func TestCookie(t *testing.T) {
	p := request.Param{Name: "theme", In: request.Cookie, Explode: true}
	for value, want := range map[string]string{
		`"a; admin=1"`:      "theme=a%3B%20admin=1",
		`"a,b \"c\" \\"`:    "theme=a%2Cb%20%22c%22%20%5C",
		`"a\r\nb\u0000"`:    "theme=a%0D%0Ab%00",
		`"aGk+Lw=="`:        "theme=aGk+Lw==",
		`"50%"`:             "theme=50%25",
		`"é"`:               "theme=%C3%A9",
		`["a","b"]`:         "theme=a; theme=b",
		`{"a":1,"b;c":"d"}`: "a=1; b%3Bc=d",
	} {
		if got := appended(t, p, value); got != want {
			t.Errorf("%s: got %q, want %q", value, got, want)
		}
	}
	refused(t, p, `{"":1}`)
	p.Explode = false
	if got, want := appended(t, p, `["a,b","c"]`), "theme=a%2Cb,c"; got != want {
		t.Errorf("list: got %q, want %q", got, want)
	}
}

// TestDelimiters: an item that holds the delimiter would be read as two.
func TestDelimiters(t *testing.T) {
	for s, value := range map[request.Style]string{request.SpaceDelimited: `["a b"]`, request.PipeDelimited: `["x","a\u007cb"]`} {
		p := request.Param{Name: "q", In: request.Query, Style: s}
		refused(t, p, value)
		p.AllowReserved = true
		refused(t, p, value)
	}
	refused(t, request.Param{Name: "q", In: request.Query, Style: request.PipeDelimited, AllowReserved: true}, `["a%7cb"]`)
}

func TestDeep_object_names(t *testing.T) {
	p := request.Param{Name: "q", In: request.Query, Style: request.DeepObject, Explode: true}
	for _, value := range []string{`{"a][b":1}`, `{"":1}`, `{"a":{"[":1}}`} {
		refused(t, p, value)
	}
	if got, want := appended(t, p, `{"a&b=c":1}`), "q%5Ba%26b%3Dc%5D=1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLimits(t *testing.T) {
	p := request.Param{Name: "q", In: request.Query, Style: request.DeepObject, Explode: true}
	long := strconv.Quote(strings.Repeat("a", request.MaxLength))
	for name, value := range map[string]string{
		"a long value":  long,
		"a long name":   `{` + long + `:1}`,
		"many items":    `[` + strings.Repeat("1,", 10_000) + `1]`,
		"repeated path": `{"` + strings.Repeat("a", 1000) + `":[` + strings.Repeat("1,", 100) + `1]}`,
	} {
		if problem := refused(t, p, value); !testkit.ContainsAll(problem, "long") {
			t.Errorf("%s: refused with %q", name, problem)
		}
	}
	deep := strings.Repeat("[", request.MaxDepth+1) + strings.Repeat("]", request.MaxDepth+1)
	if problem := refused(t, p, deep); !testkit.ContainsAll(problem, "deeper") {
		t.Errorf("deep nesting: refused with %q", problem)
	}
	p.MaxLength = 4
	appended(t, p, `"ab"`)
	refused(t, p, `"abc"`)
}

func TestHasDotSegment(t *testing.T) {
	for path, want := range map[string]bool{
		"/a/../b":     true,
		"/a/.":        true,
		"..":          true,
		`/a\..\b`:     true,
		"/a/..;x/b":   true,
		"/a/.. ?q":    true,
		"/a/.../..b":  false,
		"/a/b.c/d":    false,
		"/a/%2e%2e/b": false,
		"":            false,
	} {
		if got := request.HasDotSegment([]byte(path), false); got != want {
			t.Errorf("%q: got %t, want %t", path, got, want)
		}
	}
	if !request.HasDotSegment([]byte("/a/%2e%2E/b"), true) {
		t.Error("encoded dots: got false with decoding, want true")
	}
}
