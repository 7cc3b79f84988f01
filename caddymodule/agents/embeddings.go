package agents

import (
	"errors"
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/internal/toolsearch"
	"github.com/fairwayhq/fairway/internal/toolsearch/embeddings"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// defaultEmbeddingModel is the model of Embeddings by default.
const defaultEmbeddingModel = "text-embedding-3-small"

// Embeddings configures an OpenAI-compatible server that computes vectors of texts. The search for
// tools then also finds tools that use other words than the query, and ranks them together with those
// that it finds by words. Names, titles and descriptions of the tools, and the queries of clients, are
// sent to the server. While the server fails, tools are found by their words, and a warning is logged.
type Embeddings struct {
	// The URL of the API, such as https://api.openai.com/v1. Requests go to /embeddings below it.
	// Placeholders such as {env.EMBEDDINGS} are replaced. Required.
	URL string `json:"url,omitempty"`

	// The name of the model. Default: text-embedding-3-small.
	Model string `json:"model,omitempty"`

	// The API key. Use a placeholder such as {env.OPENAI_API_KEY} or {file./run/secrets/key}; it is
	// replaced for each request. Default: none is sent.
	APIKey string `json:"api_key,omitempty"`
}

// client returns the client of the server.
func (e *Embeddings) client() (*embeddings.Client, error) {
	model := e.Model
	if model == "" {
		model = defaultEmbeddingModel
	}
	client, err := embeddings.New(caddy.NewReplacer().ReplaceAll(e.URL, ""), model, func() (string, error) {
		key, err := caddy.NewReplacer().ReplaceOrErr(e.APIKey, true, true)
		return strings.TrimSpace(key), err
	})
	if err != nil {
		return nil, fmt.Errorf("embeddings: %w", err)
	}
	return client, nil
}

// finder returns the Finder of a new toolset of the document.
func (d *Document) finder(toolset, previous *tool.Toolset) tool.Finder {
	client, err := d.Key.Embeddings.client()
	if err != nil {
		return toolset.Finder // Key has checked the options
	}
	var before tool.Finder
	if previous != nil {
		before = previous.Finder
	}
	return toolsearch.NewSemanticFinder(toolset.Tools(), client, before, func(err error) {
		d.logger.Load().Warn("the embeddings server cannot be used; tools are found by their words",
			zap.String("toolset", d.Key.Name), zap.Error(err))
	})
}

// readEmbeddings reads the URL of a server and its options. Syntax:
//
//	embeddings <URL> {
//		model   <name>
//		api_key <text>
//	}
func readEmbeddings(outer *directive.Block, to **Embeddings) error {
	if err := outer.Once(); err != nil {
		return err
	}
	e := new(Embeddings)
	if !outer.AllArgs(&e.URL) {
		return outer.Err("embeddings needs the URL of a server, as in: embeddings https://api.openai.com/v1")
	}
	b := directive.NewBlock(outer.Dispenser)
	if err := b.Options(e.unmarshalOption); err != nil {
		return err
	}
	if !strings.Contains(e.URL, "{") {
		if _, err := e.client(); err != nil {
			return b.WrapErr(err)
		}
	}
	*to = e
	return nil
}

func (e *Embeddings) unmarshalOption(b *directive.Block) error {
	switch b.Val() {
	case "model":
		return b.Text(&e.Model)
	case "api_key":
		return b.Text(&e.APIKey)
	}
	return b.Unrecognized("embeddings")
}

// errNoEmbeddings is the error of a configuration without a URL.
var errNoEmbeddings = errors.New("embeddings has no url; give the URL of the server, such as https://api.openai.com/v1")

// check returns an error for options that can never work.
func (e *Embeddings) check() error {
	switch {
	case e == nil:
		return nil
	case e.URL == "":
		return errNoEmbeddings
	}
	_, err := e.client()
	return err
}
