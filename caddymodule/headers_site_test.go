package caddymodule_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// Headers by which some servers find another method or path than the request has.
var (
	forwardedTargets = []string{
		"X-Forwarded-Uri", "X-Original-URI", "X-Forwarded-Path", "X-Original-Method", "X-Forwarded-Method",
	}
	overrides = []string{
		"X-HTTP-Path-Override", "Method-Override", "X-Override-Method", "X-HTTP-Method-Override", "X-Original-URL", "X-Rewrite-URL",
	}
	userHeaders = []string{
		"X-Forwarded-User", "X-Forwarded-Email", "Remote-User", "X-Remote-User", "X-Auth-Request-User", "X-Auth-Request-Anything", "OCP-User",
		"Impersonate-User",
	}

	// The same as CGI and its successors read them. Caddy may remove such headers itself.
	underscored = []string{
		"X_Forwarded_Uri", "x_original-uri", "Method_Override", "X_HTTP_Path_Override", "X_Forwarded_User", "REMOTE_USER", "x_auth_request_email",
	}
)

// reaches reports whether a header of that name, or one that CGI cannot distinguish
// from it, reached the API with the test's value.
func (e echoed) reaches(name string) bool {
	for got, values := range e.Header {
		if strings.EqualFold(strings.ReplaceAll(got, "_", "-"), strings.ReplaceAll(name, "_", "-")) && slices.Contains(values, "forged") {
			return true
		}
	}
	return false
}

func TestHeaders_that_name_another_request_or_user_under_oagent(t *testing.T) {
	s := newSite(t)
	s.write("agent.yaml", agentDocument("desk", `
  list-trips: {}
  get-trip: {user_identity: false, static_identity: OPS}
  delete-trip: {user_identity: false}
`))
	s.start("agents {\n\tstore bolt DIR/store.db\n}", `route {
	test_user
	mcp TRIPS
	oagent DIR/agent.yaml {
		identity OPS header_up Authorization "Bearer ops"
	}
	reverse_proxy `+upstream(t, echo)+"\n}")
	rest := func(method, path string) func(s *site) *http.Request {
		return func(s *site) *http.Request {
			r, err := http.NewRequest(method, s.url+path, nil)
			if err != nil {
				s.t.Fatal(err)
			}
			return r
		}
	}
	tool := func(name, arguments string) func(s *site) *http.Request {
		return func(s *site) *http.Request { return s.callRequest(name, arguments) }
	}
	for _, test := range []struct {
		name     string
		request  func(s *site) *http.Request
		operator bool // not with the caller's credentials
	}{
		{"REST as the caller", rest("GET", "/trips"), false},
		{"REST with a static identity", rest("GET", "/trips/1"), true},
		{"REST as anonymous", rest("DELETE", "/trips/1"), true},
		{"MCP as the caller", tool("listTrips", `{}`), false},
		{"MCP with a static identity", tool("getTrip", `{"id":"1"}`), true},
		{"MCP as anonymous", tool("deleteTrip", `{"id":"1"}`), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := s.with(t)
			send := func(names ...string) answer {
				r := test.request(s)
				r.Header.Set("X-Test-User", "ada")
				for _, name := range names {
					r.Header[name] = []string{"forged"}
				}
				return s.do(r)
			}
			byMCP := strings.HasPrefix(test.name, "MCP")
			echoOf := func(a answer) echoed {
				if byMCP {
					return decodeEcho(t, s.result(a).text())
				}
				return decodeEcho(t, a.body)
			}
			e := echoOf(send(append(slices.Clone(forwardedTargets), "X-Forwarded-Prefix")...))
			for _, name := range forwardedTargets {
				if e.reaches(name) {
					t.Errorf("%s reached the API", name)
				}
			}
			if !e.reaches("X-Forwarded-Prefix") {
				t.Error("an ordinary header did not reach the API")
			}
			for _, name := range overrides {
				a := send(name)
				if byMCP {
					if echoOf(a).reaches(name) {
						t.Errorf("%s reached the API", name)
					}
					continue
				}
				if p := s.problem(a); p.Kind != "ambiguous" || p.Made {
					t.Errorf("%s: %+v", name, p)
				}
			}
			for _, name := range underscored {
				a := send(name)
				if a.status == http.StatusOK && test.operator && echoOf(a).reaches(name) {
					t.Errorf("%s reached the API", name)
				}
			}
			e = echoOf(send(userHeaders...))
			for _, name := range userHeaders {
				if e.reaches(name) == test.operator {
					t.Errorf("%s reached the API: %t, beside operator credentials: %t", name, e.reaches(name), test.operator)
				}
			}
		})
	}
}

// A header that the document declares is an argument: it is judged, recorded and
// sent.
func TestHeaders_that_the_document_declares_stay(t *testing.T) {
	s := newSite(t)
	s.write("trips.yaml", strings.Replace(trips, "name: X-Trace,", "name: Remote-User,", 1))
	s.write("agent.yaml", agentDocument("desk", "  list-trips: {user_identity: false, input_restriction: {assertion: 'recent.list-trips.inputs.Remote_User == \"bob\"'}}\n"))
	s.start("agents {\n\tstore bolt DIR/store.db\n}", guardedBlock("", upstream(t, echo)))
	a := s.request("GET", "/trips", "", "Remote-User", "bob")
	e := decodeEcho(t, a.body)
	if e.Header.Get("Remote-User") != "bob" {
		t.Errorf("%v", e.Header)
	}
	if p := s.problem(s.request("GET", "/trips", "", "Remote-User", "eve")); p.Kind != "input_restriction" {
		t.Errorf("%+v", p)
	}
}

func TestHeaders_of_the_user_beside_a_toolset_credential(t *testing.T) {
	s := newSite(t)
	s.start("", "mcp /own TRIPS\nmcp /mcp TRIPS {\n\tcredential query key s3cret\n}\nreverse_proxy "+upstream(t, echo))
	all := slices.Concat(userHeaders, forwardedTargets, overrides)
	for path, operator := range map[string]bool{"/own": false, "/mcp": true} {
		r := s.callRequest("listTrips", `{}`)
		r.URL.Path = path
		r.Header.Set("Authorization", "Bearer caller")
		for _, name := range all {
			r.Header[name] = []string{"forged"}
		}
		e := s.echo(r)
		for _, name := range all {
			want := !operator && slices.Contains(userHeaders, name)
			if e.reaches(name) != want {
				t.Errorf("%s: %s reached the API: %t, want %t", path, name, e.reaches(name), want)
			}
		}
		if e.Header.Get("Authorization") != "Bearer caller" {
			t.Errorf("%s: %v", path, e.Header)
		}
	}
}
