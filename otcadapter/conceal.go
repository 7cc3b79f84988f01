package otcadapter

import (
	"net/http"
	"sync"

	"github.com/fairwayhq/fairway/internal/conceal"
	"github.com/fairwayhq/fairway/ocp"
)

// callerSecrets returns the credentials that came with a call, because some APIs repeat them in
// their responses. They are the credentials of the call's context, and those of its own request
// that are sent to the API: the header Authorization, and the headers and cookies in which the
// API takes keys. The result is nil if the call came without credentials. The set is built when
// it is first needed.
func (c *call) callerSecrets(r *http.Request) func() *conceal.Secrets {
	own := c.ownCredentials(r)
	if len(own) == 0 && len(c.context.credentials) == 0 {
		return nil
	}
	return sync.OnceValue(func() *conceal.Secrets {
		secrets := new(conceal.Secrets)
		for _, value := range own {
			secrets.AddHeader(value)
			secrets.Add(value)
		}
		for _, brought := range c.context.credentials {
			secrets.Add(brought.value)
		}
		for _, need := range c.grant.supplied {
			if isBasic(need.scheme) {
				value, _ := c.context.credential(need.id)
				secrets.AddBasic(value)
			}
		}
		return secrets
	})
}

// isBasic reports whether the scheme is HTTP Basic authentication.
func isBasic(scheme *ocp.SecurityScheme) bool {
	return scheme.Type == "http" && scheme.Scheme == "basic"
}

// ownCredentials returns the credentials in the headers and cookies of the client's request.
func (c *call) ownCredentials(r *http.Request) (values []string) {
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
		for _, need := range alternative {
			if need.scheme.Type != "apiKey" || need.scheme.In != "cookie" {
				continue
			}
			if cookie, err := r.Cookie(need.scheme.ParameterName); err == nil {
				values = append(values, cookie.Value)
			}
		}
	}
	return values
}

// repeatsCredentials reports whether a result, or the response built from it, contains one of
// the call's credentials. The result is checked too, because the response may encode it again.
func (c *call) repeatsCredentials(result *ocp.Result, response []byte) bool {
	if c.secrets == nil || len(response) > c.maxRecorded {
		return false // too large to be recorded
	}
	secrets := c.secrets()
	return result != nil && secrets.Contains(string(result.Body)) || secrets.Contains(string(response))
}
