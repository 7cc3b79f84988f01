package plainrequest

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/match"
	"github.com/fairwayhq/fairway/tools/request"
)

const multipartBody = "--b\r\nContent-Disposition: form-data; name=\"name\"\r\n\r\nx\r\n" +
	"--b\r\nContent-Disposition: form-data; name=\"seats\"\r\n\r\n3\r\n" +
	"--b\r\nContent-Disposition: form-data; name=\"meta\"\r\nContent-Type: application/json\r\n\r\n{\"a\":1}\r\n" +
	"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a b.png\"\r\nContent-Type: image/png\r\n\r\nPNG\r\n--b--\r\n"

// A plain request as a test has it: the lines of the header are divided by " | ".
type plainRequest struct{ rule, request, header, body, want string }

func (p plainRequest) build(t *testing.T, toolset *tools.Toolset) (*tools.Tool, *http.Request) {
	t.Helper()
	method, target, _ := strings.Cut(p.request, " ")
	r := httptest.NewRequestWithContext(context.Background(), method, target, http.NoBody)
	for line := range strings.SplitSeq(p.header, " | ") {
		if name, value, ok := strings.Cut(line, ": "); ok {
			r.Header[http.CanonicalHeaderKey(name)] = append(r.Header[http.CanonicalHeaderKey(name)], value)
		}
	}
	tool, err := NewRoutes(toolset).Match(r)
	if err != nil {
		t.Fatal(err)
	}
	return tool, r
}

