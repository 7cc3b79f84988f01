package oagent

import (
	"net/http"

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

// asciiJSON returns JSON as a text for a header: on one line, with all characters beyond ASCII escaped.
func asciiJSON(text []byte) []byte {
	ascii := wire.AppendASCII(make([]byte, 0, len(text)), text)
	for i, c := range ascii {
		if c == '\n' || c == '\r' || c == '\t' {
			ascii[i] = ' ' // between tokens; in strings they are escaped
		}
	}
	return ascii
}
