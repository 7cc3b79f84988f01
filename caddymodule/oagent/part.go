package oagent

import (
	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/caddymodule/directive"
)

// Part is a part of the handler with options of its own: agents that this server runs, or guardrails on model traffic. Its
// package calls RegisterPart, so that a build without the package does not link what the options need.
//
// A part may also be a caddy.Validator, caddy.CleanerUpper, site.Starter, site.Stopper and PathServer.
type Part interface {
	directive.Part

	// Provision sets up the part, whether or not its options are set. The toolsets and the identities of the handler are known, and
	// its agents are loaded afterwards. The part adds itself with SetHost, SetAcceptor or SetChat.
	Provision(ctx caddy.Context, o *Handler) error
}

// PathServer is a Part that responds to requests to paths of the site, and not only below those of the handler.
type PathServer interface {
	// ServedPaths returns the name of the option, and the paths.
	ServedPaths() (option string, paths []string)
}

var parts directive.Parts[Part]

// RegisterPart adds a part to each handler. It is for init.
func RegisterPart(create func() Part) { parts.Register(create) }

// eachPart calls do with each part of the handler that is a T, until there is an error.
func eachPart[T any](o *Handler, do func(T) error) error {
	for _, p := range o.parts {
		if t, ok := p.(T); ok {
			if err := do(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// ownOptions are the options of the handler itself.
type ownOptions Handler

// allParts returns the structs that have the options of the handler.
func (o *Handler) allParts() []directive.Part {
	all := []directive.Part{(*ownOptions)(o)}
	for _, p := range o.parts {
		all = append(all, p)
	}
	return all
}

// UnmarshalJSON gives the handler and its parts their options.
func (o *Handler) UnmarshalJSON(data []byte) error {
	return directive.DecodeParts("oagent", data, o.allParts()...)
}

// MarshalJSON returns the options of the handler and its parts.
func (o *Handler) MarshalJSON() ([]byte, error) { return directive.EncodeParts(o.allParts()...) }
