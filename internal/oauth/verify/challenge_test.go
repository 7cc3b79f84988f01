package verify

import (
	"encoding/json"
	"net/http"
	"reflect"
	"testing"

	"github.com/fairwayhq/fairway/internal/oauth"
	"github.com/fairwayhq/fairway/internal/testkit"
)

func TestBearer(t *testing.T) {
	for rule, test := range map[string]struct {
		values []string
		token  string
		want   string
	}{
		"none":                {nil, "", ""},
		"token":               {[]string{"Bearer a.b.c"}, "a.b.c", ""},
		"scheme in any case":  {[]string{"bEARER a-._~+/9=="}, "a-._~+/9==", ""},
		"several spaces":      {[]string{"  Bearer   x  "}, "x", ""},
		"another scheme":      {[]string{"Basic YTpi"}, "", ""},
		"several, none of it": {[]string{"Basic YTpi", "Digest x"}, "", ""},
		"no token":            {[]string{"Bearer"}, "", "no token"},
		"no token, spaces":    {[]string{"Bearer   "}, "", "no token"},
		"two tokens":          {[]string{"Bearer a b"}, "", "characters"},
		"list":                {[]string{"Bearer a, Bearer b"}, "", "characters"},
		"two headers":         {[]string{"Bearer a", "Bearer a"}, "", "several Authorization"},
		"two headers, Basic":  {[]string{"Bearer a", "Basic b"}, "", "several Authorization"},
		"control character":   {[]string{"Bearer a\x01b"}, "", "characters"},
		"not ASCII":           {[]string{"Bearer é"}, "", "characters"},
		"equals inside":       {[]string{"Bearer a=b"}, "", "characters"},
		"equals alone":        {[]string{"Bearer =="}, "", "characters"},
	} {
		t.Run(rule, func(t *testing.T) {
			token, err := oauth.Bearer(http.Header{"Authorization": test.values})
			if test.want != "" {
				if refusal := wantError(t, err, oauth.InvalidRequest, test.want); refusal.Status() != http.StatusBadRequest {
					t.Errorf("status %d", refusal.Status())
				}
				return
			}
			if err != nil || token != test.token {
				t.Errorf("got %q, %v", token, err)
			}
		})
	}
}

func TestChallenge(t *testing.T) {
	for rule, test := range map[string]struct {
		challenge oauth.Challenge
		want      string
	}{
		"nothing": {oauth.Challenge{}, `Bearer`},
		"all": {
			oauth.Challenge{Realm: "r", Error: oauth.InsufficientScope, Description: "no", Scope: []string{"a", "b:c"}, ResourceMetadata: "https://a.test/x"},
			`Bearer realm="r", error="insufficient_scope", error_description="no", scope="a b:c", resource_metadata="https://a.test/x"`,
		},
		"missing token":  {oauth.ChallengeOf(&oauth.Error{Code: oauth.Missing, Description: "x"}, nil, "https://a.test/x"), `Bearer resource_metadata="https://a.test/x"`},
		"invalid token":  {oauth.ChallengeOf(&oauth.Error{Code: oauth.InvalidToken, Description: "expired"}, []string{"a"}, ""), `Bearer error="invalid_token", error_description="expired", scope="a"`},
		"hostile values": {oauth.Challenge{Realm: "a\"b\\c\r\nX: y", Description: "é\x00"}, `Bearer realm="a'b'c  X: y", error_description="??"`},
	} {
		t.Run(rule, func(t *testing.T) {
			if got := test.challenge.String(); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestStatus(t *testing.T) {
	for code, want := range map[oauth.Code]int{oauth.Missing: 401, oauth.InvalidToken: 401, oauth.InvalidRequest: 400, oauth.InsufficientScope: 403, oauth.Unavailable: 503} {
		if got := (&oauth.Error{Code: code}).Status(); got != want {
			t.Errorf("%s: got %d, want %d", code, got, want)
		}
	}
}

func TestMetadata(t *testing.T) {
	full := oauth.Metadata{
		Resource: testAudience, AuthorizationServers: []string{testIssuer, "https://b.test"}, Scopes: []string{"a", "b"},
		Name: `Trips "by train"`, Documentation: "https://docs.test/",
	}
	var got, want map[string]any
	if err := json.Unmarshal(full.Append(nil), &got); err != nil {
		t.Fatal(err)
	}
	_ = json.Unmarshal([]byte(`{"resource":"https://api.test/mcp","authorization_servers":["https://auth.test/tenant","https://b.test"],
		"scopes_supported":["a","b"],"bearer_methods_supported":["header"],"resource_name":"Trips \"by train\"","resource_documentation":"https://docs.test/"}`), &want)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v", got)
	}
	if got := string((&oauth.Metadata{Resource: "x"}).Append(nil)); got != `{"resource":"x","bearer_methods_supported":["header"]}` {
		t.Errorf("got %s", got)
	}
	for path, want := range map[string]string{"": oauth.WellKnown, "/": oauth.WellKnown, "/mcp": oauth.WellKnown + "/mcp", "/a/b/": oauth.WellKnown + "/a/b"} {
		if got := oauth.MetadataPath(path); got != want {
			t.Errorf("%q: got %s, want %s", path, got, want)
		}
	}
}

func TestCheckResource(t *testing.T) {
	for text, want := range map[string]string{
		"https://api.test/mcp":   "",
		"http://localhost:8080":  "",
		"api.test":               "absolute",
		"ftp://api.test":         "absolute",
		"https://a:b@api.test":   "password",
		"https://api.test/?a":    "query",
		"https://api.test/#":     "fragment",
		"https://api.test/%zz":   "absolute",
		"https:///no-host/in-it": "absolute",
	} {
		err := oauth.CheckResource(text)
		if want == "" && err != nil || want != "" && (err == nil || !testkit.ContainsAll(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}
