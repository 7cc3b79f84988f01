package model

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Names maps the names of tools to names that an API allows, and back. Names of OpenAgentSpec
// are DNS subdomains of up to 253 characters. APIs of models allow [A-Za-z0-9_-] and fewer
// characters.
type Names struct {
	maxLength int
	toAPI     map[string]string
	fromAPI   map[string]string
}

// hashLength is the length of what distinguishes names that would be equal, in characters.
const hashLength = 8

// NewNames returns the mapping for the tools of a request. maxLength is the maximum length of a
// name in the API. Names that the API allows stay as they are. The mapping depends only on the
// names, not on their order.
func NewNames(tools []Tool, maxLength int) *Names {
	n := &Names{maxLength: maxLength, toAPI: make(map[string]string, len(tools)), fromAPI: make(map[string]string, len(tools))}
	count := make(map[string]int, len(tools))
	for i := range tools {
		count[n.allowed(tools[i].Name)]++
	}
	for i := range tools {
		name := tools[i].Name
		mapped := n.allowed(name)
		if mapped != name && (count[mapped] > 1 || len(name) > maxLength) {
			mapped = n.hashed(name)
		}
		n.toAPI[name], n.fromAPI[mapped] = mapped, name
	}
	return n
}

// ToAPI returns the name of a tool in the API. The name of a tool that is not in the request is
// reduced to what the API allows.
func (n *Names) ToAPI(name string) string {
	if mapped, known := n.toAPI[name]; known {
		return mapped
	}
	return n.allowed(name)
}

// FromAPI returns the name of the tool that the model called. An unknown name is returned as it
// is.
func (n *Names) FromAPI(name string) string {
	if original, known := n.fromAPI[name]; known {
		return original
	}
	return name
}

// allowed replaces the characters that are not allowed, and cuts the name.
func (n *Names) allowed(name string) string {
	mapped := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, name)
	if mapped == "" {
		return "_"
	}
	return mapped[:min(len(mapped), n.maxLength)]
}

// hashed ends the name with a hash of the original one.
func (n *Names) hashed(name string) string {
	sum := sha256.Sum256([]byte(name))
	mapped := n.allowed(name)
	return mapped[:min(len(mapped), n.maxLength-hashLength-1)] + "_" + hex.EncodeToString(sum[:hashLength/2])
}
