package integration

import (
	"strings"
	"testing"
	"time"
)

// TestUpstream lists what a client gets for each way in which an API can
// answer, or fail to.
func TestUpstream(t *testing.T) {
	t.Parallel()
	patient, _, _ := startFaults(t)
	hasty, _, _ := startFaultsWithin(t, "1s")
	for _, c := range []struct {
		tool   string
		failed bool
		want   []string // all of it in the text, whatever the case
	}{
		{"fine", false, []string{`{"fine":true}`}},
		{"down", true, []string{"GET /down", "reached", "again"}},
		{"slow", true, []string{"GET /slow", "1s"}},
		{"trickle", true, []string{"GET /trickle", "1s"}},
		{"broken_off", true, []string{"GET /broken_off", "broke"}},
		{"hung_up", true, []string{"GET /hung_up", "reached"}},
		{"html", true, []string{"GET /html", "HTML", "Please log in"}},
		{"large", true, []string{"GET /large", "100"}},
		{"gzip", false, []string{`{"zipped":true}`}},
		{"gzip_bomb", true, []string{"GET /gzip_bomb", "100"}},
		{"gzip_garbage", true, []string{"GET /gzip_garbage", "gzip"}},
		{"redirect", true, []string{"302", "elsewhere.invalid", "followed"}},
		{"wait", true, []string{"429", "7s"}},
		{"failing", true, []string{"500", "Disk full", "no space left"}},
	} {
		g := patient
		if c.tool == "slow" || c.tool == "trickle" {
			g = hasty
		}
		t.Run("MCP/"+c.tool, func(t *testing.T) {
			t.Parallel()
			checkFold(t, g.callMCP(t, c.tool, `{}`), c.failed, c.want)
		})
		t.Run("OTC/"+c.tool, func(t *testing.T) {
			t.Parallel()
			checkFold(t, g.callOTC(t, c.tool, `{}`), c.failed, c.want)
		})
	}
}

// checkFold is checkResult without regard to case.
func checkFold(t *testing.T, r toolResult, failed bool, want []string) {
	t.Helper()
	r.text = strings.ToLower(r.text)
	lower := make([]string, len(want))
	for i, text := range want {
		lower[i] = strings.ToLower(text)
	}
	checkResult(t, r, failed, lower)
}

// TestUpstreamMedia says in which form answers reach a model over MCP.
func TestUpstreamMedia(t *testing.T) {
	g, _, _ := startFaults(t)
	for _, c := range []struct {
		tool, kind, text, payload string
		structured                bool
	}{
		{"fine", "text", `{"fine":true}`, "", true},
		{"text", "text", "plain \"words\"\n", "", false},
		{"not_json", "text", `{"cut":`, "", false},
		{"not_utf8", "text", "{\"name\":\"\ufffd\ufffd\"}", "", false},
		{"image", "image", "", "iVBORw0KGgo=", false},
		{"no_content", "text", "204 No Content", "", false},
	} {
		t.Run(c.tool, func(t *testing.T) {
			r := g.callMCP(t, c.tool, `{}`)
			got := [...]any{r.failed, r.kind, r.text, r.payload, r.value != nil}
			if want := [...]any{false, c.kind, c.text, c.payload, c.structured}; got != want {
				t.Errorf("failed, kind, text, payload, structured: got %v, want %v", got, want)
			}
		})
	}
	t.Run("deep", func(t *testing.T) {
		if r := g.callMCP(t, "deep", `{}`); r.value != nil {
			t.Error("structuredContent nests 100,000 levels deep")
		}
		if r := g.callOTC(t, "deep", `{}`); len(r.value) > 0 && r.value[0] == '[' {
			t.Error("the OTC value nests 100,000 levels deep")
		}
	})
}

// TestUpstreamEndless calls an API that answers with 2 GiB: the call must end
// soon, and the answer must not be taken.
func TestUpstreamEndless(t *testing.T) {
	g, u, _ := startFaults(t)
	g.callMCP(t, "fine", `{}`)
	for _, tool := range []string{"endless", "announced"} {
		t.Run(tool, func(t *testing.T) {
			u.sent.Store(0)
			ended := u.ended.Load()
			before, known := residentMemory(g.pid)
			start := time.Now()
			checkFold(t, g.callMCP(t, tool, `{}`), true, []string{"GET /" + tool, "100"})
			if took := time.Since(start); took > waitTimeout {
				t.Errorf("the call took %s", took)
			}
			waitFor(t, waitTimeout, "the upstream to be let go", func() bool { return u.ended.Load() > ended })
			const most = 64 << 20 // what fits into the sockets on the way, and more
			if sent := u.sent.Load(); sent > most {
				t.Errorf("%d bytes of the answer were read", sent)
			}
			if after, _ := residentMemory(g.pid); known && after-before > most {
				t.Errorf("the gateway grew by %d bytes", after-before)
			}
		})
	}
}
