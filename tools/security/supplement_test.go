package security

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
)

func TestSupplement(t *testing.T) {
	r := httptest.NewRequest("GET", "/trips?to=Bern&key=mine&to=Brig&a%5Bb%5D=%2B", nil)
	r.Header.Set("Authorization", "Bearer caller")
	r.Header["Cookie"] = []string{"a=1; session=mine", "b=2"}
	ctx := ContextWithSupplement(context.Background(), &Supplement{
		Header: http.Header{"Authorization": {"Bearer first"}, "X-Key": {"k"}},
	})
	ctx = ContextWithSupplement(ctx, &Supplement{
		Header:  http.Header{"Authorization": {"Bearer second"}},
		Query:   url.Values{"key": {"s p"}},
		Cookies: []http.Cookie{{Name: "session", Value: "ours"}},

		Credentials: true,
	})
	SupplementFromContext(ctx).Apply(r)
	for what, c := range map[string][2]string{
		"the newest wins":             {r.Header.Get("Authorization"), "Bearer second"},
		"those before it stay":        {r.Header.Get("X-Key"), "k"},
		"other parameters as written": {r.URL.RawQuery, "to=Bern&to=Brig&a%5Bb%5D=%2B&key=s+p"},
		"other cookies stay":          {strings.Join(r.Header["Cookie"], "|"), "a=1; b=2; session=ours"},
	} {
		if c[0] != c[1] {
			t.Errorf("%s: got %q, want %q", what, c[0], c[1])
		}
	}
	if parts := SupplementFromContext(ctx).Secrets(); len(parts) != 1 || parts[0].Query.Get("key") != "s p" {
		t.Errorf("parts with credentials: %v", parts)
	}
	SupplementFromContext(ctx).Remove(r)
	for what, c := range map[string][2]string{
		"a header":            {strings.Join(r.Header["Authorization"], "|"), ""},
		"a header from below": {r.Header.Get("X-Key"), ""},
		"a parameter":         {r.URL.RawQuery, "to=Bern&to=Brig&a%5Bb%5D=%2B"},
		"a cookie":            {strings.Join(r.Header["Cookie"], "|"), "a=1; b=2"},
	} {
		if c[0] != c[1] {
			t.Errorf("removed: %s: got %q, want %q", what, c[0], c[1])
		}
	}
	before := r.URL.RawQuery
	if SupplementFromContext(context.Background()).Apply(r); r.URL.RawQuery != before {
		t.Error("nothing added something")
	}
}

func TestSecurityScheme_supplies_credentials(t *testing.T) {
	for _, c := range []struct {
		rule       string
		scheme     Scheme
		credential string
		want       string // the request that is sent, or the error
	}{
		{"apiKey/header", Scheme{Type: "apiKey", In: "header", ParameterName: "x-key"}, "k", "GET / X-Key=k"},
		{"apiKey/query", Scheme{Type: "apiKey", In: "query", ParameterName: "key"}, "a&b", "GET /?key=a%26b"},
		{"apiKey/cookie", Scheme{Type: "apiKey", In: "cookie", ParameterName: "sid"}, "k", "GET / Cookie=sid=k"},
		{"apiKey/cookie/unsafe", Scheme{Type: "apiKey", In: "cookie", ParameterName: "sid"}, "k; a=b", "scheme characters"},
		{"apiKey/nowhere", Scheme{Type: "apiKey", In: "body"}, "k", "scheme body"},
		{"basic", Scheme{Type: "http", Scheme: "basic"}, "ada:pw", "GET / Authorization=Basic YWRhOnB3"},
		{"basic/no-colon", Scheme{Type: "http", Scheme: "basic"}, "ada", "scheme user:password"},
		{"bearer", Scheme{Type: "http", Scheme: "bearer"}, "t", "GET / Authorization=Bearer t"},
		{"oauth2", Scheme{Type: "oauth2"}, "t", "GET / Authorization=Bearer t"},
		{"openIdConnect", Scheme{Type: "openIdConnect"}, "t", "GET / Authorization=Bearer t"},
		{"mutualTLS", Scheme{Type: "mutualTLS"}, "t", "scheme mutualTLS"},
		{"line-break", Scheme{Type: "oauth2"}, "secret\r\nX: y", "scheme characters"},
		{"empty", Scheme{Type: "oauth2"}, "", "scheme empty"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			c.scheme.Name = "scheme"
			var s Supplement
			if err := c.scheme.Supply(&s, c.credential); err != nil {
				if !testkit.ContainsAll(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
					t.Errorf("got %v, want %s", err, c.want)
				}
				return
			}
			r := httptest.NewRequest("GET", "/", nil)
			s.Apply(r)
			got := r.Method + " " + r.URL.RequestURI()
			for name, values := range r.Header {
				got += " " + name + "=" + values[0]
			}
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}
