package plainrequest

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/tools"
)

// TestFill_is_read_back checks that a plain request may have what the gateway fills
// with its value only, and that it is no argument.
func TestFill_is_read_back(t *testing.T) {
	toolset := buildTools(t, testkit.Filled, tools.BuildOptions{})
	called, _ := toolset.Tool("create")
	good := func() *http.Request {
		r := callRequest(t, called, `{"sort":"a","none":null,"list":["x"],"item":"i"}`)
		r.Header.Set("Content-Type", "application/json")
		return r
	}
	const body = `{"kind":"order","item":"i"}`
	got, err := reader.ReadRequest(called, good(), []byte(body))
	if err != nil || string(got) != `{"sort":"a","list":["x"],"item":"i"}` {
		t.Errorf("got %s, %v", got, err)
	}
	for name, test := range map[string]struct {
		change func(*http.Request)
		body   string
	}{
		"query":        {func(r *http.Request) { r.URL.RawQuery = strings.Replace(r.URL.RawQuery, "CreateOrder", "Drop", 1) }, body},
		"query twice":  {func(r *http.Request) { r.URL.RawQuery += "&Action=CreateOrder" }, body},
		"query alias":  {func(r *http.Request) { r.URL.RawQuery += "&action=Drop" }, body},
		"header":       {func(r *http.Request) { r.Header.Set("X-API-Version", "other") }, body},
		"header twice": {func(r *http.Request) { r.Header.Add("X-API-Version", "order") }, body},
		"header alias": {func(r *http.Request) { r.Header["X_Api_Version"] = []string{"other"} }, body},
		"cookie":       {func(r *http.Request) { r.Header.Set("Cookie", "tenant=other") }, body},
		"body":         {func(*http.Request) {}, `{"kind":"other","item":"i"}`},
		"body alias":   {func(*http.Request) {}, `{"Kind":"other","item":"i"}`},
		"body Action":  {func(*http.Request) {}, `{"Action":"Drop","item":"i"}`},
	} {
		r := good()
		test.change(r)
		if got, err := reader.ReadRequest(called, r, []byte(test.body)); err == nil {
			t.Errorf("%s: read as %s", name, got)
		}
	}
}

// TestFilledBy checks tools whose arguments are filled for each call.
func TestFilledBy(t *testing.T) {
	base := buildTools(t, testkit.Filled, tools.BuildOptions{})
	if base.FilledBy(func(*tools.Tool, *tools.Argument) bool { return false }) != base {
		t.Error("a Toolset of which nothing is filled is copied")
	}
	filled := base.FilledBy(func(_ *tools.Tool, a *tools.Argument) bool { return a.WireName == "sort" || a.WireName == "code" })
	if filled.Hash == base.Hash {
		t.Error("the hash is the same")
	}
	called, _ := filled.Tool("create")
	if before, _ := base.Tool("create"); called == before || len(before.Definition.Arguments) != len(called.Definition.Arguments)+1 || !strings.Contains(string(before.Definition.InputSchema), `"sort"`) {
		t.Error("the Toolset itself is changed")
	}
	if strings.Contains(string(called.Definition.InputSchema), `"sort"`) {
		t.Errorf("schema %s", called.Definition.InputSchema)
	}
	if _, err := called.Bind([]byte(`{"none":null,"list":["x"],"item":"i","sort":"a"}`)); err == nil {
		t.Error("a caller gives what the gateway fills")
	}
	call, err := called.Bind([]byte(`{"none":null,"list":["x"],"item":"i"}`))
	if err != nil {
		t.Fatal(err)
	}
	call.Fill(func(in tools.Location, name string) (string, bool) { return string(in) + "-" + name, true })
	r, err := call.Request(context.Background())
	if err != nil || r.URL.Query().Get("sort") != "query-sort" {
		t.Errorf("sends %s, %v", r.URL, err)
	}
	if got := string(call.AppendArguments(nil)); strings.Contains(got, "query-sort") {
		t.Errorf("the arguments are %s", got)
	}
	if got, err := reader.ReadRequest(called, r, []byte(`{"item":"i"}`)); err != nil || strings.Contains(string(got), "query-sort") {
		t.Errorf("read back: %s, %v", got, err)
	}
	form, _ := filled.Tool("form")
	if got, err := form.Bind([]byte(`{}`)); err != nil || sendsBody(t, got) {
		t.Errorf("%v", err)
	}
}

func sendsBody(t *testing.T, call *tools.Call) bool {
	t.Helper()
	r, err := call.Request(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r.ContentLength != 0
}
