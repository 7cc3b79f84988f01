package otcadapter

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/store/embedded"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/security"
)

// guarded is the calculator, whose tools require credentials.
func guarded(schemes map[string]*security.Scheme) *tools.Toolset {
	toolset := calculator()
	toolset.SecuritySchemes = schemes
	for _, t := range toolset.Tools() {
		for id := range schemes {
			t.Plan.Security = append(t.Plan.Security, tools.SecurityRequirement{id: nil})
		}
	}
	return toolset
}

// TestIdempotency_an_answer_with_credentials_is_not_kept checks that nothing of a credential
// reaches the store, whatever form a successful response repeats it in, and that the
// call does not run again unless it is harmless.
func TestIdempotency_an_answer_with_credentials_is_not_kept(t *testing.T) {
	const secret = `s3cr&t"k/y-9F1`
	bearer := map[string]*security.Scheme{"bearer": {Name: "bearer", Type: "http", Scheme: "bearer"}}
	key := map[string]*security.Scheme{"key": {Name: "key", Type: "apiKey", In: "header", ParameterName: "X-Key"}}
	basic := map[string]*security.Scheme{"basic": {Name: "basic", Type: "http", Scheme: "basic"}}
	cookie := map[string]*security.Scheme{"cookie": {Name: "cookie", Type: "apiKey", In: "cookie", ParameterName: "sid"}}
	authorization := `,"context":{"authorization":[{"id":"bearer","token":"plain-T0KEN"}]}`
	result := func(mediaType, body string) *tools.Result {
		return &tools.Result{Status: 200, Header: http.Header{"Content-Type": {mediaType}}, Body: []byte(body)}
	}
	for _, c := range []struct {
		rule    string
		schemes map[string]*security.Scheme
		context string
		header  http.Header
		result  *tools.Result
		hidden  []string // must not be in the store's files
	}{
		{"a token", bearer, authorization, nil, jsonResult(`{"token":"plain-T0KEN"}`), []string{"plain-T0KEN"}},
		{"a token in a longer text", bearer, authorization, nil, result("text/plain", "your token is plain-T0KEN."), []string{"plain-T0KEN"}},
		{"a token that is escaped", bearer, authorization, nil, jsonResult(`{"token":"\u0070lain-T0KEN"}`), []string{`lain-T0KEN`}},
		{"a token in binary", bearer, authorization, nil, result("image/png", "\x89PNG plain-T0KEN"), []string{base64.StdEncoding.EncodeToString([]byte("\x89PNG plain-T0KEN"))}},
		{"a secret as JSON", key, `,"context":{"secrets":[{"id":"key","value":"s3cr&t\"k/y-9F1"}]}`, nil, jsonResult(`{"key":"s3cr&t\"k\/y-9F1"}`), []string{`y-9F1`}},
		{"a secret in a URL", key, `,"context":{"secrets":[{"id":"key","value":"s3cr&t\"k/y-9F1"}]}`, nil, jsonResult(`{"next":"/x?key=` + url.QueryEscape(secret) + `"}`), []string{`y-9F1`}},
		{"a secret in HTML", key, `,"context":{"secrets":[{"id":"key","value":"s3cr&t\"k/y-9F1"}]}`, nil, result("text/html", `<b>s3cr&amp;t&#34;k/y-9F1</b>`), []string{`y-9F1`}},
		{"the password of basic", basic, `,"context":{"secrets":[{"id":"basic","value":"ada:Pa55word"}]}`, nil, jsonResult(`{"p":"Pa55word"}`), []string{"Pa55word"}},
		{"the caller's own token", bearer, "", http.Header{"Authorization": {"Bearer own-T0KEN"}}, jsonResult(`{"token":"own-T0KEN"}`), []string{"own-T0KEN"}},
		{"the caller's own key", key, "", http.Header{"X-Key": {"own-k3y"}}, jsonResult(`["own-k3y"]`), []string{"own-k3y"}},
		{"the caller's own cookie", cookie, "", http.Header{"Cookie": {"sid=own-c00kie"}}, jsonResult(`"own-c00kie"`), []string{"own-c00kie"}},
	} {
		for called, runsAgain := range map[string]bool{"Add": false, "list": true} {
			t.Run(c.rule+"/"+called, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "s")
				st, err := embedded.Open(path, embedded.Options{})
				if err != nil {
					t.Fatal(err)
				}
				s, toolset, calls := New(Options{Idempotency: recordIn(st)}), guarded(c.schemes), 0
				for _, each := range toolset.Tools() {
					each.Output = tools.Output{}
				}
				caller := callerFunc(func(context.Context, string, []byte) tools.Outcome {
					calls++
					return tools.Outcome{Result: c.result}
				})
				q := question{body: `{"call_id":"c1","tool_id":"Calculator.` + called + `"` + c.context + `}`, header: c.header}
				first, second := q.ask(t.Context(), s, toolset, caller), q.ask(t.Context(), s, toolset, caller)
				if first.Code != 200 || !strings.Contains(first.Body.String(), `"success":true`) {
					t.Fatalf("%d %s", first.Code, first.Body)
				}
				if again := strings.Contains(second.Body.String(), `"success":true`); again != runsAgain || (calls == 2) != runsAgain {
					t.Errorf("called %d times: %s", calls, second.Body)
				}
				if !runsAgain && (second.Code != 200 || !strings.Contains(second.Body.String(), `"can_retry":false`)) {
					t.Errorf("%d %s", second.Code, second.Body)
				}
				if second.Header().Get("Idempotent-Replayed") != "" {
					t.Error("the second answer is called a replay")
				}
				checkFiles(t, path, c.hidden)
				if err := st.Close(); err != nil {
					t.Fatal(err)
				}
				checkFiles(t, path, c.hidden)
			})
		}
	}
}

