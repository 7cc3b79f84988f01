package mcpadapter

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
)

// capabilities are the requests that a client has declared it can handle.
type capabilities uint16

const (
	canSample      capabilities = 1 << iota // sampling/createMessage
	canSampleTools                          // sampling/createMessage with tools
	canElicit                               // elicitation/create with a form
	canElicitURL                            // elicitation/create with a URL
	canListRoots                            // roots/list
)

// uiExtension identifies MCP Apps in the list of extensions that the server declares.
const uiExtension = "io.modelcontextprotocol/ui"

// readCapabilities reads a ClientCapabilities object. An elicitation member without modes means
// forms: it had no modes before 2025-11-25, and later revisions keep that meaning.
func readCapabilities(raw jsontext.Value) (c capabilities) {
	for walk := wire.Into(raw); walk.Next(); {
		object := walk.Value.Kind() == '{'
		switch {
		case walk.Is("sampling") && object:
			c |= canSample
			if wire.HasMember(walk.Value, "tools") {
				c |= canSampleTools
			}
		case walk.Is("elicitation") && object:
			if form, url := wire.HasMember(walk.Value, "form"), wire.HasMember(walk.Value, "url"); form || !url {
				c |= canElicit
			}
			if wire.HasMember(walk.Value, "url") {
				c |= canElicitURL
			}
		case walk.Is("roots") && object:
			c |= canListRoots
		}
	}
	return c
}

// has reports whether the client has declared all the given capabilities.
func (c capabilities) has(all capabilities) bool { return c&all == all }

// appendTo appends the capabilities as a ClientCapabilities object.
func (c capabilities) appendTo(dst []byte) []byte {
	dst = append(dst, '{')
	if c.has(canSample) {
		dst = append(dst, `"sampling":{`...)
		if c.has(canSampleTools) {
			dst = append(dst, `"tools":{}`...)
		}
		dst = append(dst, "},"...)
	}
	if c&(canElicit|canElicitURL) != 0 {
		dst = append(dst, `"elicitation":{`...)
		if c.has(canElicit) {
			dst = append(dst, `"form":{},`...)
		}
		if c.has(canElicitURL) {
			dst = append(dst, `"url":{},`...)
		}
		dst = append(dst[:len(dst)-1], "},"...)
	}
	if c.has(canListRoots) {
		dst = append(dst, `"roots":{},`...)
	}
	if dst[len(dst)-1] == ',' {
		dst = dst[:len(dst)-1]
	}
	return append(dst, '}')
}
