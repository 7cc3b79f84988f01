package mcpadapter

import (
	"context"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/tools"
)

// TestCall_keeps_connection_alive: a call that takes longer than an interval has a stream with comments, whatever the
// revision. Fast calls, clients that accept no stream, and endpoints without keep-alives get JSON.
func TestCall_keeps_connection_alive(t *testing.T) {
	const jsonType, streamType = "application/json", "text/event-stream"
	for name, c := range map[string]struct {
		interval time.Duration
		accept   string
		fast     bool
		want     string
	}{
		"long call": {time.Millisecond, jsonType + ", " + streamType, false, streamType},
		"fast call": {time.Hour, jsonType + ", " + streamType, true, jsonType},
		"off":       {-1, jsonType + ", " + streamType, true, jsonType},
		"no stream": {time.Millisecond, jsonType, true, jsonType},
	} {
		for _, v := range revisions[1:] {
			t.Run(name+" "+v.String(), func(t *testing.T) {
				release := make(chan struct{})
				e := serveEndpoint(t, Options{KeepAlive: c.interval}, callerFunc(func(ctx context.Context, tool string, arguments []byte) tools.Outcome {
					<-release
					return echo(ctx, tool, arguments)
				}))
				if c.fast {
					close(release)
				}
				header := map[string]string{versionHeader: v.String()}
				r := conformant(v, "tools/call", `"name":"get_trip","arguments":{"id":"1"}`)
				maps.Copy(header, r.header)
				header["Accept"] = c.accept
				response := e.do(t, http.MethodPost, "/mcp", r.body, header) // returns when the headers have arrived
				if !c.fast {
					close(release)
				}
				body, err := io.ReadAll(response.Body)
				if got := response.Header.Get("Content-Type"); got != c.want || err != nil {
					t.Errorf("got %s, %v: %s", got, err, body)
				}
				if isStream := strings.HasPrefix(string(body), ":\n\n"); isStream != (c.want == streamType) || !strings.Contains(string(body), `"content"`) {
					t.Errorf("got %q", body)
				}
			})
		}
	}
}

// TestKeepAlive_ends_with_its_call: the timer of a call that has ended does not write into the response of another one.
func TestKeepAlive_ends_with_its_call(t *testing.T) {
	e := serveEndpoint(t, Options{KeepAlive: time.Millisecond}, echo)
	for range 200 {
		r := conformant(protocol.V20251125, "tools/call", `"name":"get_trip","arguments":{"id":"1"}`)
		r.header[versionHeader] = "2025-11-25"
		body, err := io.ReadAll(e.do(t, http.MethodPost, "/mcp", r.body, r.header).Body)
		if n := strings.Count(string(body), `"result"`); n != 1 || err != nil {
			t.Fatalf("got %q, %v", body, err)
		}
	}
}
