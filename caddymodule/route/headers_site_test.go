package route_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
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
func reaches(e sitetest.Echoed, name string) bool {
	for got, values := range e.Header {
		if strings.EqualFold(strings.ReplaceAll(got, "_", "-"), strings.ReplaceAll(name, "_", "-")) && slices.Contains(values, "forged") {
			return true
		}
	}
	return false
}

func TestHeaders_that_name_another_request_or_user_under_oagent(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("agent.yaml", sitetest.AgentDocument("desk", `
  list-trips: {}
  get-trip: {user_identity: false, static_identity: OPS}
  delete-trip: {user_identity: false}
`))
	s.Start("agents {\n\tstore bolt DIR/store.db\n}", `route {
	test_user
	mcp TRIPS
	oagent DIR/agent.yaml {
		identity OPS header_up Authorization "Bearer ops"
	}
	reverse_proxy `+sitetest.Upstream(t, sitetest.Echo)+"\n}")
	rest := func(method, path string) func(s *sitetest.Site) *http.Request {
		return func(s *sitetest.Site) *http.Request {
			r, err := http.NewRequest(method, s.URL+path, nil)
			if err != nil {
				s.T.Fatal(err)
			}
			return r
		}
	}
	tool := func(name, arguments string) func(s *sitetest.Site) *http.Request {
		return func(s *sitetest.Site) *http.Request { return s.CallRequest(name, arguments) }
	}
	for _, test := range []struct {
		name     string
		request  func(s *sitetest.Site) *http.Request
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
			s := s.With(t)
			send := func(names ...string) sitetest.Response {
				r := test.request(s)
				r.Header.Set("X-Test-User", "ada")
				for _, name := range names {
					r.Header[name] = []string{"forged"}
				}
				return s.Do(r)
			}
			byMCP := strings.HasPrefix(test.name, "MCP")
			echoOf := func(a sitetest.Response) sitetest.Echoed {
				if byMCP {
					return sitetest.DecodeEcho(t, s.Result(a).Text())
				}
				return sitetest.DecodeEcho(t, a.Body)
			}
			e := echoOf(send(append(slices.Clone(forwardedTargets), "X-Forwarded-Prefix")...))
			for _, name := range forwardedTargets {
				if reaches(e, name) {
					t.Errorf("%s reached the API", name)
				}
			}
			if reaches(e, "X-Forwarded-Prefix") == test.operator {
				t.Errorf("an ordinary header reached the API: %t, beside operator credentials: %t", !test.operator, test.operator)
			}
			for _, name := range overrides {
				a := send(name)
				if byMCP {
					if reaches(echoOf(a), name) {
						t.Errorf("%s reached the API", name)
					}
					continue
				}
				if p := s.Problem(a); p.Kind != "ambiguous" || p.Made {
					t.Errorf("%s: %+v", name, p)
				}
			}
			for _, name := range underscored {
				a := send(name)
				if a.Status == http.StatusOK && test.operator && reaches(echoOf(a), name) {
					t.Errorf("%s reached the API", name)
				}
			}
			e = echoOf(send(userHeaders...))
			for _, name := range userHeaders {
				if reaches(e, name) == test.operator {
					t.Errorf("%s reached the API: %t, beside operator credentials: %t", name, reaches(e, name), test.operator)
				}
			}
		})
	}
}

// A header that the document declares is an argument: it is judged, recorded and
// sent.
func TestHeaders_that_the_document_declares_stay(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("trips.yaml", strings.Replace(sitetest.Trips, "name: X-Trace,", "name: Remote-User,", 1))
	s.Write("agent.yaml", sitetest.AgentDocument("desk", "  list-trips: {user_identity: false, input_restriction: {assertion: 'recent.list-trips.inputs.Remote_User == \"bob\"'}}\n"))
	s.Start("agents {\n\tstore bolt DIR/store.db\n}", sitetest.GuardedBlock("", sitetest.Upstream(t, sitetest.Echo)))
	a := s.Request("GET", "/trips", "", "Remote-User", "bob")
	e := sitetest.DecodeEcho(t, a.Body)
	if e.Header.Get("Remote-User") != "bob" {
		t.Errorf("%v", e.Header)
	}
	if p := s.Problem(s.Request("GET", "/trips", "", "Remote-User", "eve")); p.Kind != "input_restriction" {
		t.Errorf("%+v", p)
	}
}

