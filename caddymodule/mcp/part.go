package mcp

import (
	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/caddymodule/directive"
)

// Part is a part of the handler with options of its own. Its package calls RegisterPart, so that a build without the package does
// not link what the options need.
type Part interface {
	directive.Part

	// Provision sets up the part, whether or not its options are set. The toolsets of the handler are known. It adds to
	// Handler.Extensions and sets Handler.Live and Handler.Beside.
	Provision(ctx caddy.Context, m *Handler) error
}

var parts directive.Parts[Part]

// RegisterPart adds a part to each handler. It is for init.
func RegisterPart(create func() Part) { parts.Register(create) }

func newHandler() *Handler { return &Handler{parts: parts.New()} }

// Parts returns the parts, which have further options of the handler.
func (m *Handler) Parts() []Part { return m.parts }

// ownOptions are the options of the handler itself.
type ownOptions Handler

// allParts returns the structs that have options of the handler.
func allParts(m *Handler) []any {
	all := append(make([]any, 0, 1+len(m.parts)), (*ownOptions)(m))
	for _, p := range m.parts {
		all = append(all, p)
	}
	return all
}

// UnmarshalJSON gives the handler and its parts their options.
func (m *Handler) UnmarshalJSON(data []byte) error {
	return directive.DecodeParts("mcp", data, allParts(m)...)
}

// MarshalJSON returns the options of the handler and its parts.
func (m *Handler) MarshalJSON() ([]byte, error) { return directive.EncodeParts(allParts(m)...) }
