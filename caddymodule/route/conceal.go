package route

import (
	"context"
	"net/http"

	"github.com/fairwayhq/fairway/caddymodule/app/credential"
	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/security"
)

// InjectedCredentials are the credentials that the gateway sent to the API instead of the
// caller's own. Some APIs repeat credentials in their error responses. Those responses go to
// the caller and into the records, so the credentials must be removed from them.
type InjectedCredentials []*security.Supplement

// Secrets returns the secrets to remove from a response. A successful response has none: its
// content is what the API intends to return.
func (p InjectedCredentials) Secrets(status int) *text.Secrets {
	secrets := new(text.Secrets)
	if status >= http.StatusMultipleChoices {
		p.AddTo(secrets)
	}
	return secrets
}

// AddTo adds the credentials to the secrets.
func (p InjectedCredentials) AddTo(secrets *text.Secrets) {
	for _, supplement := range p {
		for _, values := range supplement.Header {
			for _, value := range values {
				secrets.AddHeader(value)
			}
		}
		for _, values := range supplement.Query {
			for _, value := range values {
				secrets.Add(value)
			}
		}
		for _, cookie := range supplement.Cookies {
			secrets.Add(cookie.Value)
		}
	}
}

// Rejected has credentials replaced that the API has not accepted: it has responded with 401. It reports whether a further
// call has others.
func (p InjectedCredentials) Rejected() (replaced bool) {
	for _, supplement := range p {
		for _, rejected := range supplement.Rejected {
			rejected()
			replaced = true
		}
	}
	return replaced
}

// ConcealCredentials removes the credentials from the message of a failed call. If the API has not accepted them, they
// are replaced.
func ConcealCredentials(ctx context.Context, failure *tools.Failure, cs credential.Set) {
	supplement, err := cs.Current(ctx)
	if err != nil || supplement == nil {
		return // without usable credentials the call was not sent
	}
	injected := InjectedCredentials{supplement}
	failure.Message = injected.Secrets(http.StatusInternalServerError).Conceal(failure.Message)
	if failure.Status == http.StatusUnauthorized {
		injected.Rejected()
	}
}

// ConcealBody returns the body of a response without the credentials.
func (p InjectedCredentials) ConcealBody(status int, body []byte) []byte {
	secrets := p.Secrets(status)
	if secrets.IsEmpty() || len(body) == 0 {
		return body
	}
	return []byte(secrets.Conceal(string(body)))
}

// ConcealInResponse removes the secrets from the header and the body of a response. The body may be
// nil and must not be compressed. ConcealInResponse reports whether the body has changed.
func ConcealInResponse(secrets *text.Secrets, header http.Header, body *buffer.Buffer) (changed bool) {
	if secrets.IsEmpty() {
		return false
	}
	for name, values := range header {
		concealed := make([]string, len(values))
		for i, value := range values {
			concealed[i] = secrets.Conceal(value)
		}
		header[name] = concealed
	}
	if body == nil {
		return false
	}
	before := string(body.B)
	after := secrets.Conceal(before)
	body.B = append(body.B[:0], after...)
	return after != before
}
