package oagent

import (
	"net/http"
	"net/textproto"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/conceal"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/ocp"
)

// callerCredentials are the places in a request where callers send credentials for the APIs,
// according to the security schemes of their documents. The header Authorization is always
// included.
type callerCredentials struct{ headers, queries, cookies []string }

func (c *callerCredentials) add(schemes map[string]*ocp.SecurityScheme) {
	for _, s := range schemes {
		if s.Type != "apiKey" {
			continue
		}
		switch s.In {
		case "header":
			c.headers = append(c.headers, textproto.CanonicalMIMEHeaderKey(s.ParameterName))
		case "query":
			c.queries = append(c.queries, s.ParameterName)
		case "cookie":
			c.cookies = append(c.cookies, s.ParameterName)
		}
	}
}

func (c *callerCredentials) sort() {
	for _, names := range []*[]string{&c.headers, &c.queries, &c.cookies} {
		slices.Sort(*names)
		*names = slices.Compact(*names)
	}
}

// in reports whether the request has credentials. further contains those in the query and in
// cookies, as pairs of name and value.
func (c *callerCredentials) in(r *http.Request) (further []string, found bool) {
	found = r.Header.Get("Authorization") != "" ||
		slices.ContainsFunc(c.headers, func(name string) bool { return r.Header.Get(name) != "" })
	if len(c.queries) > 0 && r.URL.RawQuery != "" {
		query := r.URL.Query()
		for _, name := range c.queries {
			if value := query.Get(name); value != "" {
				further = append(further, "query "+name, value)
			}
		}
	}
	for _, name := range c.cookies {
		if cookie, err := r.Cookie(name); err == nil && cookie.Value != "" {
			further = append(further, "cookie "+name, cookie.Value)
		}
	}
	return further, found || len(further) > 0
}

// repeatsCredentials reports whether outputs contain a credential that was sent to the API:
// one that the gateway injected, or one of the caller. The record must not store such outputs.
func (p *passage) repeatsCredentials(outputs jsontext.Value) bool {
	if len(outputs) == 0 {
		return false
	}
	secrets := new(conceal.Secrets)
	p.with.AddTo(secrets)
	for _, value := range p.r.Header["Authorization"] {
		secrets.AddHeader(value)
	}
	for _, name := range p.linked.credentials.headers {
		for _, value := range p.r.Header[name] {
			secrets.Add(value)
		}
	}
	further, _ := p.linked.credentials.in(p.r)
	for i := 1; i < len(further); i += 2 {
		secrets.Add(further[i])
	}
	return secrets.Contains(string(outputs))
}

// bindCaller separates unauthenticated callers that share an IP address but send different
// credentials for the API: each gets Engagements of its own. The id of the Engagement gets a
// keyed hash of the credentials, as in the call records of otc.
//
// Credentials that never reach the API are ignored, because nobody checks them. Otherwise a
// caller could escape the agent's limits with new invented credentials for each call.
func (p *passage) bindCaller() *refused {
	if p.binding.User.ID != "" || !p.agent.asCaller && p.Chat == nil {
		return nil
	}
	r := p.r
	if rec := recorderOf(p.w); rec != nil && rec.ToolsetCredentials != nil {
		r = rec.ClientRequest // the inner request of the tool call already has the gateway's credentials instead
	}
	further, found := p.linked.credentials.in(r)
	if !found {
		return nil
	}
	hash, err := p.callerHash(r, further)
	if err != nil {
		return p.refuse(oagent.KindStore, 0, "", "nothing was done, because the record of the Engagement cannot be read just now: try again later", err)
	}
	p.binding.Engagement += "#" + hash
	return nil
}

func (p *passage) callerHash(r *http.Request, further []string) (string, error) {
	st, err := p.app.OpenStore(r.Context())
	if err != nil {
		return "", err
	}
	return p.app.CallerHashes.Of(r.Context(), st, r.Header, p.linked.credentials.headers, further)
}
