package toolcall

import (
	"sync"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/ocp/tool"
)

// maxLoggedCalls limits how many calls the access log entry of one request lists. A batch has
// at most this many. For a stream with more, the entry lists the first ones and the total
// number.
const maxLoggedCalls = 64

// RequestCalls holds what the access log entry and the placeholders of one client request
// report about its tool calls. A request carries one call, or several if it is a batch or a
// stream. The zero value reports to the placeholders only.
type RequestCalls struct {
	mu      sync.Mutex
	fields  *caddyhttp.ExtraLogFields // nil if the server writes no access log, or after end
	toolset string                    // of the latest call; of the endpoint before the first one
	tool    string                    // of the latest call; "" before the first one
	outcome string                    // of the latest call
	count   int
	logged  []string // "tool outcome" for the first maxLoggedCalls, if there are several
}

// Begin sets the fields that all calls of the request share. Fields is nil if the server
// writes no access log.
func (c *RequestCalls) Begin(fields *caddyhttp.ExtraLogFields, toolset, protocol string) {
	c.toolset = toolset
	if c.fields = fields; fields != nil {
		fields.Set(zap.String("toolset", toolset))
		fields.Set(zap.String("protocol", protocol))
	}
}

// record adds a call of a tool of the toolset. Tool is nil if the client named a tool that does not
// exist.
func (c *RequestCalls) record(toolset string, tool *tool.Tool, outcome string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if toolset != c.toolset {
		if c.toolset = toolset; c.fields != nil {
			c.fields.Set(zap.String("toolset", toolset))
		}
	}
	if c.count == 1 && c.fields != nil {
		c.logged = append(c.logged, c.tool+" "+c.outcome)
	}
	c.count++
	if c.tool, c.outcome = "", outcome; tool != nil {
		c.tool = tool.Name
	}
	if c.fields == nil {
		return
	}
	if c.count > 1 && c.count <= maxLoggedCalls {
		c.logged = append(c.logged, c.tool+" "+outcome)
	}
	if tool != nil || c.count > 1 { // in a batch, overwrite the tool of the previous call
		c.fields.Set(zap.String("tool", c.tool))
	}
	c.write()
}

// amend replaces the outcome of the latest call.
func (c *RequestCalls) amend(outcome string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outcome = outcome
	if c.fields == nil {
		return
	}
	if c.count > 1 && c.count <= maxLoggedCalls {
		c.logged[c.count-1] = c.tool + " " + outcome
	}
	c.write()
}

// write sets the fields that change with each call.
func (c *RequestCalls) write() {
	c.fields.Set(zap.String("outcome", c.outcome))
	if c.count > 1 {
		c.fields.Set(zap.Int("tool_call_count", c.count))
		c.fields.Set(zap.Strings("tool_calls", c.logged))
	}
}

// End stops writing to the access log entry, which is about to be written.
func (c *RequestCalls) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fields = nil
}

// latest returns the toolset, the tool and the outcome of the latest call.
func (c *RequestCalls) latest() (toolset, tool, outcome string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.toolset, c.tool, c.outcome
}
