package verify

import (
	"testing"
	"time"
)

// BenchmarkVerify verifies a token that is known, and one that is not.
func BenchmarkVerify(b *testing.B) {
	t := &testing.T{}
	s := newAuthServer(t)
	v, err := New(Options{Issuers: []Issuer{{URL: s.issuer}}, Transport: s})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(v.Close)
	token := s.token(t, with(goodClaims(), "exp", time.Now().Add(time.Hour).Unix(), "groups", []string{"a", "b", "c"}))
	for name, forget := range map[string]bool{"known": false, "new": true} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if forget {
					v.verified.recent, v.verified.older = nil, nil
				}
				if _, err := v.Verify(b.Context(), token, testAudience); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
