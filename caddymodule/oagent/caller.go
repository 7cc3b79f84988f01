package oagent

import (
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/conceal"
	"github.com/fairwayhq/fairway/oagent/engagement"
)

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
	for _, name := range p.linked.Credentials.Headers {
		for _, value := range p.r.Header[name] {
			secrets.Add(value)
		}
	}
	further, _ := p.linked.Credentials.In(p.r)
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
	if p.binding.User.ID != "" || !p.agent.AsCaller && p.Chat == nil {
		return nil
	}
	r := p.r
	if rec := recorderOf(p.w); rec != nil && rec.ToolsetCredentials != nil {
		r = rec.ClientRequest // the inner request of the tool call already has the gateway's credentials instead
	}
	further, found := p.linked.Credentials.In(r)
	if !found {
		return nil
	}
	hash, err := p.callerHash(r, further)
	if err != nil {
		return p.refuse(engagement.KindStore, 0, "", "nothing was done, because the record of the Engagement cannot be read just now: try again later", err)
	}
	p.binding.Engagement += "#" + hash
	return nil
}

func (p *passage) callerHash(r *http.Request, further []string) (string, error) {
	st, err := p.app.OpenStore(r.Context())
	if err != nil {
		return "", err
	}
	return p.app.CallerHashes.Hash(r.Context(), st, r.Header, p.linked.Credentials.Headers, further)
}
