package mcpadapter

import (
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
)

// A request with an unknown log level is refused, whether or not it would log anything
// (MCP 2026-07-28, Logging, Error Handling).
func TestLog_level_of_a_request(t *testing.T) {
	for _, c := range []struct {
		rule, level string
		code        int
		want        string
	}{
		{"known", `"debug"`, 0, ""},
		{"null", `null`, 0, ""},
		{"unknown", `"loud"`, protocol.InvalidParams, `debug info notice warning error critical alert emergency "loud"`},
		{"empty", `""`, protocol.InvalidParams, `""`},
		{"case", `"INFO"`, protocol.InvalidParams, `"INFO"`},
		{"number", `3`, protocol.InvalidParams, "number"},
		{"long", `"` + strings.Repeat("x", 10_000) + `"`, protocol.InvalidParams, "…"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			r := conformant(protocol.V20260728, "tools/list", "")
			r.body = strings.Replace(r.body, `"_meta":{`, `"_meta":{"`+metaLogLevel+`":`+c.level+`,`, 1)
			if c.code == 0 {
				r.fault(t, 200, 0)
				return
			}
			if a := r.fault(t, 400, c.code); a.Error == nil || !testkit.ContainsAll(a.Error.Message, c.want) || len(a.Error.Message) > 500 {
				t.Errorf("got %+v, want the words %s", a.Error, c.want)
			}
		})
	}
	t.Run("older", func(t *testing.T) { // in which the key means nothing
		r := conformant(protocol.V20251125, "tools/list", `"_meta":{"`+metaLogLevel+`":"loud"}`)
		r.fault(t, 200, 0)
	})
}
