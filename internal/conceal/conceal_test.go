package conceal

import "testing"

func TestSecrets(t *testing.T) {
	for name, test := range map[string]struct {
		add        func(*Secrets)
		text, want string
	}{
		"none":            {func(*Secrets) {}, "hunter2", "hunter2"},
		"short":           {func(s *Secrets) { s.Add("abc") }, "abc", "abc"},
		"plain":           {func(s *Secrets) { s.Add("hunter2") }, "key hunter2, hunter2!", "key [concealed], [concealed]!"},
		"in a query":      {func(s *Secrets) { s.Add("a b&c/d") }, "/items?key=a+b%26c%2Fd", "/items?key=[concealed]"},
		"in JSON":         {func(s *Secrets) { s.Add(`pass"word`) }, `{"detail":"bad pass\"word"}`, `{"detail":"bad [concealed]"}`},
		"slash in JSON":   {func(s *Secrets) { s.Add("ab/cd/ef") }, `{"detail":"bad ab\/cd\/ef"}`, `{"detail":"bad [concealed]"}`},
		"the longer one":  {func(s *Secrets) { s.Add("hunter"); s.Add("hunter2") }, "hunter2 hunter", "[concealed] [concealed]"},
		"bearer":          {func(s *Secrets) { s.AddAuthorization("Bearer hunter2") }, "not Bearer hunter2", "not Bearer [concealed]"},
		"scheme alone":    {func(s *Secrets) { s.AddAuthorization("hunter2") }, "hunter2", "[concealed]"},
		"basic":           {func(s *Secrets) { s.AddAuthorization("Basic dXNlcjpodW50ZXIy") }, "dXNlcjpodW50ZXIy user:hunter2 hunter2 user", "[concealed] [concealed] [concealed] user"},
		"not quite basic": {func(s *Secrets) { s.AddAuthorization("basic hunter2!") }, "basic hunter2!", "basic [concealed]"},
	} {
		t.Run(name, func(t *testing.T) {
			var s Secrets
			test.add(&s)
			got := test.text
			if r := s.Replacer(); r != nil {
				got = r.Replace(got)
			}
			if got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}
