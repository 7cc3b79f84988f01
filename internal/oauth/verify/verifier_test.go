package verify

import (
	"bytes"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/fairwayhq/fairway/internal/oauth"
	"github.com/fairwayhq/fairway/internal/testkit"
)

func TestVerify(t *testing.T) {
	s := newAuthServer(t)
	v := s.verifier(t, nil)
	token, err := v.Verify(t.Context(), s.token(t, goodClaims()), testAudience)
	if err != nil {
		t.Fatal(err)
	}
	got := [...]string{token.Subject, token.ClientID, token.Issuer, fmt.Sprint(token.Scopes), fmt.Sprint(token.Audience)}
	if want := [...]string{"ada", "inspector", testIssuer, "[trips:read trips:write]", "[" + testAudience + "]"}; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	of, err := token.Identify(new(oauth.ClaimRules))
	if err != nil {
		t.Fatal(err)
	}
	if len(of.MissingScopes([]string{"trips:read", "trips:write"})) != 0 || len(of.MissingScopes([]string{"trips"})) != 1 {
		t.Error("the scopes are judged wrongly")
	}
}

// TestClaims has what is refused, and accepted, of tokens with good signatures.
func TestClaims(t *testing.T) {
	s := newAuthServer(t)
	v := s.verifier(t, nil)
	now := time.Now()
	at := func(d time.Duration) int64 { return now.Add(d).Unix() }
	for rule, test := range map[string]struct {
		change []any
		want   string // "" if the token is good
	}{
		"aud/array":                 {[]any{"aud", []string{"x", testAudience}}, ""},
		"aud/other":                 {[]any{"aud", "https://api.test/other"}, "this resource"},
		"aud/prefix":                {[]any{"aud", testAudience + "/x"}, "this resource"},
		"aud/slash":                 {[]any{"aud", testAudience + "/"}, "this resource"},
		"aud/case":                  {[]any{"aud", "https://api.test/MCP"}, "this resource"},
		"aud/none":                  {[]any{"aud", nil}, "this resource"},
		"aud/empty":                 {[]any{"aud", []string{}}, "this resource"},
		"aud/number":                {[]any{"aud", 7}, "aud neither"},
		"aud/mixed":                 {[]any{"aud", []any{testAudience, 7}}, "aud neither"},
		"iss/other":                 {[]any{"iss", "https://evil.test"}, `iss "https://evil.test" issuer`},
		"iss/slash":                 {[]any{"iss", testIssuer + "/"}, "iss issuer"},
		"iss/none":                  {[]any{"iss", nil}, "iss issuer"},
		"iss/number":                {[]any{"iss", 7}, "types"},
		"iss/long":                  {[]any{"iss", strings.Repeat("é", 900)}, "iss issuer"},
		"exp/past":                  {[]any{"exp", at(-time.Hour)}, "expired"},
		"exp/within the leeway":     {[]any{"exp", at(-time.Second)}, ""},
		"exp/none":                  {[]any{"exp", nil}, "exp"},
		"exp/text":                  {[]any{"exp", "tomorrow"}, "exp"},
		"exp/milliseconds":          {[]any{"exp", now.Add(time.Hour).UnixMilli()}, "exp"},
		"exp/negative":              {[]any{"exp", -1}, "exp"},
		"exp/fraction":              {[]any{"exp", float64(at(time.Hour)) + 0.5}, ""},
		"nbf/future":                {[]any{"nbf", at(time.Hour)}, "yet"},
		"nbf/within the leeway":     {[]any{"nbf", at(20 * time.Second)}, ""},
		"nbf/text":                  {[]any{"nbf", "x"}, "nbf iat"},
		"iat/future":                {[]any{"iat", at(time.Hour)}, "yet"},
		"iat/none":                  {[]any{"iat", nil}, ""},
		"sub/none":                  {[]any{"sub", nil}, ""},
		"sub and client_id/none":    {[]any{"sub", nil, "client_id", nil}, "sub client_id"},
		"sub/azp":                   {[]any{"sub", nil, "client_id", nil, "azp", "app"}, ""},
		"sub/control characters":    {[]any{"sub", "ada\r\nX: y"}, "control"},
		"cnf/bound to a key":        {[]any{"cnf", map[string]any{"jkt": "x"}}, "bound"},
		"scope/none":                {[]any{"scope", nil}, ""},
		"scope/object":              {[]any{"scope", map[string]any{}}, "scope scp"},
		"scope/two issuers' habits": {[]any{"scope", nil, "scp", []string{"a", "b"}}, ""},
	} {
		t.Run(rule, func(t *testing.T) {
			_, err := v.Verify(t.Context(), s.token(t, with(goodClaims(), test.change...)), testAudience)
			if test.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if refusal := wantError(t, err, oauth.InvalidToken, test.want); len(refusal.Description) > 300 {
				t.Errorf("%d bytes of description", len(refusal.Description))
			}
		})
	}
}