func TestReadRequest(t *testing.T) {
	toolset := buildTools(t, testkit.Readable, tools.BuildOptions{})
	const asJSON, asForm = "Content-Type: application/json", "Content-Type: application/x-www-form-urlencoded"
	for _, test := range []plainRequest{
		{"a path", "GET /v1/trips/7", "", "", `{"id":"7"}`},
		{"a path is decoded", "GET /v1/trips/a%2Fb%20c", "", "", `{"id":"a/b c"}`},
		{"types", "GET /v1/trips/7?page=2&price=1.50&direct=true&any=5", "", "", `{"id":"7","page":2,"price":1.50,"direct":true,"any":"5"}`},
		{"big numbers keep their digits", "GET /v1/trips/7?page=12345678901234567890", "", "", `{"id":"7","page":12345678901234567890}`},
		{"one of two types", "GET /v1/trips/7?code=5", "", "", `{"id":"7","code":5}`},
		{"the other of two types", "GET /v1/trips/7?code=05", "", "", `{"id":"7","code":"05"}`},
		{"a list", "GET /v1/trips/7?fields=a,b", "", "", `{"id":"7","fields":["a","b"]}`},
		{"a list whose commas are encoded, as most clients do", "GET /v1/trips/7?fields=a%2Cb", "", "", `{"id":"7","fields":["a","b"]}`},
		{"exploded", "GET /v1/trips/7?class=a&class=b", "", "", `{"id":"7","class":["a","b"]}`},
		{"exploded, one", "GET /v1/trips/7?class=a", "", "", `{"id":"7","class":["a"]}`},
		{"brackets in the name", "GET /v1/trips/7?expand[]=a&expand%5B%5D=b", "", "", `{"id":"7","expand":["a","b"]}`},
		{"pipes", "GET /v1/trips/7?seats=1%7C2", "", "", `{"id":"7","seats":[1,2]}`},
		{"deepObject", "GET /v1/trips/7?filter[from]=x&filter[stops][0]=1&filter[stops][1]=2", "", "", `{"id":"7","filter":{"from":"x","stops":[1,2]}}`},
		{"deepObject with empty brackets", "GET /v1/trips/7?filter[stops][]=1&filter[stops][]=2", "", "", `{"id":"7","filter":{"stops":[1,2]}}`},
		{"an exploded object", "GET /v1/trips/7?lat=1.5&lon=2", "", "", `{"id":"7","where":{"lat":1.5,"lon":2}}`},
		{"JSON", "GET /v1/trips/7?query=%7B%22a%22:[1]%7D", "", "", `{"id":"7","query":{"a":[1]}}`},
		{"a space", "GET /v1/trips/7?any=a+b%20c", "", "", `{"id":"7","any":"a b c"}`},
		{"undeclared", "GET /v1/trips/7?x=1&y&x=2&page=1", "", "", `{"id":"7","page":1,"_query":{"x":["1","2"],"y":[""]}}`},
		{"HEAD", "HEAD /v1/trips/7?page=2", "", "", `{"id":"7","page":2}`},
		{"two parameters in a segment", "GET /v1/range/1-5", "", "", `{"from":1,"to":5}`},

		{"a header", "GET /v1/trips/7", "X-Trace-Id: 50% a,b", "", `{"id":"7","X_Trace_Id":"50% a,b"}`},
		{"a header that is encoded as it is sent", "GET /v1/trips/7", "X-Trace-Id: %C3%A9", "", `{"id":"7","X_Trace_Id":"é"}`},
		{"a header that needs no decoding", "GET /v1/trips/7", "X-Trace-Id: %41", "", `{"id":"7","X_Trace_Id":"%41"}`},
		{"a list of header lines", "GET /v1/trips/7", "X-Tags: a, b | X-Tags: c", "", `{"id":"7","X_Tags":["a","b","c"]}`},
		{"cookies", "GET /v1/trips/7", "Cookie: session=secret; theme=dark%20blue; ids=1,2", "", `{"id":"7","theme":"dark blue","ids":[1,2]}`},
		{"other headers are none", "GET /v1/trips/7", "User-Agent: x | X_Other: y", "", `{"id":"7"}`},

		{"a body", "PATCH /v1/trips/7", asJSON, `{"note":"x","seats":3}`, `{"id":"7","note":"x","seats":3}`},
		{"a body that clashes", "PATCH /v1/trips/7", asJSON, `{"id":"8","note":"x"}`, `{"id":"7","body_id":"8","note":"x"}`},
		{"null", "PATCH /v1/trips/7", asJSON, `{"window":null,"seats":null}`, `{"id":"7","window":null,"seats":null}`},
		{"undeclared and read-only properties", "PATCH /v1/trips/7", asJSON, `{"created":"x","other":[1]}`, `{"id":"7","_body":{"created":"x","other":[1]}}`},
		{"parameters of a Content-Type", "PATCH /v1/trips/7", asJSON + `; charset="UTF-8"`, `{}`, `{"id":"7"}`},
		{"no body", "PATCH /v1/trips/7", asJSON, ``, `{"id":"7"}`},
		{"further properties that are declared", "POST /v1/labels?tag=a", asJSON, `{"name":"x","weight":3}`, `{"tag":"a","name":"x","weight":3}`},
		{"further properties by the name of an argument", "POST /v1/labels", asJSON, `{"_query":3}`, `{"_body":{"_query":3}}`},
		{"a whole body", "POST /v1/search", "Content-Type: application/vnd.trains+json", ` ["a"] `, `{"body":["a"]}`},
		{"a form", "POST /v1/forms", asForm, `name=a+b&seats=3&tags=x&tags=y&meta[a][b]=c`, `{"meta":{"a":{"b":"c"}},"name":"a b","seats":3,"tags":["x","y"]}`},
		{"a form with undeclared fields", "POST /v1/forms", asForm, `x=1&y=1&y=2`, `{"_body":{"x":"1","y":["1","2"]}}`},
		{
			"multipart", "POST /v1/uploads", "Content-Type: multipart/form-data; boundary=b", multipartBody,
			`{"name":"x","seats":3,"meta":{"a":1},"file":{"data":"UE5H","filename":"a b.png","type":"image/png"}}`,
		},
		{"text", "POST /v1/notes", "Content-Type: text/plain; charset=utf-8", "é\n", `{"body":"é\n"}`},
		{"bytes", "POST /v1/images", "Content-Type: image/png", "PNG\xff", `{"body":{"data":"UE5H/w==","type":"image/png"}}`},
		{"connections that take nothing away", "GET /v1/trips/7", "Connection: keep-alive, TE, close | X-Trace-Id: a", "", `{"id":"7","X_Trace_Id":"a"}`},
		{"a body with the path's id", "PUT /v1/whole/7", asJSON, `{"id":"7"}`, `{"id":"7","_body":{"id":"7"}}`},
		{"names that the document has in two cases", "PUT /v1/whole/7", asJSON, `{"price":{"unit":"a","Unit":"b","x":{"y":1}},"legs":[{"to":"a"},{"to":"b"}]}`, `{"id":"7","price":{"unit":"a","Unit":"b","x":{"y":1}},"legs":[{"to":"a"},{"to":"b"}]}`},
		{"a form of anything", "POST /v1/free", asForm, `a=1&_method=POST`, `{"body":{"a":"1","_method":"POST"}}`},
		{"a method that overrides nothing", "POST /v1/forms", asForm, `_method=POST`, `{"_body":{"_method":"POST"}}`},
	} {
		t.Run(test.rule, func(t *testing.T) {
			tool, r := test.build(t, toolset)
			got, err := reader.ReadRequest(tool, r, []byte(test.body))
			if err != nil || string(got) != test.want {
				t.Errorf("got %s, %v\nwant %s", got, err, test.want)
			}
			if _, err := strictjson.Members(nil, got); err != nil {
				t.Errorf("%s: %v", got, err)
			}
		})
	}
}