// checkFiles wants none of the texts in the files of the store.
func checkFiles(t *testing.T, path string, hidden []string) {
	t.Helper()
	files, err := filepath.Glob(path + "*")
	if err != nil || len(files) == 0 {
		t.Fatalf("the store has the files %v, %v", files, err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range hidden {
			if strings.Contains(string(content), text) {
				t.Errorf("%s has %s", filepath.Base(file), text)
			}
		}
	}
}

// TestIdempotency_an_answer_without_credentials_is_kept though the call came with some.
func TestIdempotency_an_answer_without_credentials_is_kept(t *testing.T) {
	st := openBolt(t, filepath.Join(t.TempDir(), "s"))
	s, caller := New(Options{Idempotency: recordIn(st)}), new(counting)
	toolset := guarded(map[string]*security.Scheme{"bearer": {Name: "bearer", Type: "http", Scheme: "bearer"}})
	q := question{body: strings.Replace(addWithID, `"input"`, `"context":{"authorization":[{"id":"bearer","token":"plain-T0KEN"}]},"input"`, 1)}
	first, second := q.ask(t.Context(), s, toolset, caller), q.ask(t.Context(), s, toolset, caller)
	if first.Body.String() != second.Body.String() || caller.calls.Load() != 1 || second.Header().Get("Idempotent-Replayed") != "true" {
		t.Errorf("called %d times: %s, then %s", caller.calls.Load(), first.Body, second.Body)
	}
}

// TestIdempotency_a_failure_with_the_callers_own_token checks that a failure is returned and kept
// without the credentials of the caller's own request.
func TestIdempotency_a_failure_with_the_callers_own_token(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	s := New(Options{Idempotency: recordIn(openBolt(t, path))})
	toolset := guarded(map[string]*security.Scheme{"bearer": {Name: "bearer", Type: "http", Scheme: "bearer"}})
	calls := 0
	caller := callerFunc(func(context.Context, string, []byte) tools.Outcome {
		calls++
		return tools.Outcome{Tool: toolset.Tools()[0], Failure: &tools.Failure{Kind: tools.Refused, Status: 404, Message: "nothing for own-T0KEN"}}
	})
	q := question{body: addWithID, header: http.Header{"Authorization": {"Bearer own-T0KEN"}}}
	first, second := q.ask(t.Context(), s, toolset, caller), q.ask(t.Context(), s, toolset, caller)
	if calls != 1 || first.Body.String() != second.Body.String() || strings.Contains(first.Body.String(), "own-T0KEN") {
		t.Errorf("called %d times: %s, then %s", calls, first.Body, second.Body)
	}
	checkFiles(t, path, []string{"own-T0KEN"})
}