// TestScopes reads the forms in which issuers write them.
func TestScopes(t *testing.T) {
	s := newAuthServer(t)
	v := s.verifier(t, nil)
	for rule, test := range map[string]struct {
		scope, scp any
		want       string
	}{
		"string":       {"a b", nil, "[a b]"},
		"spaces":       {" a  b a ", nil, "[a b]"},
		"array":        {[]string{"a", "b"}, nil, "[a b]"},
		"scp/string":   {nil, "a b", "[a b]"},
		"scp/array":    {nil, []string{"a", "b"}, "[a b]"},
		"scope wins":   {"a", "b", "[a]"},
		"scope empty":  {"", "b", "[b]"},
		"null":         {json.RawMessage("null"), nil, "[]"},
		"none of both": {nil, nil, "[]"},
	} {
		t.Run(rule, func(t *testing.T) {
			token, err := v.Verify(t.Context(), s.token(t, with(goodClaims(), "scope", test.scope, "scp", test.scp)), testAudience)
			if err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint(token.Scopes) != test.want {
				t.Errorf("got %v, want %s", token.Scopes, test.want)
			}
		})
	}
}

// TestAlgorithms has the ways to sign, with one key of each kind published.
func TestAlgorithms(t *testing.T) {
	s := newAuthServer(t)
	p256, p384, p521, ed := ecKey(t, elliptic.P256()), ecKey(t, elliptic.P384()), ecKey(t, elliptic.P521()), edKey(t)
	s.add("p256", "", p256)
	s.add("p384", "ES384", p384)
	s.add("p521", "", p521)
	s.add("ed", "", ed)
	s.add("bound", "PS256", rsaKey())
	v := s.verifier(t, nil)
	all := s.verifier(t, func(o *Options) { o.Algorithms = knownAlgorithms })
	kid := func(id string) map[string]any { return map[string]any{"kid": id} }
	for rule, test := range map[string]struct {
		v     *Verifier
		token string
		want  string
	}{
		"RS256":                        {v, sign(t, "RS256", rsaKey(), kid("rsa"), goodClaims()), ""},
		"PS256":                        {v, sign(t, "PS256", rsaKey(), kid("rsa"), goodClaims()), ""},
		"ES256":                        {v, sign(t, "ES256", p256, kid("p256"), goodClaims()), ""},
		"ES384":                        {v, sign(t, "ES384", p384, kid("p384"), goodClaims()), ""},
		"EdDSA":                        {v, sign(t, "EdDSA", ed, kid("ed"), goodClaims()), ""},
		"ES512/not by default":         {v, sign(t, "ES512", p521, kid("p521"), goodClaims()), `alg "ES512"`},
		"ES512/chosen":                 {all, sign(t, "ES512", p521, kid("p521"), goodClaims()), ""},
		"RS512/chosen":                 {all, sign(t, "RS512", rsaKey(), kid("rsa"), goodClaims()), ""},
		"no kid/only one suits":        {v, sign(t, "ES256", p256, nil, goodClaims()), ""},
		"no kid/several suit":          {v, sign(t, "PS256", rsaKey(), nil, goodClaims()), ""},
		"kid of another type":          {v, sign(t, "ES256", p256, kid("rsa"), goodClaims()), "publish"},
		"key bound to another alg":     {v, sign(t, "RS256", rsaKey(), kid("bound"), goodClaims()), "publish"},
		"kid unknown":                  {v, sign(t, "RS256", rsaKey(), kid("x"), goodClaims()), "publish"},
		"stranger's key, known kid":    {v, sign(t, "ES256", ecKey(t, elliptic.P256()), kid("p256"), goodClaims()), "signature"},
		"stranger's key, embedded":     {v, embedded(t, ecKey(t, elliptic.P256()), "p256"), "signature"},
		"HS256/public key as secret":   {v, sign(t, "HS256", publicPEM(t), kid("rsa"), goodClaims()), `alg "HS256"`},
		"HS256/all algorithms":         {all, sign(t, "HS256", publicPEM(t), kid("rsa"), goodClaims()), `alg "HS256"`},
		"none":                         {v, forged(`{"alg":"none","kid":"rsa"}`, goodClaims(), ""), `alg "none"`},
		"None":                         {v, forged(`{"alg":"None","kid":"rsa"}`, goodClaims(), "AA"), `alg "None"`},
		"none/all algorithms":          {all, forged(`{"alg":"none"}`, goodClaims(), "AA"), `alg "none"`},
		"no alg":                       {v, forged(`{"kid":"rsa"}`, goodClaims(), "AA"), `alg ""`},
		"alg twice":                    {v, forged(`{"alg":"RS256","alg":"none"}`, goodClaims(), "AA"), "header JSON"},
		"alg/case of the name":         {v, forged(`{"ALG":"RS256"}`, goodClaims(), "AA"), `alg ""`},
		"crit/unknown":                 {v, sign(t, "RS256", rsaKey(), map[string]any{"kid": "rsa", "crit": []string{"x"}, "x": 1}, goodClaims()), "crit"},
		"crit/b64":                     {v, forged(`{"alg":"RS256","b64":false,"crit":["b64"]}`, goodClaims(), "AA"), "crit"},
		"crit/null":                    {v, forged(`{"alg":"RS256","crit":null}`, goodClaims(), "AA"), "crit"},
		"typ/JWT":                      {v, sign(t, "RS256", rsaKey(), map[string]any{"kid": "rsa", "typ": "JWT"}, goodClaims()), ""},
		"typ/application/at+jwt":       {v, sign(t, "RS256", rsaKey(), map[string]any{"kid": "rsa", "typ": "application/at+jwt"}, goodClaims()), ""},
		"typ/of something else":        {v, sign(t, "RS256", rsaKey(), map[string]any{"kid": "rsa", "typ": "logout+jwt"}, goodClaims()), "access"},
		"signature cut off":            {v, cut(sign(t, "RS256", rsaKey(), kid("rsa"), goodClaims())), "signature"},
		"signature missing":            {v, forged(`{"alg":"RS256","kid":"rsa"}`, goodClaims(), ""), "not"},
		"two parts":                    {v, "a.b", "three"},
		"five parts":                   {v, "a.b.c.d.e", "three"},
		"opaque":                       {v, "0123456789abcdef", "three"},
		"not base64":                   {v, "!.b.c", "three"},
		"line break":                   {v, "YQ\n.b.c", "three"},
		"header no JSON":               {v, "YQ.YQ.YQ", "header JSON"},
		"claims no JSON":               {v, b64(`{"alg":"RS256"}`) + ".YQ.YQ", "claims JSON"},
		"claims/name twice":            {v, b64(`{"alg":"RS256"}`) + "." + b64(`{"iss":"a","iss":"b"}`) + ".YQ", "claims JSON"},
		"claims/nested too deeply":     {v, b64(`{"alg":"RS256"}`) + "." + b64(strings.Repeat("[", 1000)) + ".YQ", "claims JSON"},
		"longer than the limit":        {v, strings.Repeat("a", oauth.MaxToken+1), "longer"},
		"longer than the limit/signed": {v, sign(t, "RS256", rsaKey(), kid("rsa"), with(goodClaims(), "x", strings.Repeat("x", oauth.MaxToken))), "longer"},
	} {
		t.Run(rule, func(t *testing.T) {
			_, err := test.v.Verify(t.Context(), test.token, testAudience)
			if test.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			refusal := wantError(t, err, oauth.InvalidToken, test.want)
			if strings.Contains(refusal.Error(), test.token) {
				t.Error("the error has the token")
			}
		})
	}
}

