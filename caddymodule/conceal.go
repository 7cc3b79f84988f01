package caddymodule

import (
	"net/http"
	"strings"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/conceal"
	"github.com/fairwayhq/fairway/ocp"
)

// presented are the credentials of the gateway that the API has seen with a call. Some
// APIs repeat them in what they refuse, which the caller is told.
type presented []*ocp.Supplement

// concealed takes the credentials out of the body of an answer, unless that is a
// success: what the API gives then it gives on purpose.
func (p presented) concealed(status int, body []byte) []byte {
	replacer := p.replacer(status)
	if replacer == nil || len(body) == 0 {
		return body
	}
	return []byte(replacer.Replace(string(body)))
}

// present notes what the gateway puts into the request; nil is nothing.
func (r *recorder) present(with *ocp.Supplement) {
	if with != nil {
		r.with = append(r.with, with)
	}
}

// conceal takes the gateway's credentials out of the recorded header and the body,
// which may be nil.
func (r *recorder) conceal(body *buffer.Buffer) {
	replacer := r.with.replacer(r.status)
	if replacer == nil {
		return
	}
	if body != nil {
		body.B = append(body.B[:0], replacer.Replace(string(body.B))...)
	}
	for name, values := range r.header {
		without := make([]string, len(values))
		for i, value := range values {
			without[i] = replacer.Replace(value)
		}
		r.header[name] = without
	}
}

// replacer returns nil if there is nothing to conceal.
func (p presented) replacer(status int) *strings.Replacer {
	if len(p) == 0 || status < http.StatusMultipleChoices {
		return nil
	}
	var secrets conceal.Secrets
	for _, with := range p {
		for name, values := range with.Header {
			for _, value := range values {
				if name == "Authorization" {
					secrets.AddAuthorization(value)
				} else {
					secrets.Add(value)
				}
			}
		}
		for _, values := range with.Query {
			for _, value := range values {
				secrets.Add(value)
			}
		}
	}
	return secrets.Replacer()
}
