package sigv4_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/fairwayhq/fairway/caddymodule/mcp"
	_ "github.com/fairwayhq/fairway/caddymodule/oagent"
	_ "github.com/fairwayhq/fairway/caddymodule/otc"
	_ "github.com/fairwayhq/fairway/caddymodule/sigv4"
	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

func TestMain(m *testing.M) { sitetest.Main(m) }

// The credentials of the published test vectors of Signature Version 4.
const (
	accessKey = "AKIDEXAMPLE"
	secretKey = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
	session   = "planted-session-token"
)

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// signature is what a service computes of a request, by the description in the IAM User Guide. Header has the signed
// headers. The path is as it was sent.
func signature(method, path, query string, header map[string]string, digest, date, region, service string) string {
	if service != "s3" {
		path = strings.ReplaceAll(path, "%", "%25")
	}
	names := make([]string, 0, len(header))
	for name := range header {
		names = append(names, name)
	}
	slices.Sort(names)
	lines := ""
	for _, name := range names {
		lines += name + ":" + strings.TrimSpace(header[name]) + "\n"
	}
	canonical := strings.Join([]string{method, path, query, lines, strings.Join(names, ";"), digest}, "\n")
	scope := date[:8] + "/" + region + "/" + service + "/aws4_request"
	key := mac(mac(mac(mac([]byte("AWS4"+secretKey), date[:8]), region), service), "aws4_request")
	return hex.EncodeToString(mac(key, "AWS4-HMAC-SHA256\n"+date+"\n"+scope+"\n"+hash(canonical)))
}

// The check of these tests agrees with the published vector get-vanilla.
func TestSignature_of_the_published_vector(t *testing.T) {
	got := signature("GET", "/", "", map[string]string{"host": "example.amazonaws.com", "x-amz-date": "20150830T123600Z"}, hash(""), "20150830T123600Z", "us-east-1", "service")
	if want := "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

var authorization = regexp.MustCompile(`^AWS4-HMAC-SHA256 Credential=` + accessKey + `/\d{8}/([^/]+)/([^/]+)/aws4_request, SignedHeaders=([^,]+), Signature=([0-9a-f]{64})$`)

// verify responds as a service of AWS: 403 if the signature is not the one of the request.
func verify(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	digest := r.Header.Get("X-Amz-Content-Sha256")
	parts := authorization.FindStringSubmatch(r.Header.Get("Authorization"))
	if parts == nil || digest != hash(string(body)) && digest != "UNSIGNED-PAYLOAD" {
		http.Error(w, fmt.Sprintf("no signature, or not of the body: %v", r.Header), http.StatusForbidden)
		return
	}
	header := make(map[string]string)
	for name := range strings.SplitSeq(parts[3], ";") {
		switch name {
		case "host":
			header[name] = r.Host
		case "content-length":
			header[name] = fmt.Sprint(r.ContentLength)
		default:
			header[name] = strings.Join(r.Header.Values(name), ",")
		}
	}
	path, _, _ := strings.Cut(r.RequestURI, "?")
	query, _ := url.ParseQuery(r.URL.RawQuery)
	want := signature(r.Method, path, strings.ReplaceAll(query.Encode(), "+", "%20"), header, digest, r.Header.Get("X-Amz-Date"), parts[1], parts[2])
	if parts[4] != want || !strings.Contains(parts[3], "x-amz-security-token") || r.Header.Get("X-Amz-Security-Token") != session {
		http.Error(w, "SignatureDoesNotMatch "+parts[3]+" "+r.RequestURI, http.StatusForbidden)
		return
	}
	_, _ = fmt.Fprintf(w, "%s %s %s", parts[1], parts[2], body)
}

// start runs a site in front of a service.
func start(t *testing.T, options string) *sitetest.Site {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", accessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", secretKey)
	t.Setenv("AWS_SESSION_TOKEN", session)
	t.Setenv("AWS_REGION", "eu-central-1")
	return sitetest.Run(t, "", "reverse_proxy "+sitetest.Upstream(t, verify)+" {\nheader_up X-Amz-Target Orders.List\nheader_up -User-Agent\ntransport aws_sigv4 {\n"+options+"\n}\n}")
}

func TestTransport_signs_what_is_sent(t *testing.T) {
	for name, options := range map[string]string{
		"API Gateway":   "service execute-api",
		"S3":            "service s3\nregion us-east-1",
		"unsigned body": "service s3\nunsigned_body",
		"HTTP options":  "service es\nhttp {\ndial_timeout 10s\n}",
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, options)
			for _, request := range []struct{ method, path, body string }{
				{"GET", "/", ""},
				{"GET", "/prod/orders?b=2&a=1&a=0&empty=&space=a+b%20c", ""},
				{"POST", "/prod/orders", `{"a":1}`},
				{"GET", "/a%20b/ü/(1)!*'", ""},
				{"PUT", "/a%2Fb/~x", strings.Repeat("x", 100_000)},
				{"DELETE", "/prod/orders/1", ""},
			} {
				got := s.Request(request.method, request.path, request.body, "Authorization", "Bearer caller", "X-Amz-Security-Token", "caller", "X-Amz-Date", "20150830T123600Z", "Te", "trailers")
				if got.Status != http.StatusOK || !strings.HasSuffix(got.Body, request.body) {
					t.Errorf("%s %s: status %d %.300s", request.method, request.path, got.Status, got.Body)
				}
			}
			for _, secret := range []string{secretKey, session} {
				if strings.Contains(s.Log(), secret) {
					t.Errorf("the log has %s", secret)
				}
			}
		})
	}
}

