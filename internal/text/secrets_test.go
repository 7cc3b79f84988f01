package text

import (
	"encoding/json"
	"html"
	"net/url"
	"strings"
	"testing"
)

func TestSecrets(t *testing.T) {
	for name, test := range map[string]struct {
		add        func(*Secrets)
		text, want string
	}{
		"none":               {func(*Secrets) {}, "hunter2", "hunter2"},
		"short":              {func(s *Secrets) { s.Add("abc") }, "abc", "abc"},
		"plain":              {func(s *Secrets) { s.Add("hunter2") }, "key hunter2, hunter2!", "key [concealed], [concealed]!"},
		"one after another":  {func(s *Secrets) { s.Add("hunter2") }, "hunter2hunter2hunter", "[concealed][concealed]hunter"},
		"the longer one":     {func(s *Secrets) { s.Add("hunter"); s.Add("hunter2"); s.Add("hunter") }, "hunter2 hunter", "[concealed] [concealed]"},
		"a part of one":      {func(s *Secrets) { s.Add("hunter2") }, "hunter", "hunter"},
		"slash in JSON":      {func(s *Secrets) { s.Add("ab/cd/ef") }, `{"detail":"bad ab\/cd\/ef"}`, `{"detail":"bad [concealed]"}`},
		"units in JSON":      {func(s *Secrets) { s.Add("ab+cd<é") }, `bad ab\u002Bcd\u003c\u00E9`, `bad [concealed]`},
		"a pair in JSON":     {func(s *Secrets) { s.Add("key😀") }, `bad key\ud83d\ude00`, `bad [concealed]`},
		"half a pair":        {func(s *Secrets) { s.Add("key😀") }, `bad key\ud83d`, `bad key\ud83d`},
		"in a query":         {func(s *Secrets) { s.Add("a b&c/dé") }, "/items?key=a+b%26c%2fd%c3%A9", "/items?key=[concealed]"},
		"half a percent":     {func(s *Secrets) { s.Add("abcé") }, "abc%c3", "abc%c3"},
		"in a path":          {func(s *Secrets) { s.Add("a b&c/d") }, "/a%20b&c%2Fd", "/[concealed]"},
		"in HTML":            {func(s *Secrets) { s.Add(`a+b<c>"d'`) }, "<p>a&#43;b&lt;c&gt;&quot;d&#x27;</p>", "<p>[concealed]</p>"},
		"no entity":          {func(s *Secrets) { s.Add("a&b&c") }, "a&nope;b", "a&nope;b"},
		"percent in it":      {func(s *Secrets) { s.Add("100%25") }, "100%25 100%2525", "[concealed] [concealed]"},
		"backslash in it":    {func(s *Secrets) { s.Add(`a\nb`) }, `a\nb a\\nb`, "[concealed] [concealed]"},
		"bearer":             {func(s *Secrets) { s.AddHeader("Bearer hunter2") }, "not Bearer hunter2", "not Bearer [concealed]"},
		"no scheme":          {func(s *Secrets) { s.AddHeader("hunter2") }, "hunter2", "[concealed]"},
		"parameters":         {func(s *Secrets) { s.AddHeader(`Token token="hunter2", id=theuser`) }, "hunter2 theuser Token", "[concealed] [concealed] Token"},
		"basic":              {func(s *Secrets) { s.AddHeader("Basic dXNlcjpodW50ZXIy") }, "dXNlcjpodW50ZXIy user:hunter2 hunter2 user", "[concealed] [concealed] [concealed] user"},
		"not quite basic":    {func(s *Secrets) { s.AddHeader("basic hunter2!") }, "basic hunter2!", "basic [concealed]"},
		"broken at the end":  {func(s *Secrets) { s.Add("hunter2") }, `hunter\u003`, `hunter\u003`},
		"broken at the end%": {func(s *Secrets) { s.Add("hunter2") }, `hunter%3`, `hunter%3`},
	} {
		t.Run(name, func(t *testing.T) {
			var s Secrets
			test.add(&s)
			if got := s.Conceal(test.text); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			if got := s.Contains(test.text); got != (test.want != test.text) {
				t.Errorf("In = %t", got)
			}
			if name == "none" != s.IsEmpty() && name != "short" {
				t.Error("None is wrong")
			}
		})
	}
}

// FuzzConceal wants no secret to be found in what is left of a text that had it, as
// others write it.
func FuzzConceal(f *testing.F) {
	f.Add("hunter2", "said ", "!")
	f.Add("ab+cd/ef<gh==", "{\"a\":\"", "\"}")
	f.Add("a\\u0062%41&lt;", "\\", "u0041")
	f.Add("pass word\u00e9\U0001F600", "", "")
	f.Fuzz(func(t *testing.T, secret, before, after string) {
		var s Secrets
		s.Add(secret)
		if s.IsEmpty() || !validText(secret) || strings.Contains(concealed, secret) {
			return
		}
		quoted, err := json.Marshal(secret)
		if err != nil {
			t.Fatal(err)
		}
		for _, written := range []string{
			secret, url.QueryEscape(secret), url.PathEscape(secret), html.EscapeString(secret), string(quoted[1 : len(quoted)-1]),
		} {
			if got := s.Conceal("\x00" + written + "\x00"); got != "\x00"+concealed+"\x00" {
				t.Errorf("%q written as %q is %q", secret, written, got)
			}
		}
		s.Conceal(before + secret + after)
		s.Conceal(before + after)
	})
}

func validText(s string) bool {
	return strings.ToValidUTF8(s, "") == s && !strings.ContainsAny(s, "\x00\ufffd")
}
