package headervalue_test

import (
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/mcpadapter/internal/headervalue"
)

func TestEncode(t *testing.T) {
	for _, value := range []string{"plain", " padded", "padded ", "ä", "a\nb", "=?base64?YQ==?=", "=?base64?x", "\x7f", "tab\t"} {
		encoded := headervalue.Encode(value)
		if plain, ok := headervalue.Decode(encoded); !ok || plain != value || !headervalue.IsText(encoded) || strings.TrimSpace(encoded) != encoded {
			t.Errorf("%q is sent as %q and read as %q", value, encoded, plain)
		}
	}
}