func b64(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// forged makes a token with a header of any kind.
func forged(header string, claims map[string]any, signature string) string {
	payload, _ := json.Marshal(claims)
	return b64(header) + "." + b64(string(payload)) + "." + signature
}

// cut removes a few bytes at the end of a token.
func cut(token string) string { return token[:len(token)-8] }

// publicPEM is the published key in the form that a careless verifier would take
// for the secret of an HMAC.
func publicPEM(t *testing.T) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(rsaKey().Public())
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

// embedded signs with a key that the token brings along.
func embedded(t *testing.T, key any, kid string) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, &jose.SignerOptions{
		EmbedJWK: true, ExtraHeaders: map[jose.HeaderKey]any{"kid": kid},
	})
	if err != nil {
		t.Fatal(err)
	}
	payload, _ := json.Marshal(goodClaims())
	signed, err := signer.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// TestIssuersApart wants each issuer's keys to verify its own tokens only.
func TestIssuersApart(t *testing.T) {
	ada, eve := newAuthServer(t), newAuthServer(t)
	eve.issuer = "https://eve.test"
	eveKeys := filepath.Join(t.TempDir(), "eve.json")
	key := ecKey(t, elliptic.P256())
	document, _ := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "e"}}})
	if err := os.WriteFile(eveKeys, document, 0o600); err != nil {
		t.Fatal(err)
	}
	v := ada.verifier(t, func(o *Options) { o.Issuers = append(o.Issuers, Issuer{URL: eve.issuer, JWKS: eveKeys}) })
	claims := with(goodClaims(), "iss", eve.issuer)
	headers := map[string]any{"kid": "e"}
	if _, err := v.Verify(t.Context(), sign(t, "ES256", key, headers, claims), testAudience); err != nil {
		t.Error(err)
	}
	_, err := v.Verify(t.Context(), sign(t, "ES256", key, headers, goodClaims()), testAudience)
	wantError(t, err, oauth.InvalidToken, "publish")
}

