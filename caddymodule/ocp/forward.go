package ocp

import (
	"bytes"
	"net/http"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp"
)

// contextHeader is the header of `forward json`, OCP-Context, as the key of an
// http.Header.
const contextHeader = "Ocp-Context"

// maxContextHeader is how long its value is at most, in bytes: servers commonly
// refuse a longer line.
const maxContextHeader = 8 << 10

// forward writes into the request's header what the upstream is to see of the
// context.
func (h *Handler) forward(in *ocp.Incoming, header http.Header) {
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

// contextJSON returns the context as JSON in ASCII, with as much detail as fits a
// header.
func contextJSON(c *ocp.Context) string {
	text := asciiContext(c)
	for step := 0; len(text) > maxContextHeader && step < len(lighter); step++ {
		c = lighter[step](c)
		text = asciiContext(c)
	}
	return string(text)
}

// lighter are the steps that leave out detail of a context which is too long. After the
// last one there are only texts that headers bound, which fit however they are
// escaped, unless the session has longer ones: these are left out too.
var lighter = [...]func(*ocp.Context) *ocp.Context{
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

// headerText returns the text if a header could carry as many characters.
func headerText(text string, limit int) string {
	if utf8.RuneCountInString(text) > limit {
		return ""
	}
	return text
}

// noTimes are the members that stand for times which the request did not tell.
var noTimes = [...][]byte{
	[]byte(`,"created_at":"0001-01-01T00:00:00Z"`),
	[]byte(`,"last_updated":"0001-01-01T00:00:00Z"`),
}

// asciiContext encodes the context without the times that it does not have, and
// with everything beyond ASCII escaped, as a header may not survive it.
func asciiContext(c *ocp.Context) []byte {
	text := c.AppendJSON(nil)
	for i, unknown := range []bool{c.CreatedAt.IsZero(), c.LastUpdated.IsZero()} {
		if at := bytes.LastIndex(text, noTimes[i]); unknown && at >= 0 {
			text = append(text[:at], text[at+len(noTimes[i]):]...)
		}
	}
	start := bytes.IndexFunc(text, func(r rune) bool { return r >= utf8.RuneSelf })
	if start < 0 {
		return text
	}
	ascii := append(make([]byte, 0, 2*len(text)), text[:start]...)
	for _, r := range string(text[start:]) {
		switch {
		case r < utf8.RuneSelf:
			ascii = append(ascii, byte(r))
		case r <= 0xffff:
			ascii = wire.AppendUnicodeEscape(ascii, r)
		default:
			high, low := utf16.EncodeRune(r)
			ascii = wire.AppendUnicodeEscape(wire.AppendUnicodeEscape(ascii, high), low)
		}
	}
	return ascii
}
