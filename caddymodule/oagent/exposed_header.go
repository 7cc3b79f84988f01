package oagent

import (
	"net/http"
	"unicode/utf16"
	"unicode/utf8"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/fairwayhq/fairway/internal/wire"
)

// headerExposes is the response header with the exposed values, as a JSON object in ASCII.
// This is its canonical form as a key of http.Header.
const headerExposes = "Oagent-Exposes"

// maxExposes is the maximum length of the header's value, in bytes. Servers and clients
// commonly reject longer lines.
const maxExposes = 16 << 10

// exposesAny reports whether responses carry exposed values.
func (g *governedRequest) exposesAny() bool {
	return g.handler.Exposes == exposesHeader && len(g.agent.Agent.Exposes) > 0
}

// expose sets the header with the exposed values (OpenAgentSpec v1, exposes).
func (g *governedRequest) expose(header http.Header) {
	if !g.exposesAny() {
		return
	}
	guard, err := g.handler.guard(g.r.Context())
	if err != nil {
		return
	}
	exposed, err := guard.Exposed(g.r.Context(), g.binding)
	if err != nil {
		g.handler.logger.Error("reading the exposed values of an agent failed", zap.String("agent", g.agent.Name), zap.Error(err))
		return
	}
	if c := g.handler.logger.Check(zapcore.DebugLevel, "some exposed values of an agent are not set yet"); c != nil && len(exposed.Missing) > 0 {
		c.Write(zap.String("agent", g.agent.Name), zap.Int("missing", len(exposed.Missing)))
	}
	text := asciiJSON(exposed.Object)
	if len(text) > maxExposes {
		g.handler.logger.Warn("the exposed values of an agent are too long for a header and were omitted", zap.String("agent", g.agent.Name), zap.Int("size", len(text)))
		return
	}
	header[headerExposes] = []string{string(text)}
	if g.rec != nil {
		g.rec.Exposed = string(text)
	}
}

// asciiJSON escapes all characters beyond ASCII, because they are not safe in a header.
func asciiJSON(text []byte) []byte {
	ascii := make([]byte, 0, len(text))
	for _, r := range string(text) {
		switch {
		case r == '\n' || r == '\r' || r == '\t':
			ascii = append(ascii, ' ') // between tokens; in strings they are escaped
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
