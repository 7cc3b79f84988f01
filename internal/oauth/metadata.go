package oauth

import (
	"errors"
	"net/url"
	"strings"

	"github.com/fairwayhq/fairway/internal/strictjson"
)

// WellKnown is the path below which the metadata of a resource are served (RFC 9728, section
// 3).
const WellKnown = "/.well-known/oauth-protected-resource"

// Metadata describes a protected resource (RFC 9728, section 2).
type Metadata struct {
	Resource             string   // URL, the audience of tokens
	AuthorizationServers []string // issuers
	Scopes               []string // scopes_supported
	Name                 string   // resource_name
	Documentation        string   // resource_documentation, a URL
}

// Append appends the document as JSON.
func (m *Metadata) Append(dst []byte) []byte {
	dst = append(dst, `{"resource":`...)
	dst = strictjson.AppendString(dst, m.Resource)
	if len(m.AuthorizationServers) > 0 {
		dst = strictjson.AppendStrings(append(dst, `,"authorization_servers":`...), m.AuthorizationServers)
	}
	if len(m.Scopes) > 0 {
		dst = strictjson.AppendStrings(append(dst, `,"scopes_supported":`...), m.Scopes)
	}
	dst = append(dst, `,"bearer_methods_supported":["header"]`...)
	if m.Name != "" {
		dst = append(dst, `,"resource_name":`...)
		dst = strictjson.AppendString(dst, m.Name)
	}
	if m.Documentation != "" {
		dst = append(dst, `,"resource_documentation":`...)
		dst = strictjson.AppendString(dst, m.Documentation)
	}
	return append(dst, '}')
}

// MetadataPath returns the path of the metadata of a resource: the well-known path followed by
// the resource's own path.
func MetadataPath(resource string) string {
	return WellKnown + strings.TrimSuffix(resource, "/")
}

// CheckResource returns an error if text cannot identify a resource. It must be an absolute URL
// without query and fragment. RFC 9728, section 1.2, discourages a query, so it is not
// supported.
func CheckResource(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil, u.Scheme != "https" && u.Scheme != "http", u.Hostname() == "":
		return errors.New("not an absolute URL such as https://api.example.com/mcp")
	case u.User != nil:
		return errors.New("the URL of a resource must not have a user or password")
	case u.RawQuery != "" || u.ForceQuery || strings.Contains(text, "#"):
		return errors.New("the URL of a resource must not have a query or a fragment")
	}
	return nil
}