// TestReadRequest_refuses: what one server may read otherwise than another hides
// nothing from the code that decides on the arguments.
func TestReadRequest_refuses(t *testing.T) {
	toolset := buildTools(t, testkit.Readable, tools.BuildOptions{})
	const asJSON, asForm = "Content-Type: application/json", "Content-Type: application/x-www-form-urlencoded"
	const asParts = "Content-Type: multipart/form-data; boundary=b"
	for _, test := range []plainRequest{
		{"given twice", "GET /v1/trips/7?page=1&page=2", "", "", "duplicate"},
		{"given twice, once encoded", "GET /v1/trips/7?page=1&p%61ge=2", "", "", "duplicate"},
		{"a list given twice", "GET /v1/trips/7?fields=a&fields=b", "", "", "duplicate"},
		{"an unknown type given twice", "GET /v1/trips/7?any=a&any=b", "", "", "duplicate"},
		{"a property given twice", "GET /v1/trips/7?lat=1&lat=2", "", "", "duplicate"},
		{"a deepObject given twice", "GET /v1/trips/7?filter[from]=1&filter[from]=2", "", "", "duplicate"},
		{"a deepObject with a value and properties", "GET /v1/trips/7?filter[from]=1&filter[from][x]=2", "", "", "duplicate"},
		{"another case", "GET /v1/trips/7?page=1&Page=2", "", "", "ambiguous"},
		{"another case alone", "GET /v1/trips/7?PAGE=2", "", "", "ambiguous"},
		{"brackets", "GET /v1/trips/7?page[]=2", "", "", "ambiguous"},
		{"brackets of a list", "GET /v1/trips/7?class=a&class[0]=b", "", "", "ambiguous"},
		{"no brackets", "GET /v1/trips/7?expand=b", "", "", "ambiguous"},
		{"a dot for an underscore", "GET /v1/trips/7?trip.id=b", "", "", "ambiguous"},
		{"a camel for an underscore", "GET /v1/trips/7?tripId=b", "", "", "ambiguous"},
		{"a space before the name", "GET /v1/trips/7?+page=2", "", "", "ambiguous"},
		{"a NUL behind the name", "GET /v1/trips/7?page%00=2", "", "", "ambiguous"},
		{"a deepObject in another case", "GET /v1/trips/7?Filter[from]=2", "", "", "ambiguous"},
		{"a semicolon", "GET /v1/trips/7?any=1;page=2", "", "", "ambiguous"},
		{"gaps in a deepObject", "GET /v1/trips/7?filter[stops][1]=2", "", "", "ambiguous"},
		{"objects in empty brackets", "GET /v1/trips/7?filter[stops][][a]=2", "", "", "ambiguous"},
		{"no number", "GET /v1/trips/7?page=x", "", "", "unfit"},
		{"a number that some read", "GET /v1/trips/7?page=05", "", "", "unfit"},
		{"a number with a sign", "GET /v1/trips/7?page=%2B5", "", "", "unfit"},
		{"a number with space", "GET /v1/trips/7?page=5%20", "", "", "unfit"},
		{"a fraction", "GET /v1/trips/7?page=5.5", "", "", "unfit"},
		{"nothing for a number", "GET /v1/trips/7?page=", "", "", "unfit"},
		{"no boolean", "GET /v1/trips/7?direct=1", "", "", "unfit"},
		{"a number in a list", "GET /v1/trips/7?seats=1%7Cx", "", "", "unfit"},
		{"a bad escape", "GET /v1/trips/7?any=%zz", "", "", "malformed"},
		{"no UTF-8", "GET /v1/trips/7?any=%ff", "", "", "malformed"},
		{"no UTF-8 in an undeclared name", "GET /v1/trips/7?%ff=1", "", "", "malformed"},
		{"no JSON", "GET /v1/trips/7?query=%7B", "", "", "malformed"},
		{"JSON with a name twice", "GET /v1/trips/7?query=%7B%22a%22:1,%22a%22:2%7D", "", "", "malformed"},
		{"brackets that do not match", "GET /v1/trips/7?filter[from=1", "", "", "malformed"},
		{"a path that is encoded twice", "GET /v1/trips/a%252Fb", "", "", "ambiguous"},
		{"a path of spaces", "GET /v1/trips/%20", "", "", "malformed"},
		{"parameters that cannot be distinguished", "GET /v1/range/1-2-3", "", "", "ambiguous"},
		{"parameters that cannot be distinguished once decoded", "GET /v1/range/1-2%2D3", "", "", "ambiguous"},

		{"a header twice", "GET /v1/trips/7", "X-Trace-Id: a | X-Trace-Id: b", "", "duplicate"},
		{"a header with an underscore", "GET /v1/trips/7", "X_Trace_Id: a", "", "ambiguous"},
		{"a header in Latin 1", "GET /v1/trips/7", "X-Trace-Id: \xe9", "", "ambiguous"},
		{"a cookie twice", "GET /v1/trips/7", "Cookie: theme=a; theme=b", "", "duplicate"},
		{"a cookie twice in two lines", "GET /v1/trips/7", "Cookie: theme=a | Cookie: theme=b", "", "duplicate"},
		{"a cookie in quotes", "GET /v1/trips/7", `Cookie: theme="a"`, "", "ambiguous"},
		{"a cookie that encodes letters", "GET /v1/trips/7", `Cookie: theme=%61`, "", "ambiguous"},

		{"a body where none is declared", "GET /v1/trips/7", asJSON, `{"page":2}`, "undeclared_body"},
		{"a name twice", "PATCH /v1/trips/7", asJSON, `{"seats":1,"seats":2}`, "malformed"},
		{"a name twice, once escaped", "PATCH /v1/trips/7", asJSON, `{"seats":1,"se\u0061ts":2}`, "malformed"},
		{"a name twice inside", "PATCH /v1/trips/7", asJSON, `{"other":{"a":1,"a":2}}`, "malformed"},
		{"a name in another case", "PATCH /v1/trips/7", asJSON, `{"Seats":2}`, "ambiguous"},
		{"no JSON", "PATCH /v1/trips/7", asJSON, `{"seats":2`, "malformed"},
		{"two JSON values", "PATCH /v1/trips/7", asJSON, `{} {}`, "malformed"},
		{"a byte order mark", "PATCH /v1/trips/7", asJSON, "\ufeff{}", "malformed"},
		{"UTF-16", "PATCH /v1/trips/7", asJSON, "{\x00}\x00", "malformed"},
		{"no object", "PATCH /v1/trips/7", asJSON, `[1]`, "unfit"},
		{"a number as text", "PATCH /v1/trips/7", asJSON, `{"seats":"2"}`, "unfit"},
		{"a further property of another type", "POST /v1/search", "Content-Type: application/vnd.trains+json", `7`, "unfit"},
		{"another Content-Type", "PATCH /v1/trips/7", asForm, `seats=2`, "media_type"},
		{"a Content-Type near it", "PATCH /v1/trips/7", "Content-Type: application/merge-patch+json", `{}`, "media_type"},
		{"no Content-Type", "PATCH /v1/trips/7", "", `{}`, "media_type"},
		{"two Content-Types", "PATCH /v1/trips/7", asJSON + " | " + asForm, `{}`, "duplicate"},
		{"a Content-Type that is none", "PATCH /v1/trips/7", "Content-Type: application/json; a=b; a=c", `{}`, "malformed"},
		{"a charset", "PATCH /v1/trips/7", asJSON + "; charset=utf-16", `{}`, "charset"},
		{"UTF-7", "POST /v1/notes", "Content-Type: text/plain; charset=utf-7", `+AGE-`, "charset"},
		{"text that is not UTF-8", "POST /v1/notes", "Content-Type: text/plain", "\xe9", "charset"},
		{"compressed", "PATCH /v1/trips/7", asJSON + " | Content-Encoding: gzip", "\x1f\x8b", "content_encoding"},
		{"a query parameter by the name of a field", "POST /v1/forms?seats=500", asForm, "seats=5", "ambiguous"},
		{"a query parameter by the name of a field that is absent", "PATCH /v1/trips/7?Seats=500", asJSON, `{"note":"x"}`, "ambiguous"},
		{"a query parameter by the name of one of the path", "GET /v1/trips/7?id=8", "", "", "ambiguous"},
		{"a property by the name of a query parameter", "POST /v1/labels?tag=a", asJSON, `{"tag":7}`, "ambiguous"},
		{"a header that is taken away", "GET /v1/trips/7", "X-Trace-Id: a | Connection: close, X-Trace-Id", "", "ambiguous"},
		{"a Content-Type that is taken away", "PATCH /v1/trips/7", asJSON + " | Connection: content-type", `{}`, "ambiguous"},
		{"a cookie that is taken away", "GET /v1/trips/7", "Cookie: theme=a | Connection: Cookie", "", "ambiguous"},
		{"a Content-Type with an underscore", "PATCH /v1/trips/7", asJSON + " | Content_Type: text/plain", `{}`, "ambiguous"},
		{"a preamble", "POST /v1/uploads", asParts, "--b \r\n" + multipartBody, "malformed"},
		{"an epilogue", "POST /v1/uploads", asParts, multipartBody + multipartBody[:60], "malformed"},
		{"lines that end with LF", "POST /v1/uploads", asParts, strings.ReplaceAll(multipartBody, "\r\n", "\n"), "malformed"},
		{"two boundaries", "POST /v1/uploads", asParts + "; boundary*0=c", multipartBody, "ambiguous"},
		{"a method in a form of anything", "POST /v1/free", asForm, "a=1&_METHOD=DELETE", "method_override"},
		{"a method in multipart", "POST /v1/uploads", asParts, strings.Replace(multipartBody, `name="name"`, `name="_method"`, 1), "method_override"},
		{"a name inside in another case beside it", "PUT /v1/whole/7", asJSON, `{"price":{"amount":5,"Amount":5000}}`, "ambiguous"},
		{"a name inside in another case alone", "PUT /v1/whole/7", asJSON, `{"price":{"AMOUNT":5000}}`, "ambiguous"},
		{"a name inside of a list in another case", "PUT /v1/whole/7", asJSON, `{"legs":[{"to":"a"},{"T\u006f":"b"}]}`, "ambiguous"},
		{"undeclared names inside that differ in case", "PUT /v1/whole/7", asJSON, `{"price":{"x":{"y":1,"Y":2}}}`, "ambiguous"},
		{"a deepObject with names that differ in case", "GET /v1/trips/7?filter[from]=1&filter[From]=2", "", "", "ambiguous"},
		{"JSON in the query with names that differ in case", "GET /v1/trips/7?query=%7B%22a%22:1,%22A%22:2%7D", "", "", "ambiguous"},
		{"a method in a form", "POST /v1/forms", asForm, "_method=DELETE", "method_override"},
		{"a method in JSON", "PATCH /v1/trips/7", asJSON, `{"_METHOD":"DELETE"}`, "method_override"},
		{"a field twice", "POST /v1/forms", asForm, "seats=1&seats=2", "duplicate"},
		{"a field in another case", "POST /v1/forms", asForm, "Seats=2", "ambiguous"},
		{"a field that is no number", "POST /v1/forms", asForm, "seats=two", "unfit"},
		{"a part twice", "POST /v1/uploads", asParts, multipartBody[:len(multipartBody)-len("--b--\r\n")] + multipartBody, "duplicate"},
		{"no boundary", "POST /v1/uploads", "Content-Type: multipart/form-data", multipartBody, "malformed"},
		{"a part cut off", "POST /v1/uploads", asParts, multipartBody[:60], "malformed"},
		{"a part in base64", "POST /v1/uploads", asParts, strings.Replace(multipartBody, "\r\n\r\nx", "\r\nContent-Transfer-Encoding: base64\r\n\r\neA==", 1), "ambiguous"},
		{"a part with two names", "POST /v1/uploads", asParts, strings.Replace(multipartBody, `name="seats"`, `name="a"; name="seats"`, 1), "malformed"},
		{"a part with an extended name", "POST /v1/uploads", asParts, strings.Replace(multipartBody, `name="seats"`, `name="a"; name*=UTF-8''seats`, 1), "ambiguous"},
		{"a file for a text", "POST /v1/uploads", asParts, strings.Replace(multipartBody, `name="seats"`, `name="seats"; filename="x"`, 1), "unfit"},
	} {
		t.Run(test.rule, func(t *testing.T) {
			tool, r := test.build(t, toolset)
			got, err := reader.ReadRequest(tool, r, []byte(test.body))
			var refused *match.RequestError
			if !errors.As(err, &refused) {
				t.Fatalf("got %s, %v; want a *match.RequestError", got, err)
			}
			if string(refused.Kind) != test.want || refused.Message == "" {
				t.Errorf("got %s: %s\nwant %s", refused.Kind, refused.Message, test.want)
			}
		})
	}
}

