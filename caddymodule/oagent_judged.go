package caddymodule

import (
	"net/http"

	"github.com/fairwayhq/fairway/ocp"
)

// judged returns the request as it is to be judged and recorded, without the
// credentials in it, which are no inputs: those that the gateway has put there or that
// came with the call, and the keys in the query that the API's document names.
func (p *passage) judged() *http.Request {
	supplement := ocp.SupplementFromContext(p.r.Context())
	var with presented
	if p.rec != nil {
		with = p.rec.with
	}
	keys := p.operation.keys
	if p.r.URL.RawQuery == "" {
		keys = nil
	}
	if !supplement.HasCredentials() && len(with) == 0 && len(keys) == 0 {
		return p.r
	}
	r, target := *p.r, *p.r.URL
	r.URL, r.Header = &target, p.r.Header.Clone()
	supplement.RemoveCredentials(&r)
	for _, s := range with {
		s.RemoveCredentials(&r)
	}
	r.URL.RawQuery = withoutQuery(r.URL.RawQuery, keys)
	return &r
}