// TestTransport_signs_no_headers_that_callers_choose, which could name another operation or object. What the document
// declares and what the operator forwards passes.
func TestTransport_signs_no_headers_that_callers_choose(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", accessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", secretKey)
	s := sitetest.NewSite(t)
	s.Write("objects.yaml", `openapi: 3.1.0
info: {title: Objects, version: "1"}
components: {securitySchemes: {plan: {type: apiKey, in: header, name: X-Plan-Key}}}
paths:
  /objects:
    put:
      operationId: put_object
      parameters: [{name: X-Amz-Meta-Color, in: header, schema: {type: string}}]
`)
	s.Write("agent.yaml", sitetest.AgentDocument("desk", "  put-object: {user_identity: true}\n"))
	signing := "reverse_proxy " + sitetest.Upstream(t, sitetest.Echo) + " {\nheader_up X-Amz-Acl private\ntransport aws_sigv4 {\nservice s3\nregion us-east-1\n}\n}\n"
	caller := []string{
		"X-Amz-Copy-Source", "/other/secret", "X-Amz-Target", "Table.Delete", "X-Remote-User", "root", "X-Team", "blue", "X-Plan-Key", "plan", "Traceparent", "00-1-1-01",
	}
	check := func(name, body string) {
		for _, header := range []string{"Copy-Source", "Table.Delete", "root"} {
			if strings.Contains(body, header) {
				t.Errorf("%s: %s reached the service: %s", name, header, body)
			}
		}
		for _, header := range []string{"private", "red", "blue", "plan", "AWS4-HMAC-SHA256", "x-amz-meta-color"} {
			if !strings.Contains(body, header) {
				t.Errorf("%s: %s did not reach the service: %s", name, header, body)
			}
		}
	}
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"put_object","arguments":{"X_Amz_Meta_Color":"red"}}}`
	mcp := append([]string{"MCP-Protocol-Version", "2025-06-18"}, caller...)
	global := "agents {\nstore bolt DIR/store.db\ntoolset objects DIR/objects.yaml {\nforward_headers X-Team\n}\n}"
	s.Start(global, "mcp /mcp objects\notc /otc objects\n"+signing)
	sitetest.WantOpen(t, s, `"level":"warn"`, []string{`"path":"/mcp"`, `"path":"/otc"`})
	check("MCP", strings.ReplaceAll(s.Request("POST", "/mcp", call, mcp...).Body, `\"`, `"`))
	check("OTC", s.Request("POST", "/otc/call", `{"request":{"tool_id":"Objects.put_object","input":{"X_Amz_Meta_Color":"red"}}}`, caller...).Body)

	s.Start(global, "route {\nmcp /mcp objects\noagent DIR/agent.yaml {\ntoolset objects\n}\n"+signing+"}")
	check("the guard, MCP", strings.ReplaceAll(s.Request("POST", "/mcp", call, append(mcp, "Authorization", "Bearer user")...).Body, `\"`, `"`))
	check("the guard", s.Request("PUT", "/objects", "", append(caller, "X-Amz-Meta-Color", "red", "Authorization", "Bearer user")...).Body)
}

func TestTransport_limits_the_body(t *testing.T) {
	s := start(t, "service execute-api\nmax_body 1KB")
	if got := s.Request("POST", "/", strings.Repeat("x", 1001)); got.Status != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d", got.Status)
	}
}

func TestTransport_sends_nothing_without_credentials(t *testing.T) {
	s := start(t, "service execute-api\naccess_key {env.FAIRWAY_TEST_UNSET}\nsecret_key x")
	if got := s.Request("GET", "/", ""); got.Status != http.StatusServiceUnavailable {
		t.Errorf("status %d %s", got.Status, got.Body)
	}
	s.Logged("access", "key", "no", "value")
}

func TestTransport_options_are_checked(t *testing.T) {
	for options, want := range map[string]string{
		"":                        "service execute-api",
		"service a\nsecret_key b": "access_key",
		"service a\naccess_key {http.request.host}\nsecret_key b": "placeholders",
		"service a\nservice b": "service twice",
		"servce a":             "unrecognized service",
		"service a\naccess_key $KEY\nsecret_key b": "{env.NAME}",
	} {
		s := sitetest.NewSite(t)
		_, _, err := sitetest.Adapt("http://a.test {\nreverse_proxy https://a.amazonaws.com {\ntransport aws_sigv4 {\n" + options + "\n}\n}\n}")
		if err == nil {
			err = s.Load("", "reverse_proxy https://a.amazonaws.com {\ntransport aws_sigv4 {\n"+options+"\n}\n}")
		}
		if err == nil || !testkit.ContainsAll(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", options, err, want)
		}
	}
}
