package console

import (
	"encoding/base64"
	"html/template"
	"net/http"
	"net/url"
	"strings"

	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/internal/strictjson"
)

// Kinds of logins of an endpoint.
const (
	loginNone  = "none"
	loginBasic = "basic"
	loginOAuth = "oauth"
	loginOther = "other" // for example an API key
)

// connectModel has what users copy to connect their clients.
type connectModel struct {
	Endpoints []connection `json:"endpoints"`
}

// connection describes how clients connect to an endpoint.
type connection struct {
	ID       string      `json:"id"`
	Protocol string      `json:"protocol"`
	URL      string      `json:"url"`
	Login    string      `json:"login"` // none, basic, oauth or other
	Header   string      `json:"header,omitzero"`
	Clients  []copyModel `json:"clients"`
	Links    []linkModel `json:"links,omitzero"` // that install the endpoint in a client
}

// linkModel is a link that opens a program of the user.
type linkModel struct {
	Title string       `json:"title"`
	URL   template.URL `json:"url"`
}

// serveConnect serves what clients need to connect.
func serveConnect(s *siteOf, q *request) (*page, error) {
	if len(q.rest) != 1 || !q.isRead() {
		return nil, errNotFound
	}
	m := &connectModel{Endpoints: []connection{}}
	for _, e := range s.endpoints() {
		c := connection{ID: e.id, Protocol: e.Protocol, URL: q.origin() + e.Path}
		c.Login, c.Header = s.loginOf(e, q.Request)
		name := clientName(e.Parts.ShownName())
		c.Clients, c.Links = clients(&c, name), installLinks(&c, name)
		m.Endpoints = append(m.Endpoints, c)
	}
	return &page{view: "connect", template: "connect", title: "Connect", model: m}, nil
}

// loginOf finds out how the clients of an endpoint log in: it sends a request without credentials, and reads
// the challenge of the response. Header is a header that clients must send, with a value to fill in.
func (s *siteOf) loginOf(e siteEndpoint, r *http.Request) (login, header string) {
	anonymous := r.Clone(site.ContextWithBrowser(r.Context(), nil))
	anonymous.Header = http.Header{}
	path, body := e.Path, []byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	method := http.MethodPost
	if e.Protocol == "otc" {
		method, path, body = http.MethodGet, e.Path+"/tools?limit=1", nil
	}
	response := s.ask(anonymous, method, path, body)
	challenge := strings.ToLower(strings.Join(response.Header().Values("Www-Authenticate"), ", "))
	switch {
	case response.Status != http.StatusUnauthorized && response.Status != http.StatusForbidden:
		return loginNone, ""
	case strings.Contains(challenge, "resource_metadata"):
		return loginOAuth, ""
	case strings.HasPrefix(challenge, "basic"):
		return loginBasic, "Authorization: Basic BASE64-OF-USER:PASSWORD"
	case strings.HasPrefix(challenge, "bearer"):
		return loginOther, "Authorization: Bearer YOUR-TOKEN"
	}
	return loginOther, "X-API-Key: YOUR-KEY"
}

// clientName returns a name that every client accepts for a server.
func clientName(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '-'
	}, strings.ToLower(name))
}

// installLinks returns the links that add an MCP endpoint to Cursor and VS Code. They have no credentials. An
// endpoint whose clients must send a header has no links, because the user must fill in the value.
func installLinks(c *connection, name string) []linkModel {
	if c.Protocol != "mcp" || c.Header != "" {
		return nil
	}
	cursor := base64.StdEncoding.EncodeToString([]byte(`{"url":` + quote(c.URL) + "}"))
	code := strings.ReplaceAll(url.QueryEscape(`{"name":`+quote(name)+`,"type":"http","url":`+quote(c.URL)+"}"), "+", "%20")
	return []linkModel{
		{"Add to Cursor", template.URL("cursor://anysphere.cursor-deeplink/mcp/install?name=" + name + "&config=" + url.QueryEscape(cursor))}, //nolint:gosec // has a fixed scheme, and its parts are escaped
		{"Add to VS Code", template.URL("vscode:mcp/install?" + code)},                                                                        //nolint:gosec // as above
	}
}

// clients returns the configuration of each client.
func clients(c *connection, name string) []copyModel {
	add := func(id, title, text string) copyModel { return copyModel{c.ID + "-" + id, title, text} }
	if c.Protocol == "otc" {
		command := "curl "
		if c.Header != "" {
			command += "-H " + shellWord(c.Header) + " "
		}
		return []copyModel{add("curl", "curl", command+shellWord(c.URL+"/tools"))}
	}
	header, headers, inspect, remote := "", "", "", ""
	if key, value, ok := strings.Cut(c.Header, ": "); ok {
		header = " \\\n  --header " + shellWord(c.Header)
		headers = `,"headers":{` + quote(key) + ":" + quote(value) + "}"
		inspect = " --header " + shellWord(c.Header)
		remote = `,"--header",` + quote(key+":"+value)
	}
	server := func(kind string) string { return `{` + kind + `"url":` + quote(c.URL) + headers + `}` }
	return []copyModel{
		add("claude-code", "Claude Code", "claude mcp add --transport http "+name+" "+shellWord(c.URL)+header),
		add("claude-desktop", "Claude Desktop (claude_desktop_config.json)", pretty(`{"mcpServers":{`+quote(name)+`:{"command":"npx","args":["-y","mcp-remote",`+quote(c.URL)+remote+`]}}}`)),
		add("cursor", "Cursor (.cursor/mcp.json)", pretty(`{"mcpServers":{`+quote(name)+`:`+server("")+`}}`)),
		add("vscode", "VS Code (.vscode/mcp.json)", pretty(`{"servers":{`+quote(name)+`:`+server(`"type":"http",`)+`}}`)),
		add("inspector", "MCP Inspector", "npx @modelcontextprotocol/inspector --cli "+shellWord(c.URL)+" --transport http --method tools/list"+inspect),
		add("curl", "curl", "curl "+shellWord(c.URL)+" -H 'Content-Type: application/json'"+curlHeader(c.Header)+" \\\n  -d '"+`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`+"'"),
	}
}

// curlHeader returns the option of curl for a header, "" if there is none.
func curlHeader(header string) string {
	if header == "" {
		return ""
	}
	return " -H " + shellWord(header)
}

// quote returns a text as a JSON string.
func quote(text string) string { return string(strictjson.AppendString(nil, text)) }