// TestReadRequest_trailer: a header behind the body is read by some servers only.
func TestReadRequest_trailer(t *testing.T) {
	toolset := buildTools(t, testkit.Readable, tools.BuildOptions{})
	for name, want := range map[string]request.ReadKind{"X-Trace-Id": request.Ambiguous, "X_trace_id": request.Ambiguous, "Content-Type": request.Ambiguous, "Etag": ""} {
		tool, r := plainRequest{request: "GET /v1/trips/7"}.build(t, toolset)
		r.Trailer = http.Header{name: {"a"}}
		_, err := reader.ReadRequest(tool, r, nil)
		got := request.ReadKind("")
		if refused, ok := errors.AsType[*match.RequestError](err); ok {
			got = refused.Kind
		}
		if got != want {
			t.Errorf("%s: got %q (%v), want %q", name, got, err, want)
		}
	}
}

// TestCheckNames: what holds for a plain request holds for a tool's call.
func TestCheckNames(t *testing.T) {
	toolset := buildTools(t, testkit.Readable, tools.BuildOptions{})
	for _, test := range []struct{ tool, arguments, want string }{
		{"whole", `{"id":"7","price":{"amount":5,"Amount":5000}}`, "ambiguous"},
		{"whole", `{"id":"7","price":{"Amount":5000}}`, "ambiguous"},
		{"whole", `{"id":"7","price":{"amount":5,"unit":"a","Unit":"b"},"legs":[{"to":"a"}]}`, ""},
		{"addLabel", `{"name":"x","Name":7}`, "ambiguous"},
		{"addLabel", `{"name":"x","weight":1,"Weight":2}`, "ambiguous"},
		{"addLabel", `{"name":"x","Tag":2}`, "ambiguous"},
		{"addLabel", `{"name":"x","weight":1}`, ""},
	} {
		tool, ok := toolset.Tool(test.tool)
		if !ok {
			t.Fatal(test.tool)
		}
		call, err := tool.Bind([]byte(test.arguments))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if refused, ok := errors.AsType[*match.RequestError](reader.CheckNames(call)); ok {
			got = string(refused.Kind)
		}
		if got != test.want {
			t.Errorf("%s %s: got %q, want %q", test.tool, test.arguments, got, test.want)
		}
	}
}

