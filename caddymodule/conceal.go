package caddymodule

import (
	"net/http"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/conceal"
	"github.com/fairwayhq/fairway/ocp"
)

// presented are the credentials that the API has seen in place of the caller's own.
// Some APIs repeat them in what they refuse, which the caller is told and the record
// keeps.
type presented []*ocp.Supplement

// secrets returns what has to be concealed in an answer: nothing in a success, for
// what the API gives then it gives on purpose.
func (p presented) secrets(status int) *conceal.Secrets {
	secrets := new(conceal.Secrets)
	if status >= http.StatusMultipleChoices {
		p.addTo(secrets)
	}
	return secrets
}

// addTo adds the credentials to the secrets.
func (p presented) addTo(secrets *conceal.Secrets) {
	for _, with := range p {
		for _, values := range with.Header {
			for _, value := range values {
				secrets.AddHeader(value)
			}
		}
		for _, values := range with.Query {
			for _, value := range values {
				secrets.Add(value)
			}
		}
		for _, cookie := range with.Cookies {
			secrets.Add(cookie.Value)
		}
	}
}

// withoutCredentials removes the credentials from a text about a call that failed.
func withoutCredentials(text string, cs credentials) string {
	with, err := cs.supplement(caddy.NewReplacer())
	if err != nil || with == nil {
		return text // without them it was not sent
	}
	return presented{with}.secrets(http.StatusInternalServerError).Conceal(text)
}

// concealed returns the body of an answer without the credentials.
func (p presented) concealed(status int, body []byte) []byte {
	secrets := p.secrets(status)
	if secrets.None() || len(body) == 0 {
		return body
	}
	return []byte(secrets.Conceal(string(body)))
}

// concealAnswer takes secrets out of an answer's header and its body, which may be nil
// and has no encoding. It reports whether the body has changed.
func concealAnswer(secrets *conceal.Secrets, header http.Header, body *buffer.Buffer) (changed bool) {
	if secrets.None() {
		return false
	}
	for name, values := range header {
		without := make([]string, len(values))
		for i, value := range values {
			without[i] = secrets.Conceal(value)
		}
		header[name] = without
	}
	if body == nil {
		return false
	}
	before := string(body.B)
	after := secrets.Conceal(before)
	body.B = append(body.B[:0], after...)
	return after != before
}
