package ocp

import (
	"bytes"
	"net/http"
	"unicode/utf8"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/ocp"
)

// contextHeader is OCP-Context, the header of `forward json`, as the key of an http.Header.
const contextHeader = "Ocp-Context"

// maxContextHeader limits its value, in bytes. Servers commonly reject longer header lines.
const maxContextHeader = 8 << 10

// forwardContext sets the part of the context in the request's header that the upstream gets.
func (h *Handler) forwardContext(in *ocp.Incoming, header http.Header) {
	switch h.Forward {
	case forwardStrip:
		ocp.DeleteHeaders(header)
	case forwardJSON:
		ocp.DeleteHeaders(header)
		delete(header, contextHeader)
		if c := in.Context(); c != nil {
			header[contextHeader] = []string{contextJSON(c)}
		}
	default:
		in.DropIgnored(header)
	}
}

// contextJSON returns the context as ASCII JSON, with as much detail as fits into a header.
func contextJSON(c *ocp.Context) string {
	text := asciiContext(c)
	for step := 0; len(text) > maxContextHeader && step < len(reductions); step++ {
		c = reductions[step](c)
		text = asciiContext(c)
	}
	return string(text)
}

// reductions are the steps that remove detail from a context that is too long. After the last
// step, only texts remain whose length the headers limit, so they fit even if escaped. Longer
// texts from the session are removed.
var reductions = [...]func(*ocp.Context) *ocp.Context{
	func(c *ocp.Context) *ocp.Context {
		const kept = 10 // entries
		light := *c
		light.History = c.History[max(0, len(c.History)-kept):]
		return &light
	},
	func(c *ocp.Context) *ocp.Context {
		light := *c
		light.History = nil
		return &light
	},
	func(c *ocp.Context) *ocp.Context {
		light := &ocp.Context{
			ContextID: c.ContextID, AgentType: c.AgentType, CreatedAt: c.CreatedAt, LastUpdated: c.LastUpdated,
			CurrentGoal: headerText(c.CurrentGoal, ocp.MaxCurrentGoal),
			User:        headerText(c.User, ocp.MaxUser),
			Workspace:   headerText(c.Workspace, ocp.MaxWorkspace),
		}
		return light
	},
}

// headerText returns the text, or "" if it is longer than a header may be.
func headerText(text string, limit int) string {
	if utf8.RuneCountInString(text) > limit {
		return ""
	}
	return text
}

// zeroTimeMembers are the encoded members for times that the request did not contain.
var zeroTimeMembers = [...][]byte{
	[]byte(`,"created_at":"0001-01-01T00:00:00Z"`),
	[]byte(`,"last_updated":"0001-01-01T00:00:00Z"`),
}

// asciiContext encodes the context. It omits unknown times and escapes all characters beyond
// ASCII, which a header may not preserve.
func asciiContext(c *ocp.Context) []byte {
	text := c.AppendJSON(nil)
	for i, unknown := range []bool{c.CreatedAt.IsZero(), c.LastUpdated.IsZero()} {
		if at := bytes.LastIndex(text, zeroTimeMembers[i]); unknown && at >= 0 {
			text = append(text[:at], text[at+len(zeroTimeMembers[i]):]...)
		}
	}
	start := bytes.IndexFunc(text, func(r rune) bool { return r >= utf8.RuneSelf })
	if start < 0 {
		return text
	}
	return strictjson.AppendASCII(append(make([]byte, 0, 2*len(text)), text[:start]...), text[start:])
}
