// Package embeddings has the guest module agents.embeddings.openai, which computes vectors of texts with an
// OpenAI-compatible server: POST {url}/embeddings. OpenAI, vLLM, Ollama, llama.cpp and others serve it. Texts of
// a similar meaning have similar vectors.
package embeddings

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/embeddings"
)

func init() {
	caddy.RegisterModule(new(Server))
}

// defaultModel is the default of Server.Model.
const defaultModel = "text-embedding-3-small"

// Server is an OpenAI-compatible server that computes vectors of texts. The search for tools then also
// finds tools that use other words than the query, and ranks them together with those that it finds by
// words. Names, titles and descriptions of the tools, and the queries of clients, are sent to the server.
// While the server fails, tools are found by their words, and a warning is logged.
type Server struct {
	// The URL of the API, such as https://api.openai.com/v1. Requests go to /embeddings below it.
	// Placeholders such as {env.EMBEDDINGS} are replaced. Required.
	URL string `json:"url,omitempty"`

	// The name of the model. Default: text-embedding-3-small.
	Model string `json:"model,omitempty"`

	// The API key. Use a placeholder such as {env.OPENAI_API_KEY} or {file./run/secrets/key}; it is
	// replaced for each request. Default: none is sent.
	APIKey string `json:"api_key,omitempty"`

	address string // that requests go to
}

// CaddyModule returns the Caddy module information.
func (*Server) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: app.EmbeddingsModule, New: func() caddy.Module { return new(Server) }}
}

// Provision checks the URL.
func (s *Server) Provision(caddy.Context) (err error) {
	s.Model = cmp.Or(s.Model, defaultModel)
	s.address, err = address(caddy.NewReplacer().ReplaceAll(s.URL, ""))
	return err
}

// Finder implements app.SemanticSearch.
func (s *Server) Finder(toolset []*tools.Tool, previous tools.Finder, warn func(error)) tools.Finder {
	return embeddings.NewFinder(toolset, s, previous, warn)
}

// UnmarshalCaddyfile sets up the module from Caddyfile tokens. Syntax:
//
//	embeddings <URL> {
//		model   <name>
//		api_key <text>
//	}
func (s *Server) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume the name of the option
	if !d.AllArgs(&s.URL) {
		return d.Err("embeddings needs the URL of a server, as in: embeddings https://api.openai.com/v1")
	}
	if !strings.Contains(s.URL, "{") {
		if _, err := address(s.URL); err != nil {
			return d.WrapErr(fmt.Errorf("embeddings: %w", err))
		}
	}
	b := directive.NewBlock(d)
	return b.Read("embeddings", directive.Options{
		"model":   directive.To(b.Text, &s.Model),
		"api_key": directive.To(b.Text, &s.APIKey),
	})
}

// Interface guards
var (
	_ app.SemanticSearch    = (*Server)(nil)
	_ embeddings.Embedder   = (*Server)(nil)
	_ caddy.Provisioner     = (*Server)(nil)
	_ caddyfile.Unmarshaler = (*Server)(nil)
)
