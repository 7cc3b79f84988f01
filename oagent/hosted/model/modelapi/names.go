package modelapi

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/fairwayhq/fairway/oagent/hosted/model"
)

// toolNames maps the names of tools to names that an API allows, and back. Names of OpenAgentSpec
// are DNS subdomains of up to 253 characters. APIs of models allow [A-Za-z0-9_-] and fewer
// characters.
type toolNames struct {
	toAPI   map[string]string
	fromAPI map[string]string
}

// maxName is the maximum length of the name of a tool in an API. That of Anthropic allows 128 characters.
const maxName = 64

// hashLength is the length of what distinguishes names that would be equal, in characters.
const hashLength = 8

// newNames returns the mapping for the tools of a request. Names that the API allows stay as they are. The
// mapping depends only on the names, not on their order.
func newNames(tools []model.Tool) *toolNames {
	n := &toolNames{toAPI: make(map[string]string, len(tools)), fromAPI: make(map[string]string, len(tools))}
	count := make(map[string]int, len(tools))
	for i := range tools {
		count[allowed(tools[i].Name)]++
	}
	for i := range tools {
		name := tools[i].Name
		mapped := allowed(name)
		if mapped != name && (count[mapped] > 1 || len(name) > maxName) {
			mapped = hashed(name)
		}
		n.toAPI[name], n.fromAPI[mapped] = mapped, name
	}
	return n
}

// ToAPI returns the name of a tool in the API. The name of a tool that is not in the request is
// reduced to what the API allows.
func (n *toolNames) ToAPI(name string) string {
	if mapped, known := n.toAPI[name]; known {
		return mapped
	}
	return allowed(name)
}

// FromAPI returns the name of the tool that the model called. An unknown name is returned as it
// is.
func (n *toolNames) FromAPI(name string) string {
	if original, known := n.fromAPI[name]; known {
		return original
	}
	return name
}

// allowed replaces the characters that are not allowed, and cuts the name.
func allowed(name string) string {
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
	return mapped[:min(len(mapped), maxName)]
}

// hashed ends the name with a hash of the original one.
func hashed(name string) string {
	sum := sha256.Sum256([]byte(name))
	mapped := allowed(name)
	return mapped[:min(len(mapped), maxName-hashLength-1)] + "_" + hex.EncodeToString(sum[:hashLength/2])
}