// A header argument replaces what the client's library sends, and never what a handler says of the caller.
func TestHeaders_of_arguments_do_not_replace_identities(t *testing.T) {
	for name, want := range map[string]string{"X-Tag": "argument", "User-Agent": "argument", "Prefer": "argument", "Remote-User": "handler", "X-Tenant-Id": "handler", "X-Auth-Request-Groups": "handler"} {
		s := sitetest.NewSite(t)
		s.Write("tagged.yaml", strings.Replace(sitetest.Trips, "name: X-Trace,", "name: "+name+",", 1))
		s.Start("", "route {\n\trequest_header "+name+" handler\n\tmcp DIR/tagged.yaml\n\treverse_proxy "+sitetest.Upstream(t, sitetest.Echo)+"\n}")
		e := s.Echo(s.CallRequest("listTrips", `{"`+strings.ReplaceAll(name, "-", "_")+`":"argument"}`))
		if got := e.Header.Get(name); got != want {
			t.Errorf("%s: the API got that of the %s, want that of the %s", name, got, want)
		}
	}
}

func TestHeaders_of_the_user_beside_a_toolset_credential(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Start("", "mcp /own TRIPS\nmcp /mcp TRIPS {\n\tcredential query key s3cret\n}\nreverse_proxy "+sitetest.Upstream(t, sitetest.Echo))
	all := slices.Concat(userHeaders, forwardedTargets, overrides)
	for path, operator := range map[string]bool{"/own": false, "/mcp": true} {
		r := s.CallRequest("listTrips", `{}`)
		r.URL.Path = path
		r.Header.Set("Authorization", "Bearer caller")
		for _, name := range all {
			r.Header[name] = []string{"forged"}
		}
		e := s.Echo(r)
		for _, name := range all {
			want := !operator && slices.Contains(userHeaders, name)
			if reaches(e, name) != want {
				t.Errorf("%s: %s reached the API: %t, want %t", path, name, reaches(e, name), want)
			}
		}
		if carried := e.Header.Get("Authorization") == "Bearer caller"; carried == operator {
			t.Errorf("%s: %v", path, e.Header)
		}
	}
}

