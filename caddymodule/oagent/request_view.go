package oagent

import "net/http"

// judged returns the request as it is to be judged and recorded, without what the
// gateway has put there for the toolset: that is no input, and what the caller had in
// its place does not reach the API.
func (p *passage) judged() *http.Request {
	if p.rec == nil || p.rec.Own == nil {
		return p.r
	}
	r, target := *p.r, *p.r.URL
	r.URL, r.Header = &target, p.r.Header.Clone()
	p.rec.Own.Remove(&r)
	return &r
}
