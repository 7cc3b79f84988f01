package mcpadapter

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/mcpadapter/elicit"
	"github.com/fairwayhq/fairway/ocp"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/security"
)

func metaOf(t *testing.T, r testRequest) map[string]json.RawMessage {
	t.Helper()
	var got struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	r.result(t, "CallToolResult", &got)
	return got.Meta
}

// Programs find in _meta what the text of a failure says.
func TestFailure_in_meta(t *testing.T) {
	refused := func(status int, contentType, body string, f tools.Failure) tools.Outcome {
		o := answered(status, contentType, body)
		f.Kind, f.Status = tools.Refused, status
		o.Failure = &f
		return o
	}
	for _, c := range []struct {
		rule    string
		outcome tools.Outcome
		want    string
	}{
		{"problem", refused(404, "application/problem+json", ` {"title": "No such trip"} `, tools.Failure{}), `{"status":404,"retryable":false,"problem":{"title": "No such trip"}}`},
		{"retry", refused(429, "text/plain", "slow", tools.Failure{RetryAfter: 1500 * time.Millisecond}), `{"status":429,"retryable":true,"retryAfterMs":1500}`},
		{"problem-broken", refused(400, "application/problem+json", `{"title":`, tools.Failure{}), `{"status":400,"retryable":false}`},
		{"problem-twice", refused(400, "application/problem+json", `{"a":1,"a":2}`, tools.Failure{}), `{"status":400,"retryable":false}`},
		{"problem-array", refused(400, "application/problem+json", `[]`, tools.Failure{}), `{"status":400,"retryable":false}`},
		{"problem-large", refused(400, "application/problem+json", `{"a":"`+strings.Repeat("x", maxProblem)+`"}`, tools.Failure{}), `{"status":400,"retryable":false}`},
		{"unreachable", tools.Outcome{Tool: &tools.Tool{Plan: tools.Plan{Method: "GET"}}, Failure: &tools.Failure{Kind: tools.Unreachable, Message: "down"}}, `{"retryable":true}`},
	} {
		for _, v := range revisions {
			if got := metaOf(t, call(v, returning(c.outcome)))[metaHTTP]; string(got) != c.want {
				t.Errorf("%s/%v: %s", c.rule, v, got)
			}
		}
	}
}

func TestChallenges_in_meta(t *testing.T) {
	unauthorized := answered(http.StatusUnauthorized, "", "")
	unauthorized.Failure = &tools.Failure{Kind: tools.Refused, Status: http.StatusUnauthorized, Message: "who are you"}
	serve := func(challenges []string, access *Access) string {
		unauthorized.Result.Header["Www-Authenticate"] = challenges
		meta := failureMeta(&Site{Access: access}, callResult{Reply: elicit.Reply{Outcome: unauthorized}})
		return string(strictjson.MemberOf([]byte("{"+string(meta)+"}"), metaChallenges))
	}
	access := &Access{Metadata: "https://a.example/.well-known/oauth-protected-resource"}
	for rule, c := range map[string]struct {
		challenges []string
		access     *Access
		want       string
	}{
		"the-api's":       {[]string{`Bearer realm="a"`, "Basic"}, access, `"Bearer realm=\"a\", Basic"`},
		"ours":            {nil, access, `"Bearer error=\"invalid_token\", resource_metadata=\"https://a.example/.well-known/oauth-protected-resource\""`},
		"of another user": {nil, nil, ""},
		"many":            {[]string{"a", "b", "c", "d", "e"}, nil, `"a, b, c, d"`},
	} {
		if got := serve(c.challenges, c.access); got != c.want {
			t.Errorf("%s: %s", rule, got)
		}
	}
}

