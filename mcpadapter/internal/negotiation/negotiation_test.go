package negotiation

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
}