// TestOptions has configurations that are refused at once.
func TestOptions(t *testing.T) {
	directory := t.TempDir()
	bad := filepath.Join(directory, "bad.json")
	if err := os.WriteFile(bad, []byte(`{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for rule, test := range map[string]struct {
		options Options
		want    string
	}{
		"no issuer":            {Options{}, "no issuer"},
		"plain http":           {Options{Issuers: []Issuer{{URL: "http://auth.test"}}}, "plain http"},
		"no URL":               {Options{Issuers: []Issuer{{URL: "auth.test"}}}, "absolute"},
		"query":                {Options{Issuers: []Issuer{{URL: "https://auth.test?x=1"}}}, "query"},
		"fragment":             {Options{Issuers: []Issuer{{URL: "https://auth.test#"}}}, "fragment"},
		"password":             {Options{Issuers: []Issuer{{URL: "https://a:b@auth.test"}}}, "password"},
		"twice":                {Options{Issuers: []Issuer{{URL: testIssuer}, {URL: testIssuer}}}, "twice"},
		"jwks/plain http":      {Options{Issuers: []Issuer{{URL: testIssuer, JWKS: "http://keys.test/"}}}, "plain http"},
		"jwks/ftp":             {Options{Issuers: []Issuer{{URL: testIssuer, JWKS: "ftp://keys.test/"}}}, "scheme https"},
		"jwks/file missing":    {Options{Issuers: []Issuer{{URL: testIssuer, JWKS: filepath.Join(directory, "none.json")}}}, "no such file"},
		"jwks/symmetric keys":  {Options{Issuers: []Issuer{{URL: testIssuer, JWKS: bad}}}, "no public key"},
		"algorithm/none":       {Options{Issuers: []Issuer{{URL: testIssuer}}, Algorithms: []string{"none"}}, "algorithm"},
		"algorithm/HS256":      {Options{Issuers: []Issuer{{URL: testIssuer}}, Algorithms: []string{"HS256"}}, "algorithm"},
		"leeway of a year":     {Options{Issuers: []Issuer{{URL: testIssuer}}, Leeway: 24 * 365 * time.Hour}, "leeway"},
		"loopback may be http": {Options{Issuers: []Issuer{{URL: "http://127.0.0.1:8080/a"}, {URL: "http://localhost"}, {URL: "http://[::1]:99"}}}, ""},
	} {
		t.Run(rule, func(t *testing.T) {
			v, err := New(test.options)
			if err == nil {
				v.Close()
			}
			if test.want == "" && err != nil || test.want != "" && (err == nil || !testkit.ContainsAll(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if err != nil && strings.Contains(err.Error(), ":b@") {
				t.Errorf("the error has a password: %v", err)
			}
		})
	}
}

// TestCache wants tokens to be remembered, forgotten when they end, and never too
// many of them.
func TestCache(t *testing.T) {
	var c cache
	for i := range 5 * maxRemembered {
		c.put([32]byte{byte(i), byte(i >> 8), byte(i >> 16)}, remembered{})
		c.get([32]byte{1}) // asked for all the time, and so kept
	}
	if n := len(c.recent) + len(c.older); n > 2*maxRemembered {
		t.Errorf("%d tokens", n)
	}
	if _, ok := c.get([32]byte{1}); !ok {
		t.Error("a token that is in use was forgotten")
	}
	c.forget([32]byte{1})
	if _, ok := c.get([32]byte{1}); ok {
		t.Error("a token that was forgotten is there")
	}
}

// TestCache_skips_nothing asks twice with another audience and with the same bytes
// changed.
func TestCache_skips_nothing(t *testing.T) {
	s := newAuthServer(t)
	v := s.verifier(t, nil)
	good := s.token(t, goodClaims())
	first, err := v.Verify(t.Context(), good, testAudience)
	if err != nil {
		t.Fatal(err)
	}
	again, err := v.Verify(t.Context(), good, "other", testAudience)
	if err != nil || first != again {
		t.Errorf("not from the cache: %v", err)
	}
	_, err = v.Verify(t.Context(), good, "https://other.test/")
	wantError(t, err, oauth.InvalidToken, "this resource")
	_, err = v.Verify(t.Context(), cut(good), testAudience)
	wantError(t, err, oauth.InvalidToken, "signature")
	if len(v.verified.recent) != 1 {
		t.Errorf("%d tokens are remembered, of which one was good", len(v.verified.recent))
	}
}

// TestKeySets reads JWK sets.
func TestKeySets(t *testing.T) {
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Skip(err)
	}
	public := func(key jose.JSONWebKey) string {
		text, _ := json.Marshal(key)
		return string(text)
	}
	good := public(jose.JSONWebKey{Key: rsaKey().Public(), KeyID: "a"})
	for rule, test := range map[string]struct {
		document string
		keys     int
		want     string
	}{
		"one":                 {`{"keys":[` + good + `]}`, 1, ""},
		"broken certificate":  {`{"keys":[` + strings.Replace(good, "{", `{"x5c":["AAAA"],"x5t":"?","x5t#S256":"AA","x5u":":",`, 1) + `]}`, 1, ""},
		"certificates, other": {`{"keys":[` + strings.Replace(good, "{", `{"x5c":7,`, 1) + `,{"kty":"oct","k":"AAAA"}]}`, 1, ""},
		"private half":        {`{"keys":[` + public(jose.JSONWebKey{Key: rsaKey(), KeyID: "a"}) + `]}`, 1, ""},
		"others left out":     {`{"keys":[{"kty":"oct","k":"AAAA"},{"kty":"future"},{},7,` + good + `]}`, 1, ""},
		"for encryption":      {`{"keys":[` + public(jose.JSONWebKey{Key: rsaKey().Public(), Use: "enc"}) + `]}`, 0, "no public key use"},
		"weak":                {`{"keys":[` + public(jose.JSONWebKey{Key: weak.Public()}) + `]}`, 0, "no public key 2048"},
		"none":                {`{"keys":[]}`, 0, "no public key"},
		"no object":           {`[]`, 0, "not JWK set"},
		"garbage":             {`<html>`, 0, "not JWK set"},
		"too many":            {`{"keys":[` + strings.Repeat("{},", maxKeys) + good + `]}`, 0, "more than 100"},
		"keys twice":          {`{"keys":[` + good + `],"keys":[]}`, 0, "not JWK set"},
		"nested too deeply":   {`{"keys":` + strings.Repeat("[", 500) + `}`, 0, "not JWK set"},
		"cut off":             {`{"keys":[` + good, 0, "not JWK set"},
		"unknown member":      {`{"x":1,"keys":[` + good + `]}`, 1, ""},
		"with a null for use": {`{"keys":[` + strings.Replace(good, "{", `{"use":null,`, 1) + `]}`, 1, ""},
	} {
		t.Run(rule, func(t *testing.T) {
			set, err := parseKeys([]byte(test.document))
			if test.want != "" {
				if err == nil || !testkit.ContainsAll(err.Error(), test.want) {
					t.Fatalf("got %v, want %q", err, test.want)
				}
				return
			}
			if err != nil || len(set.keys) != test.keys {
				t.Errorf("got %v, %v", set, err)
			}
		})
	}
}

// FuzzToken looks for a panic, and for a token that is accepted though no one
// signed it.
func FuzzToken(f *testing.F) {
	var t testing.T
	s := newAuthServer(&t)
	keys, _ := json.Marshal(jose.JSONWebKeySet{Keys: s.keys})
	path := filepath.Join(f.TempDir(), "keys.json")
	if err := os.WriteFile(path, keys, 0o600); err != nil {
		f.Fatal(err)
	}
	v, err := New(Options{Issuers: []Issuer{{URL: testIssuer, JWKS: path}}, MinRefetch: time.Hour})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(v.Close)
	good := s.token(&t, goodClaims())
	f.Add("Bearer " + good)
	f.Add("bearer   " + cut(good))
	f.Add("Bearer " + forged(`{"alg":"none"}`, goodClaims(), ""))
	f.Add("Basic YTpi")
	f.Fuzz(func(t *testing.T, header string) {
		token, err := oauth.Bearer(map[string][]string{"Authorization": {header}})
		if err != nil {
			wantError(t, err, oauth.InvalidRequest, "")
			return
		}
		if token == "" {
			return
		}
		verified, err := v.Verify(t.Context(), token, testAudience)
		if err == nil {
			// Only the unused bits of the last base64 digits may differ.
			if !bytes.HasPrefix([]byte(token), []byte(good[:strings.LastIndex(good, ".")])) || verified.Subject != "ada" {
				t.Fatalf("accepted %q", header)
			}
			return
		}
		challenge := oauth.ChallengeOf(wantError(t, err, oauth.InvalidToken, ""), nil, "https://a.test/").String()
		if strings.ContainsFunc(challenge, func(r rune) bool { return r < ' ' || r > '~' }) || strings.Count(challenge, `"`) != 6 {
			t.Fatalf("not one challenge: %q", challenge)
		}
	})
}
