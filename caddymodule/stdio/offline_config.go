package stdio

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/commands"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/schema"
)

// placeholderUpstream is the upstream of a site whose tools are not called.
const placeholderUpstream = "http://localhost"

// loadConfig returns, as JSON, the configuration that the command line selects: a file, or one
// built from a document and an upstream. The upstream is only required if tools will be called.
func loadConfig(flags caddycmd.Flags, calls bool) ([]byte, error) {
	file, document, upstream := flags.String("config"), flags.String("openapi"), flags.String("upstream")
	if document != "" && upstream == "" && !calls {
		upstream = placeholderUpstream
	}
	switch {
	case file != "" && document != "":
		return nil, errors.New("--config and --openapi are both given; remove one (the configuration has its own documents)")
	case document != "":
		return documentConfig(flags, document, upstream)
	case upstream != "":
		return nil, errors.New("--upstream requires --openapi with the document of the API")
	case file == "-":
		return nil, errors.New("--config - is not possible, because standard input belongs to the client")
	case file == "":
		return nil, errors.New("give a configuration with --config, or a document with --openapi and the URL of its API with --upstream")
	}
	raw, _, _, err := caddycmd.LoadConfig(file, flags.String("adapter"))
	return raw, err
}

// documentConfig returns a site that serves the document's operations as tools and sends tool
// calls to the upstream.
func documentConfig(flags caddycmd.Flags, document, upstream string) ([]byte, error) {
	if flags.String("site") != "" || flags.String("adapter") != "" {
		return nil, errors.New("--site and --adapter require --config")
	}
	u, err := parseUpstream(upstream)
	if err != nil {
		return nil, fmt.Errorf("--upstream %q: %w", text.RedactURL(upstream), err)
	}
	toolset := &app.ToolsetConfig{
		OpenAPI: document,
		BuildOptions: tools.BuildOptions{
			Schemas: schema.Mode(flags.String("schemas")), Refs: flags.String("refs"), BasePath: strings.TrimSuffix(u.Path, "/"),
		},
	}
	if strings.HasPrefix(document, "/") {
		if _, err := os.Stat(document); err != nil {
			return nil, fmt.Errorf("--openapi: %w", err)
		}
	}
	if toolset.Include, err = commands.SelectorFlag(flags, "include"); err != nil {
		return nil, err
	}
	if toolset.Exclude, err = commands.SelectorFlag(flags, "exclude"); err != nil {
		return nil, err
	}
	type members map[string]any
	port, transport := "80", members{"protocol": "http"}
	if u.Scheme == "https" {
		port, transport["tls"] = "443", members{"server_name": u.Hostname()}
	}
	handlers := []any{
		members{"handler": "mcp", "path": flags.String("path"), "document": toolset},
		members{
			"handler":   "reverse_proxy",
			"upstreams": []any{members{"dial": net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port))}},
			"headers":   members{"request": members{"set": members{"Host": []string{u.Host}}}},
			"transport": transport,
		},
	}
	return json.Marshal(members{"apps": members{"http": members{"servers": members{"stdio": members{
		"automatic_https": members{"disable": true},
		"routes":          []any{members{"handle": handlers}},
	}}}}})
}

// parseUpstream parses the URL of an API.
func parseUpstream(source string) (*url.URL, error) {
	if source == "" {
		return nil, errors.New("the URL of the API is missing")
	}
	u, err := url.Parse(source)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, errors.New("write it as https://api.example.com")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("it must not have a user, a query or a fragment; give credentials with --header")
	case strings.ContainsAny(u.Host+u.Path, "{}"):
		return nil, errors.New("it must not have braces")
	}
	return u, nil
}
