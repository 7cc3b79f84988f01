// Package mcpdiscovery is the option `discovery` of the directive `mcp`: documents by which clients find the server. They are drafts (MCP
// Server Cards, SEP-2127, and AI Catalog 1.0), and change when the drafts change.
package mcpdiscovery

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/caddymodule/mcp"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/internal/oauth"
	"github.com/fairwayhq/fairway/internal/respond"
	"github.com/fairwayhq/fairway/tools"
)

func init() {
	mcp.RegisterPart(func() mcp.Part { return new(part) })
}

const (
	cardPath      = "/server-card" // below the endpoint
	cardType      = "application/mcp-server-card+json"
	cardSchema    = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
	catalogPath   = "/.well-known/ai-catalog.json"
	catalogType   = "application/ai-catalog+json"
	catalogFormat = "1.0" // specVersion

	// maxCatalog is the largest catalog of the API that is extended, in bytes.
	maxCatalog = 1 << 20

	// discoveryMaxAge is how long clients may cache cards and catalogs.
	discoveryMaxAge = time.Hour
)

// Discovery serves documents by which clients find the server: a card that describes the
// server, at the endpoint's path followed by /server-card, and a catalog of the site's servers,
// at /.well-known/ai-catalog.json. Both are public and readable by pages of all origins. If a
// handler after this one serves a catalog, the server is added to it. The formats are drafts
// and may change.
type Discovery struct {
	// The name of the server in reverse DNS notation, such as com.example/trains. Default:
	// derived from the host of the endpoint's URL and the name of the server.
	Name string `json:"name,omitempty"`

	// The URL of the endpoint. Set it if a proxy in front of the gateway changes the scheme,
	// host or path. Default: the URL of each request.
	URL string `json:"url,omitempty"`
}

// Check returns an error if an option is invalid.
func (d *Discovery) Check() error {
	if d.Name != "" {
		if err := checkCardName(d.Name); err != nil {
			return fmt.Errorf("discovery: name %q: %w", d.Name, err)
		}
	}
	if d.URL != "" {
		if err := oauth.CheckResource(d.URL); err != nil {
			return fmt.Errorf("discovery: url %q: %w", d.URL, err)
		}
	}
	return nil
}

// part is the part of the handler mcp with the option discovery.
type part struct {
	// Experimental: whether and how to serve documents by which clients find the server.
	// Default: not served.
	Discovery *Discovery `json:"discovery,omitempty"`
}

// Options implements mcp.Part.
func (p *part) Options(b *directive.Block) directive.Options {
	return directive.Options{"discovery": func() error { p.Discovery = new(Discovery); return p.Discovery.unmarshal(b) }}
}

// Provision implements mcp.Part.
func (p *part) Provision(_ caddy.Context, m *mcp.Handler) error {
	if p.Discovery == nil {
		return nil
	}
	m.Beside = server{m, p.Discovery}.serveIfOwned
	return p.Discovery.Check()
}

// Of returns the options of a handler, or nil if it serves no documents.
func Of(m *mcp.Handler) *Discovery {
	for _, p := range m.Parts() {
		if p, ok := p.(*part); ok {
			return p.Discovery
		}
	}
	return nil
}

// unmarshal reads the block of discovery.
func (d *Discovery) unmarshal(outer *directive.Block) error {
	if err := outer.Once(); err != nil {
		return err
	}
	if outer.NextArg() {
		return outer.ArgErr()
	}
	b := directive.NewBlock(outer.Dispenser)
	return b.Read("discovery", directive.Options{
		"name": func() error {
			return b.Value(func(text string) error {
				d.Name = text
				return checkCardName(text)
			})
		},
		"url": func() error {
			return b.Value(func(text string) error {
				d.URL = text
				return oauth.CheckResource(text)
			})
		},
	})
}

// A server serves the documents about one endpoint.
type server struct {
	*mcp.Handler
	options *Discovery
}

// serveIfOwned serves requests for the card or the catalog.
func (m server) serveIfOwned(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) (served bool, err error) {
	if !m.owns(r) {
		return false, nil
	}
	return true, m.serve(w, r, next)
}

// owns reports whether a request is for the card or the catalog.
func (m server) owns(r *http.Request) bool {
	if !strings.HasSuffix(r.URL.Path, cardPath) && r.URL.Path != catalogPath {
		return false
	}
	rest, owned := m.Endpoint.Owns(r)
	return owned && rest == cardPath || r.URL.Path == catalogPath && tools.CallFromContext(r.Context()) == nil
}

