// Package accept accepts agent documents from users: the subdirective accept of the directive
// oagent.
//
// Data passes through it in this order:
//
//   - Config has the users and the allow-list of capabilities (config.go).
//   - A Service checks a document that a user sends and puts it into the store, with package
//     github.com/fairwayhq/fairway/oagent/registry (service.go).
//   - On every node, the Service watches the store and gives the agents to the handler. It starts
//     and stops with the app.
//
// The HTTP requests are served by the package endpoints.
package accept

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/oagent/registry"
)

// Config configures which agent documents are accepted over HTTP. Documents are sent by PUT to the
// path below which they are served.
type Config struct {
	// The path to which documents are sent. It must be that of serve. Default: that of serve.
	Path string `json:"path,omitempty"`

	// The ids of the users who may send and delete documents. Required. Default: none.
	By []string `json:"by,omitempty"`

	// The capabilities that accepted documents may have, as references in the form of agent
	// documents. A * at the end stands for any number of characters other than "." and "/", but
	// never for an agent of this site. The tools of guardrails count as capabilities. The list has
	// no restrictions: an accepted document may use a capability of it without any. Default: none.
	Capabilities []string `json:"capabilities,omitempty"`

	// The values that static_identity may have in accepted documents. Default: none.
	Identities []string `json:"identities,omitempty"`
}

// Validate rejects an invalid configuration. serve is the path of the documents. known reports
// whether an identity is configured.
func (c *Config) Validate(serve string, known func(identity string) bool) error {
	switch {
	case serve == "":
		return errors.New("accept needs the path of the documents: add serve, as in: serve /agents")
	case c.Path != "" && strings.TrimRight(c.Path, "/") != strings.TrimRight(serve, "/"):
		return fmt.Errorf("accept %s: documents are sent to the path where they are served: write accept %s", c.Path, serve)
	}
	if len(c.By) == 0 || slices.Contains(c.By, "") {
		return errors.New("accept: name the users who may send agent documents, as in: by alice")
	}
	for _, pattern := range c.Capabilities {
		if err := registry.CheckPattern(pattern); err != nil {
			return fmt.Errorf("accept: capabilities: %w", err)
		}
	}
	for _, identity := range c.Identities {
		if !known(identity) {
			return fmt.Errorf("accept: identities: unknown identity %q: add it with the subdirective identity", identity)
		}
	}
	return nil
}

// UnmarshalBlock parses the subdirective accept at the current token. Syntax:
//
//	accept [<path>] {
//		by           <users...>
//		capabilities <references...>
//		identities   <names...>
//	}
//
// where all of them may be repeated.
func UnmarshalBlock(outer *directive.Block) (*Config, error) {
	c := new(Config)
	if outer.NextArg() {
		c.Path = outer.Val()
	}
	if outer.NextArg() {
		return nil, outer.ArgErr()
	}
	b := directive.NewBlock(outer.Dispenser)
	if err := b.Options(c.unmarshalOption); err != nil {
		return nil, err
	}
	if len(c.By) == 0 {
		return nil, outer.Err("accept needs the users who may send agent documents, as in: by alice")
	}
	return c, nil
}

func (c *Config) unmarshalOption(b *directive.Block) error {
	switch b.Val() {
	case "by":
		return b.List(&c.By)
	case "capabilities":
		return b.Each(&c.Capabilities, registry.CheckPattern)
	case "identities":
		return b.List(&c.Identities)
	}
	return b.Unrecognized("accept")
}
