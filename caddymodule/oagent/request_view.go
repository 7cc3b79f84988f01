package oagent

import "net/http"

// judged returns the request for checks and for the record: without the credentials and
// headers that the gateway injected for the toolset. They are not inputs, and the caller's
// values that they replaced do not reach the API.
func (p *passage) judged() *http.Request {
	if p.rec == nil || p.rec.ToolsetCredentials == nil {
		return p.r
	}
	r, target := *p.r, *p.r.URL
	r.URL, r.Header = &target, p.r.Header.Clone()
	p.rec.ToolsetCredentials.Remove(&r)
	return &r
}