func FuzzReadRequest(f *testing.F) {
	toolset := buildTools(f, testkit.Readable, tools.BuildOptions{})
	for i := range toolset.Tools() {
		f.Add(byte(i), "/v1/trips/7?page=2&filter[a][]=1&fields=a%2Cb", "X; a=b", "application/json", `{"a":[1]}`)
		f.Add(byte(i), "/v1/forms?a;b=%zz&=&lat=1", "theme=a; ids=1,2", "application/x-www-form-urlencoded", `meta[a][0]=1&tags=x&tags=y`)
		f.Add(byte(i), "/v1/uploads", "\xff", "multipart/form-data; boundary=b", multipartBody)
	}
	f.Fuzz(func(t *testing.T, which byte, target, header, contentType, body string) {
		tool := toolset.Tools()[int(which)%len(toolset.Tools())]
		path, query, _ := strings.Cut(target, "?")
		r := &http.Request{Method: tool.Plan.Method, Header: http.Header{
			"X-Trace-Id": {header}, "X-Tags": {header, header}, "Cookie": {header}, "Content-Type": {contentType},
		}}
		r.URL = httptest.NewRequestWithContext(context.Background(), "GET", "/", http.NoBody).URL
		r.URL.Path, r.URL.RawPath, r.URL.RawQuery = path, path, query
		arguments, err := reader.ReadRequest(tool, r, []byte(body))
		if err != nil {
			if !errors.As(err, new(*match.RequestError)) {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		if _, err := strictjson.Members(nil, arguments); err != nil {
			t.Fatalf("%s: %v", arguments, err)
		}
	})
}

func BenchmarkReadRequest(b *testing.B) {
	toolset := buildTools(b, testkit.Readable, tools.BuildOptions{})
	routes := NewRoutes(toolset)
	r := httptest.NewRequestWithContext(context.Background(), "GET", "/v1/trips/7?page=2&direct=true", http.NoBody)
	r.Header = http.Header{"Accept": {"*/*"}, "User-Agent": {"test"}, "Authorization": {"Bearer x"}, "Accept-Encoding": {"gzip"}}
	b.Run("match and read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			tool, err := routes.Match(r)
			if err == nil {
				_, err = reader.ReadRequest(tool, r, nil)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
	patch := httptest.NewRequestWithContext(context.Background(), "PATCH", "/v1/trips/7", http.NoBody)
	patch.Header = http.Header{"Content-Type": {"application/json"}}
	body := []byte(`{"note":"x","seats":3,"window":true}`)
	b.Run("body", func(b *testing.B) {
		tool, err := routes.Match(patch)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			if _, err := reader.ReadRequest(tool, patch, body); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// TestReadRequest_together: the plan of a tool is made once, whichever caller is first.
func TestReadRequest_together(t *testing.T) {
	toolset := buildTools(t, testkit.Readable, tools.BuildOptions{})
	test := plainRequest{request: "GET /v1/trips/7?filter[stops][0]=1&lat=1&page=2"}
	tool, r := test.build(t, toolset)
	var running sync.WaitGroup
	for range 8 {
		running.Go(func() {
			if _, err := reader.ReadRequest(tool, r, nil); err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
}
