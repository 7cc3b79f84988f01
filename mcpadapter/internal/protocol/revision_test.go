package protocol

import (
	"net/http"
	"strings"
	"testing"
)

func TestRepeatedHeaders(t *testing.T) {
	for _, header := range []string{MethodHeader, NameHeader} {
		t.Run(header, func(t *testing.T) {
			f := checkRepeated(http.Header{header: {"same", "same"}}, header, "member", "same")
			if f == nil || !strings.Contains(f.Message, "2 times") {
				t.Errorf("got %+v, want a fault that says that the header is sent 2 times", f)
			}
		})
	}
	t.Run(VersionHeader, func(t *testing.T) {
		header := http.Header{VersionHeader: {"2025-06-18", "2025-06-18"}}
		terms := Terms{Version: RevisionOfHeader(header)}
		if f := terms.Agree(Revisions{V20250618}, &Message{Method: "tools/list", Header: header}); f == nil || !strings.Contains(f.Message, "2 times") {
			t.Errorf("got %+v, want a fault that says that the header is sent 2 times", f)
		}
	})
}
