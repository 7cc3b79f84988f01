package client

import (
	"encoding/base64"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/mcpadapter/elicit"
	"github.com/fairwayhq/fairway/mcpadapter/internal/content"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/tools"
)

// ResultType is the media type of results.
const ResultType = content.NativeType

// ReadHeaders sets what the headers of an inner request say of the client that the call is for: its capabilities, its
// responses and the state that they belong to (package elicit), the members of _meta for the server, and whether it takes
// progress notifications.
func (c *Call) ReadHeaders(header http.Header) {
	if capabilities := []byte(header.Get(elicit.HeaderCapabilities)); strictjson.Check(capabilities) == nil {
		c.Capabilities = capabilities
	}
	if responses, err := base64.RawURLEncoding.DecodeString(header.Get(elicit.HeaderInputResponses)); err == nil && strictjson.Check(responses) == nil {
		c.Responses = responses
	}
	if state, ok := protocol.DecodeHeader(header.Get(elicit.HeaderRequestState)); ok {
		c.State = state
	}
	if meta, err := base64.RawURLEncoding.DecodeString(header.Get(elicit.HeaderMeta)); err == nil && strictjson.Check(meta) == nil {
		c.Meta = protocol.ForwardedMeta(meta)
	}
	c.Progress = header.Get(elicit.HeaderProgress) != ""
}

// AddArgumentHeaders adds the headers that repeat arguments (x-mcp-header of MCP 2026-07-28).
func (c *Call) AddArgumentHeaders(t *tools.Tool) {
	for i := range t.Plan.Arguments {
		a := &t.Plan.Arguments[i]
		if a.MCPHeader == "" {
			continue
		}
		if value := strictjson.MemberOf(c.Arguments, a.WireName); value.Kind() == '"' {
			c.Header[protocol.ArgumentHeaderName(a.MCPHeader)] = []string{protocol.EncodeHeader(strictjson.Text(value))}
		} else if isScalar(value) {
			c.Header[protocol.ArgumentHeaderName(a.MCPHeader)] = []string{string(value)}
		}
	}
}

// isScalar reports whether a value is a number or a boolean.
func isScalar(value jsontext.Value) bool {
	kind := value.Kind()
	return kind == '0' || kind == 't' || kind == 'f'
}
