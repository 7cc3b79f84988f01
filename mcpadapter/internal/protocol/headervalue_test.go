package protocol_test

import (
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
)

func TestEncode(t *testing.T) {
	for _, value := range []string{"plain", " padded", "padded ", "ä", "a\nb", "=?base64?YQ==?=", "=?base64?x", "\x7f", "tab\t"} {
		encoded := protocol.EncodeHeader(value)
		if !protocol.IsHeaderText(encoded) || strings.TrimSpace(encoded) != encoded {
			t.Errorf("%q is sent as %q, want a text that a header can carry", value, encoded)
		}
		if plain, ok := protocol.DecodeHeader(encoded); !ok || plain != value {
			t.Errorf("%q is sent as %q and read as %q", value, encoded, plain)
		}
	}
}
