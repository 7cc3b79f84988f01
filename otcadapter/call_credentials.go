package otcadapter

import (
	"net/http"
	"sync"

	"github.com/fairwayhq/fairway/internal/conceal"
	"github.com/fairwayhq/fairway/ocp/security"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// A credentialSet returns the credentials that came with a call, because some APIs repeat them in
// their responses. It is nil if the call came without credentials. The set is built at the first
// use.
type credentialSet func() *conceal.Secrets

// credentialsOf returns the credentials of a call: those of its context, and those of the
// client's request that are sent to the API.
func (c *call) credentialsOf(r *http.Request) credentialSet {
	own := c.requestCredentials(r)
	if len(own) == 0 && len(c.context.credentials) == 0 {
		return nil
	}
	return sync.OnceValue(func() *conceal.Secrets {
		secrets := new(conceal.Secrets)
		for _, value := range own {
			secrets.AddHeader(value)
			secrets.Add(value)
		}
		for _, sent := range c.context.credentials {
			secrets.Add(sent.value)
		}
		for _, requirement := range c.grant.supplied {
			if isBasic(requirement.scheme) {
				value, _ := c.context.credential(requirement.id)
				secrets.AddBasic(value)
			}
		}
		return secrets
	})
}

// isBasic reports whether the scheme is HTTP Basic authentication.
func isBasic(scheme *security.Scheme) bool {
	return scheme.Type == "http" && scheme.Scheme == "basic"
}

// requestCredentials returns the credentials of the client's request that are sent to the API:
// the header Authorization, and the headers and cookies in which the API takes keys.
func (c *call) requestCredentials(r *http.Request) (values []string) {
	values = append(values, r.Header["Authorization"]...)
	for _, name := range c.keyHeaders {
		if name != "Authorization" {
			values = append(values, r.Header[name]...)
		}
	}
	if c.tool == nil || len(r.Header["Cookie"]) == 0 {
		return values
	}
	for _, alternative := range c.tool.requirements {
		for _, requirement := range alternative {
			if requirement.scheme.Type != "apiKey" || requirement.scheme.In != "cookie" {
				continue
			}
			if cookie, err := r.Cookie(requirement.scheme.ParameterName); err == nil {
				values = append(values, cookie.Value)
			}
		}
	}
	return values
}

// conceal removes the credentials from a text.
func (s credentialSet) conceal(text string) string {
	if s == nil {
		return text
	}
	return s().Conceal(text)
}

// areIn reports whether a result, or the response built from it, contains one of the credentials.
// The result is checked too, because the response may encode it again. A response over limit bytes
// is not recorded and not checked.
func (s credentialSet) areIn(result *tool.Result, response []byte, limit int) bool {
	if s == nil || len(response) > limit {
		return false
	}
	secrets := s()
	return result != nil && secrets.Contains(string(result.Body)) || secrets.Contains(string(response))
}