// dangerousHeaders are headers by which well-known products find another user, credential, method or target than
// the request has.
var dangerousHeaders = strings.Fields(`
	Authorization Proxy-Authorization Cookie X-Api-Key Api-Key Apikey X-Auth-Token X-Auth-Key X-Access-Token X-Id-Token
	Private-Token Job-Token Deploy-Token X-Vault-Token X-Vault-Namespace X-Consul-Token X-Redmine-Api-Key Ocp-Apim-Subscription-Key
	X-Functions-Key X-Ms-Token-Aad-Access-Token X-Goog-Api-Key X-Goog-User-Project X-Amz-Security-Token X-Figma-Token
	X-Shopify-Access-Token Dd-Api-Key Dd-Application-Key X-Auth-Email Circle-Token X-Gitlab-Token X-Csrf-Token X-Xsrf-Token
	X-Parse-Session-Token X-Parse-Master-Key X-Hasura-Admin-Secret X-Hasura-Role X-Hasura-User-Id
	Api-Username X-Redmine-Switch-User Mscrmcallerid Callerobjectid Es-Security-Runas-User X-Trino-User X-Presto-User On-Behalf-Of
	X-On-Behalf-Of X-Impersonate X-Impersonate-User Impersonate-User Impersonate-Group Impersonate-Extra-Scopes Act-As-User X-Act-As X-Run-As
	As-User Nextcloud-User X-Sudo Sudo X-Switch-User X-Assume-User Stripe-Account X-Tenant-Id X-Org-Id X-Scope-Orgid X-Organization
	X-Forwarded-User X-Forwarded-Email X-Forwarded-Groups X-Forwarded-Client-Cert Remote-User Remote-Groups X-Remote-User
	X-Auth-Request-User X-Authentik-Username X-Webauth-User X-Webauth-Role X-Goog-Authenticated-User-Email X-Goog-Iap-Jwt-Assertion
	X-Amzn-Oidc-Identity X-Ms-Client-Principal Cf-Access-Jwt-Assertion Tailscale-User-Login X-Pomerium-Claim-Email X-Consumer-Username
	X-Credential-Username X-Authenticated-Userid X-User X-User-Id X-Username X-Userinfo X-Roles X-Groups Ssl-Client-Cert X-Ssl-Client-Dn
	X-Client-Cert Client-Cert Ocp-User From Forwarded X-Real-Ip True-Client-Ip X-Client-Ip Cf-Connecting-Ip X-Cluster-Client-Ip
	X-Http-Verb X-Rest-Method X-Tunneled-Method X-Restli-Method X-Http-Action X-Requested-Method X-Method
	X-Forwarded-Prefix X-Forwarded-Server X-Forwarded-Port X-Nginx-Original-Uri X-Waws-Unencoded-Url X-Accel-Redirect X-Sendfile X-Host
	X-Backend-Host X-Envoy-Upstream-Service-Time X-Envoy-Decorator-Operation Destination Accept-Profile Content-Profile Prefer
	Content-Location Content-Range Idempotency-Key Referer X-Anything-Else
`)

// TestHeaders_beside_credentials_of_the_gateway checks that only safe headers, parameters of the operation and those in
// forward_headers reach the API with credentials that are not the caller's.
func TestHeaders_beside_credentials_of_the_gateway(t *testing.T) {
	const arguments = `{"X_Trace":"argument","lang":"de"}`
	endpoint := " TRIPS {\n\tcredential query key own\n\tforward_headers x-tenant\n}\n"
	for protocol, test := range map[string]struct {
		block   string
		request func(s *sitetest.Site) *http.Request
	}{
		"REST": {
			"oagent DIR/agent.yaml {\n\ttoolset TRIPS\n\tidentity OPS header_up X-Own-Key own\n\tforward_headers x-tenant\n}\n",
			func(s *sitetest.Site) *http.Request {
				r := httptest.NewRequest(http.MethodGet, s.URL+"/trips", nil)
				r.RequestURI = ""
				r.Header.Set("X-Trace", "argument")
				r.Header.Set("Cookie", "lang=de")
				return r
			},
		},
		"MCP": {"mcp /mcp" + endpoint, func(s *sitetest.Site) *http.Request { return s.CallRequest("listTrips", arguments) }},
		"OTC": {"otc /otc" + endpoint, func(s *sitetest.Site) *http.Request {
			r := httptest.NewRequest(http.MethodPost, s.URL+"/otc/call", strings.NewReader(`{"request":{"tool_id":"Trips.listTrips","input":`+arguments+`}}`))
			r.RequestURI = ""
			r.Header.Set("Content-Type", "application/json")
			return r
		}},
	} {
		t.Run(protocol, func(t *testing.T) {
			s := sitetest.NewSite(t)
			s.Write("agent.yaml", sitetest.AgentDocument("desk", "  list-trips: {user_identity: false, static_identity: OPS}\n"))
			s.Start("agents {\n\tstore bolt DIR/store.db\n}", test.block+"reverse_proxy "+sitetest.Upstream(t, sitetest.Echo))
			passing := []string{"Traceparent", "Baggage", "User-Agent", "X-Request-Id", "X-Tenant"}
			if protocol == "REST" {
				passing = append(passing, "Accept-Language", "If-None-Match")
			}
			for _, name := range append(dangerousHeaders, "") {
				r := test.request(s)
				for _, each := range append(passing, name) {
					if each != "" {
						r.Header[each] = []string{"forged"}
					}
				}
				a := s.Do(r)
				body := a.Body
				if protocol == "MCP" {
					body = s.Result(a).Text()
				}
				if protocol == "OTC" {
					var response struct {
						Output struct{ Value json.RawMessage }
					}
					_ = json.Unmarshal([]byte(a.Body), &response)
					body = string(response.Output.Value)
				}
				e := sitetest.DecodeEcho(t, body)
				if name != "" && reaches(e, name) {
					t.Errorf("%s reached the API", name)
				}
				for _, each := range passing {
					if !reaches(e, each) {
						t.Errorf("%s did not reach the API: %v", each, e.Header)
					}
				}
				if e.Header.Get("X-Trace") != "argument" {
					t.Errorf("the argument did not reach the API: %v", e.Header)
				}
			}
		})
	}
}