// An API that refuses what a login with more scopes would be allowed says so with a
// challenge, and one that refuses for good does not.
func TestForbidden_with_a_challenge_needs_a_login(t *testing.T) {
	const challenge = `Bearer error="insufficient_scope", scope="write"`
	site := Site{Access: &Access{Metadata: "https://a.example/.well-known/oauth-protected-resource"}}
	for rule, c := range map[string]struct {
		challenges []string
		want       bool
	}{
		"with-a-challenge": {[]string{challenge}, true},
		"without":          {nil, false},
	} {
		refused := answered(http.StatusForbidden, "", "")
		refused.Failure = &tools.Failure{Kind: tools.Refused, Status: http.StatusForbidden, Message: "no"}
		refused.Result.Header["Www-Authenticate"] = c.challenges
		meta := "{" + string(failureMeta(&site, callResult{Reply: elicit.Reply{Outcome: refused}})) + "}"
		if got := string(strictjson.MemberOf([]byte(meta), metaChallenges)); (got != "") != c.want || c.want && !strings.Contains(got, "insufficient_scope") {
			t.Errorf("%s: %s", rule, got)
		}
	}
}

// A result has one _meta, whatever is said in it.
func TestMeta_is_written_once(t *testing.T) {
	outcome := answered(404, "text/plain", "no")
	outcome.Failure = &tools.Failure{Kind: tools.Refused, Status: 404, Message: "no"}
	outcome.Result.Header[ocp.HeaderSession] = []string{"abc"}
	for _, v := range revisions {
		r := conformant(v, "tools/call", `"name":"get_trip"`)
		own := `"org.opencontextprotocol/agent-type":"coder"`
		if v.Stateless() {
			r.body = strings.Replace(r.body, `"_meta":{`, `"_meta":{`+own+`,`, 1)
		} else {
			r.body = strings.Replace(r.body, `"params":{`, `"params":{"_meta":{`+own+`},`, 1)
		}
		r.caller = returning(outcome)
		w := r.Send(t)
		if n := strings.Count(w.Body.String(), `"_meta"`); n != 1 {
			t.Errorf("%v: %d times in %s", v, n, w.Body)
		}
		meta := metaOf(t, r)
		if meta["org.opencontextprotocol/session"] == nil || meta[metaHTTP] == nil || (meta[metaServer] != nil) != v.Stateless() {
			t.Errorf("%v: %s", v, meta)
		}
	}
}

// A call that the access token does not allow is refused with the scopes to ask for.
func TestCall_beyond_scopes(t *testing.T) {
	toolset := trains()
	toolset.SecuritySchemes = map[string]*security.Scheme{"login": {Name: "login", Type: "oauth2"}}
	called, _ := toolset.Tool("get_trip")
	called.Plan.Security = []tools.SecurityRequirement{{"login": {"trips:read", "trips:all", "we\"ird"}}}
	access := &Access{Scopes: []string{"trips:read", "profile"}, Metadata: "https://a.example/meta"}
	for _, v := range revisions {
		for _, allowed := range []bool{false, true} {
			granted := *access
			if allowed {
				granted.Scopes = append(granted.Scopes[:2:2], "trips:all", `we"ird`)
			}
			calls := 0
			e := serveEndpoint(t, Options{}, callerFunc(func(_ context.Context, _ string, _ []byte) tools.Outcome { calls++; return answered(200, "", "x") }))
			e.tools.Store(toolset)
			e.access.Store(&granted)
			r := call(v, nil)
			r.header[versionHeader] = v.String()
			response := e.do(t, "POST", "/mcp", r.body, r.header)
			if allowed {
				if response.StatusCode != 200 || calls != 1 {
					t.Errorf("%v: status %d with all scopes", v, response.StatusCode)
				}
				continue
			}
			want := `Bearer error="insufficient_scope", scope="trips:all trips:read profile", resource_metadata="https://a.example/meta"`
			if got := response.Header.Get("WWW-Authenticate"); response.StatusCode != 403 || got != want || calls != 0 {
				t.Errorf("%v: status %d, %s", v, response.StatusCode, got)
			}
		}
	}
}
