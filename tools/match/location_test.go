package match

import (
	"net/url"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/tools"
)

// TestCallOf reads the arguments of a call from each URL, or "" if no call can express it.
func TestCallOf(t *testing.T) {
	const versions = `{"openapi":"3.1.0","info":{"title":"T","version":"1"},"paths":{"/jobs/{id}":{"get":{"operationId":"getJob","parameters":[
		{"name":"id","in":"path","required":true,"schema":{"type":"integer"}},
		{"name":"api-version","in":"query","required":true,"schema":{"type":"string","const":"2026"}}]}},
		"/copies/{id}/{id}":{"get":{"operationId":"getCopy"}}}}`
	documents := map[string]*Routes{}
	for name, document := range map[string]string{"trips": testkit.Readable, "shared": testkit.SharedPaths, "versions": versions} {
		documents[name] = NewRoutes(buildTools(t, document))
	}
	for _, test := range []struct{ document, location, tool, want string }{
		{"trips", "/v1/trips/a%2Fb%20c", "getTrip", `{"id":"a/b c"}`},
		{"trips", "/v1/trips/7?page=2&price=1.50&direct=true&any=5", "getTrip", `{"id":"7","page":2,"price":1.50,"direct":true,"any":"5"}`},
		{"trips", "/v1/trips/7?code=5&fields=a,b", "getTrip", `{"id":"7","code":5,"fields":["a","b"]}`},
		{"trips", "/v1/trips/7?class=a&class=b&seats=1%7C2", "getTrip", `{"id":"7","class":["a","b"],"seats":[1,2]}`},
		{"trips", "/v1/trips/7?filter[from]=x&filter[stops][0]=1", "getTrip", `{"id":"7","filter":{"from":"x","stops":[1]}}`},
		{"trips", "/v1/trips/7?lat=1.5", "getTrip", `{"id":"7","where":{"lat":1.5}}`},
		{"trips", "/v1/trips/7?undeclared=1", "", ""},
		{"trips", "/v1/trips/7?page=x", "", ""},
		{"trips", "/v1/trips/7?page=1&page=2", "", ""},
		{"trips", "/v1/trips/7?PAGE=2", "", ""},
		{"trips", "/v1/trips/%2E%2E", "", ""},
		{"trips", "/v1/elsewhere", "", ""},
		{"trips", "/v1/labels", "", ""}, // it has no GET
		{"shared", "/v1/services/rest/?method=photos.delete&photo=1", "get_services_rest_method_photos_delete", `{"photo":"1"}`},
		{"versions", "/jobs/7?api-version=2026", "getJob", `{"id":7}`},
		{"versions", "/jobs/7", "", ""}, // the constant is missing
		{"versions", "/jobs/7?api-version=2025", "", ""},
		{"versions", "/jobs/x", "", ""}, // not an integer
		{"versions", "/copies/7/7", "getCopy", `{"id":"7"}`},
	} {
		location, err := url.ParseRequestURI(test.location)
		if err != nil {
			t.Fatal(err)
		}
		tool, got := "", ""
		if call := documents[test.document].CallOf(location); call != nil {
			tool, got = call.Tool.Name, string(argumentsOf(call))
		}
		if tool != test.tool || got != test.want {
			t.Errorf("%s: got %s %s, want %s %s", test.location, tool, got, test.tool, test.want)
		}
	}
}

// argumentsOf returns the arguments of a call that its caller gives.
func argumentsOf(call *tools.Call) []byte {
	return call.Tool.CallerArguments(call.AppendArguments(nil))
}