// TestHeaders_that_are_listed_reach_the_API checks that tool calls carry what forward_headers lists, with credentials of the
// gateway and without, but not what belongs to the client's connection.
func TestHeaders_that_are_listed_reach_the_API(t *testing.T) {
	for name, options := range map[string]string{"credential": "credential query key own\n", "none": ""} {
		t.Run(name, func(t *testing.T) {
			s := sitetest.Run(t, "", "mcp /mcp TRIPS {\n"+options+"forward_headers accept-language If-Match Accept-Profile\n}\nreverse_proxy "+sitetest.Upstream(t, sitetest.Echo))
			r := s.CallRequest("listTrips", "{}")
			for _, header := range []string{"Accept-Language", "If-Match", "If-None-Match", "Accept-Profile"} {
				r.Header.Set(header, "forged")
			}
			r.Header.Set("Connection", "Accept-Profile")
			e := s.Echo(r)
			for header, want := range map[string]bool{"Accept-Language": true, "If-Match": true, "If-None-Match": false, "Accept-Profile": false} {
				if reaches(e, header) != want {
					t.Errorf("%s reached the API: %t, want %t", header, !want, want)
				}
			}
		})
	}
}

// TestHeaders_of_handlers_that_are_dropped checks that the log names headers that handlers set and that do not reach the
// API.
func TestHeaders_of_handlers_that_are_dropped(t *testing.T) {
	const before = "request_header X-Tenant acme\nrequest_header X-Request-Id {http.request.uuid}\nforward_auth 127.0.0.1:1 {\n\turi /check\n\tcopy_headers X-Person\n}\n"
	api := "reverse_proxy " + sitetest.Upstream(t, sitetest.Echo)
	for name, test := range map[string]struct {
		block string
		want  string
	}{
		"credential":           {before + "mcp TRIPS {\n\tcredential query key own\n}\n" + api, `["X-Person","X-Tenant"]`},
		"forwarded":            {before + "mcp TRIPS {\n\tcredential query key own\n\tforward_headers X-Tenant x-person\n}\n" + api, ""},
		"in a route":           {"route {\n" + before + "otc TRIPS {\n\tcredential query key own\n}\n" + api + "\n}", `["X-Person","X-Tenant"]`},
		"without a credential": {before + "mcp TRIPS\n" + api, ""},
		"identity":             {before + "oagent DIR/agent.yaml {\n\ttoolset TRIPS\n\tidentity OPS header_up X-Key own\n}\n" + api, `["X-Person","X-Tenant"]`},
		"identity, forwarded":  {before + "oagent DIR/agent.yaml {\n\ttoolset TRIPS\n\tidentity OPS header_up X-Key own\n\tforward_headers X-Person X-Tenant\n}\n" + api, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := sitetest.NewSite(t)
			s.Write("agent.yaml", sitetest.AgentDocument("desk", "  list-trips: {user_identity: false, static_identity: OPS}\n"))
			s.Start("agents {\n\tstore bolt DIR/store.db\n}", test.block)
			if log := s.Log(); strings.Contains(log, "forward_headers") != (test.want != "") || !strings.Contains(log, test.want) {
				t.Errorf("log: %s", log)
			}
		})
	}
}
