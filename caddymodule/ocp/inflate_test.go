package ocp

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"net/http"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
	"github.com/fairwayhq/fairway/ocp"
	"github.com/fairwayhq/fairway/ocp/enhance"
)

// compressedSession returns the text as the value of an OCP-Session header.
func compressedSession(t testing.TB, text string) string {
	t.Helper()
	var compressed bytes.Buffer
	z := gzip.NewWriter(&compressed)
	_, _ = z.Write([]byte(text))
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return "gzip:" + base64.StdEncoding.EncodeToString(compressed.Bytes())
}

// longSession returns a session of a history that decompresses to about 256 KiB.
func longSession(t testing.TB) string {
	t.Helper()
	c := ocp.NewContext("ide_coding_assistant")
	c.ContextID = "ocp-a1b2c3d4"
	for range ocp.MaxHistory {
		c.History = append(c.History, ocp.CallEntry(c.CreatedAt, "https://api.example.com/trips/some/long/path/to/a/resource/of/the/api", "getTrip", "trains.getTrip", 200))
	}
	return compressedSession(t, string(c.AppendJSON(nil)))
}

// TestOCPInflates_only_what_is_read wants a compressed session to be decompressed once if
// something reads its content, and never otherwise.
func TestOCPInflates_only_what_is_read(t *testing.T) {
	placeholder := func(name string) func(*http.Request) {
		return func(r *http.Request) {
			r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer).ReplaceAll("{http.ocp."+name+"}", "")
		}
	}
	enhancing := func(expression string) func(*Handler) {
		return func(h *Handler) { h.Enhance = []enhance.Property{{Name: "p", Expression: expression}} }
	}
	json := http.Header{"Content-Type": {"application/json"}}
	for rule, c := range map[string]struct {
		change func(*Handler)
		read   func(*http.Request) // what a handler behind does
		answer http.Header
		want   int64
	}{
		"defaults":                       {nil, nil, json, 0},
		"reply off":                      {func(h *Handler) { h.NoReply = true }, nil, json, 0},
		"forward strip":                  {func(h *Handler) { h.Forward = forwardStrip }, nil, json, 0},
		"placeholder of a header":        {nil, placeholder("current_goal"), json, 0},
		"enhance without context":        {enhancing("1"), nil, json, 0},
		"enhance of header fields":       {enhancing("ocp.current_goal + ocp.agent_type"), nil, json, 0},
		"enhance of another answer":      {enhancing("size(ocp.history)"), nil, http.Header{"Content-Type": {"text/plain"}}, 0},
		"placeholder of a session field": {nil, placeholder("session.context_summary"), json, 1},
		"two placeholders":               {nil, func(r *http.Request) { placeholder("session.a")(r); placeholder("session.b")(r) }, json, 1},
		"enhance of the history":         {enhancing("size(ocp.history)"), nil, json, 1},
		"enhance of a session field":     {enhancing("ocp.?context_summary.orValue('')"), nil, json, 1},
		"a handler that takes the context": {nil, func(r *http.Request) {
			ocp.FromContext(r.Context())
		}, json, 1},
		"strict":       {func(h *Handler) { h.Strict, h.readOptions.Strict = true, true }, nil, json, 1},
		"forward json": {func(h *Handler) { h.Forward = forwardJSON }, nil, json, 1},
	} {
		t.Run(rule, func(t *testing.T) {
			h := benchOCP(t, c.change)
			r, w := sitetest.HandlerRequest(http.Header{
				ocp.HeaderContextID: {"ocp-a1b2c3d4"}, ocp.HeaderAgentType: {"ide_coding_assistant"},
				ocp.HeaderCurrentGoal: {"debug"}, ocp.HeaderSession: {longSession(t)},
			})
			err := h.ServeHTTP(w, r, caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
				if c.read != nil {
					c.read(r)
				}
				w.Header()["Content-Type"] = c.answer["Content-Type"]
				_, err := w.Write([]byte(`{"a":1}`))
				return err
			}))
			if got := h.readOptions.Cache.Inflations(); err != nil || got != c.want {
				t.Errorf("decompressed %d times, want %d (%v)", got, c.want, err)
			}
		})
	}
}

// TestOCPInflates_and_counts_what_is_invalid wants a session whose content turns out to be
// invalid when it is read to be counted, and to break nothing.
func TestOCPInflates_and_counts_what_is_invalid(t *testing.T) {
	h := benchOCP(t, nil)
	counter := h.metrics.ignored.WithLabelValues("OCP-Session", "json")
	for _, read := range []bool{false, true} {
		before := counted(t, counter)
		r, w := sitetest.HandlerRequest(http.Header{
			ocp.HeaderContextID: {"c"}, ocp.HeaderAgentType: {"a"}, ocp.HeaderSession: {compressedSession(t, fmt.Sprint("no JSON", read))},
		})
		err := h.ServeHTTP(w, r, caddyhttp.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) error {
			if read && ocp.FromContext(r.Context()).AgentType != "a" {
				t.Error("the headers do not count")
			}
			return nil
		}))
		if got := counted(t, counter) - before; err != nil || (got == 1) != read {
			t.Errorf("read: %v, counted %v times (%v)", read, got, err)
		}
	}
}
