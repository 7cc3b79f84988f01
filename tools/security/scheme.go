// Package security reads the security schemes of an OpenAPI document, and adds credentials to
// requests.
//
// Read returns the schemes of a document. Scheme.Supply puts a credential into a Supplement, where
// the scheme requires it. ContextWithSupplement hands the Supplement to whatever sends the
// request of a tool call, which adds it with Apply.
package security

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/fairwayhq/fairway/tools/openapi"
)

// maxSchemes is the largest number of schemes read from a document.
const maxSchemes = 256

// A Scheme is one way to authenticate with the API (OpenAPI 3.1, Security Scheme
// Object).
type Scheme struct {
	Name          string // the name that Plan.Security uses
	Type          string // "apiKey", "http", "oauth2", "openIdConnect" or "mutualTLS"
	Description   string
	In            string // for apiKey: "header", "query" or "cookie"
	ParameterName string // for apiKey: the name of that header, parameter or cookie
	Scheme        string // for http, in lower case: "basic", "bearer", …

	OpenIDConnectURL string // for openIdConnect
	Flows            []Flow // for oauth2
}

// A Flow is one way to get a token (OpenAPI 3.1, OAuth Flow Object).
type Flow struct {
	Grant            string // "authorizationCode", "clientCredentials", "implicit", "password" or "deviceAuthorization"
	AuthorizationURL string
	TokenURL         string
	Scopes           []string // in document order
}

// Errors of invalid credentials.
var (
	errUnsafeCredential = errors.New("has characters that are not allowed in a credential")
)

// Supply adds the credential to the supplement, where the scheme requires it: in a header,
// a query parameter, a cookie, or the Authorization header in the scheme's format. The
// credential for basic is user:password. Errors do not contain the credential.
func (s *Scheme) Supply(to *Supplement, credential string) error {
	switch {
	case credential == "":
		return s.unfit(errors.New("is empty"))
	case !httpguts.ValidHeaderFieldValue(credential):
		return s.unfit(errUnsafeCredential)
	}
	switch s.Type {
	case "apiKey":
		return s.supplyKey(to, credential)
	case "http":
		if s.Scheme == "basic" {
			if !strings.Contains(credential, ":") {
				return s.unfit(errors.New("must be user:password, as the scheme is basic"))
			}
			credential = base64.StdEncoding.EncodeToString([]byte(credential))
		}
		to.setHeader("Authorization", s.authorization()+" "+credential)
		return nil
	case "oauth2", "openIdConnect":
		to.setHeader("Authorization", "Bearer "+credential)
		return nil
	}
	return fmt.Errorf("security scheme %q is of type %q, for which a credential cannot be sent along", s.Name, s.Type)
}

func (s *Scheme) supplyKey(to *Supplement, credential string) error {
	switch s.In {
	case "header":
		if !httpguts.ValidHeaderFieldName(s.ParameterName) {
			return fmt.Errorf("security scheme %q names a header that cannot be one", s.Name)
		}
		to.setHeader(textproto.CanonicalMIMEHeaderKey(s.ParameterName), credential)
	case "query":
		if to.Query == nil {
			to.Query = make(url.Values)
		}
		to.Query.Set(s.ParameterName, credential)
	case "cookie":
		if strings.ContainsAny(credential, "\";, \\") || !httpguts.ValidHeaderFieldName(s.ParameterName) {
			return s.unfit(errUnsafeCredential)
		}
		to.Cookies = append(to.Cookies, http.Cookie{Name: s.ParameterName, Value: credential})
	default:
		return fmt.Errorf("security scheme %q says that its key is in %q, where there can be none", s.Name, s.In)
	}
	return nil
}

// authorization returns the scheme's name in the usual case. Scheme names are case
// insensitive, but some APIs compare them exactly.
func (s *Scheme) authorization() string {
	switch s.Scheme {
	case "":
		return "Bearer"
	case "hoba":
		return "HOBA"
	case "dpop":
		return "DPoP"
	}
	return strings.ToUpper(s.Scheme[:1]) + s.Scheme[1:]
}

func (s *Scheme) unfit(err error) error {
	return fmt.Errorf("the credential for security scheme %q %w", s.Name, err)
}

func (s *Supplement) setHeader(name, value string) {
	if s.Header == nil {
		s.Header = make(http.Header)
	}
	s.Header[name] = []string{value}
}

// Read returns the document's schemes by name.
func Read(document *openapi.Document) map[string]*Scheme {
	declared := document.SecuritySchemes()
	schemes := make(map[string]*Scheme, len(declared))
	for _, d := range declared[:min(len(declared), maxSchemes)] {
		schemes[d.Name] = &Scheme{
			Name:             d.Name,
			Type:             d.Type,
			Description:      d.Description,
			In:               d.In,
			ParameterName:    d.ParameterName,
			Scheme:           strings.ToLower(d.Scheme),
			OpenIDConnectURL: d.Get("openIdConnectUrl").Text(),
			Flows:            readFlows(d),
		}
	}
	return schemes
}

// readFlows reads the flows of an oauth2 scheme. They are an object by grant; in Swagger
// 2.0, the scheme itself is the only flow.
func readFlows(scheme openapi.SecurityScheme) (flows []Flow) {
	if grant := scheme.Get("flow").Text(); grant != "" {
		named := map[string]string{"accessCode": "authorizationCode", "application": "clientCredentials"}
		if renamed, ok := named[grant]; ok {
			grant = renamed
		}
		return []Flow{readFlow(grant, scheme.Node)}
	}
	for _, m := range scheme.Get("flows").Members() {
		if m.Value.Kind() == '{' {
			flows = append(flows, readFlow(m.Name, m.Value))
		}
	}
	return flows
}

func readFlow(grant string, flow *openapi.Node) Flow {
	read := Flow{
		Grant:            grant,
		AuthorizationURL: flow.Get("authorizationUrl").Text(),
		TokenURL:         flow.Get("tokenUrl").Text(),
	}
	for _, scope := range flow.Get("scopes").Members() {
		read.Scopes = append(read.Scopes, scope.Name)
	}
	return read
}