// serve responds with the card or the catalog.
func (m server) serve(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	header := w.Header()
	header.Set("Access-Control-Allow-Origin", "*")
	header.Set("Access-Control-Allow-Methods", "GET")
	header.Set("Access-Control-Allow-Headers", "Content-Type, If-None-Match")
	header.Set("Access-Control-Expose-Headers", "ETag")
	switch r.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodOptions:
		header.Set("Access-Control-Max-Age", "86400")
		w.WriteHeader(http.StatusNoContent)
		return nil
	default:
		header.Set("Allow", "GET, HEAD, OPTIONS")
		respond.WriteProblem(w, http.StatusMethodNotAllowed, "Method not allowed", "Use GET or HEAD.")
		return nil
	}
	toolset := m.Endpoint.Tools(r, next)
	if toolset == nil {
		return m.Endpoint.Parts.WriteUnavailable(w)
	}
	at := m.endpointURL(r)
	if r.URL.Path == catalogPath {
		return m.serveCatalog(w, r, next, at, toolset)
	}
	content, err := json.Marshal(Card(m.Handler, m.options, at, toolset))
	if err != nil {
		return err
	}
	response := respond.Prepare(content, cardType)
	response.ServePublic(w, r, discoveryMaxAge)
	return nil
}

// endpointURL returns the URL of the endpoint as the client sees it, including the part of the
// path that earlier handlers have removed.
func (m server) endpointURL(r *http.Request) string {
	if m.options.URL != "" {
		return strings.TrimSuffix(m.options.URL, "/")
	}
	path := m.Endpoint.Path
	original := mcp.OriginalPath(r)
	if before, ok := strings.CutSuffix(original, cardPath); ok {
		path = before
	} else if before, ok := strings.CutSuffix(original, catalogPath); ok {
		path = before + path
	}
	return oauth.OriginOf(r) + (&url.URL{Path: path}).EscapedPath()
}

// serveCatalog responds with a catalog that lists this server first, followed by the entries of
// the catalog that the next handlers serve, if any.
func (m server) serveCatalog(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler, at string, toolset *tools.Toolset) error {
	card := Card(m.Handler, m.options, at, toolset)
	entry, err := json.Marshal(catalogEntry{
		Identifier:  card.identifier(),
		DisplayName: cmp.Or(card.Title, card.Name),
		Type:        cardType,
		URL:         at + cardPath,
	})
	if err != nil {
		return err
	}
	members, entries := upstreamCatalog(r, next)
	if members["entries"], err = json.Marshal(append([]json.RawMessage{entry}, entries...)); err != nil {
		return err
	}
	content, err := json.Marshal(members)
	if err != nil {
		return err
	}
	response := respond.Prepare(content, catalogType)
	response.ServePublic(w, r, discoveryMaxAge)
	return nil
}

// catalogEntry is the entry of one server in a catalog.
type catalogEntry struct {
	Identifier  string `json:"identifier"`
	DisplayName string `json:"displayName"`
	Type        string `json:"type"`
	URL         string `json:"url"`
}

// upstreamCatalog fetches the catalog that the next handlers serve and returns its members and
// entries. If there is none, it returns those of an empty catalog.
func upstreamCatalog(r *http.Request, next caddyhttp.Handler) (members map[string]json.RawMessage, entries []json.RawMessage) {
	none := map[string]json.RawMessage{"specVersion": json.RawMessage(strconv.Quote(catalogFormat))}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	rec := route.NewRecorder(http.MethodGet, maxCatalog, cancel)
	defer rec.Release()
	request := r.Clone(ctx)
	request.Method = http.MethodGet
	request.Header.Set("Accept-Encoding", "identity")
	for name := range request.Header {
		if strings.HasPrefix(name, "If-") || name == "Range" {
			request.Header.Del(name)
		}
	}
	if err := route.Serve(next, rec, request); err != nil || rec.Status != http.StatusOK || rec.Body == nil {
		return none, nil
	}
	if json.Unmarshal(rec.Body.B, &members) != nil || members == nil || json.Unmarshal(members["entries"], &entries) != nil {
		return none, nil
	}
	return members, entries
}
