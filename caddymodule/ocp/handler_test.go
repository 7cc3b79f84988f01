package ocp

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
	"github.com/fairwayhq/fairway/ocp"
	"github.com/fairwayhq/fairway/ocp/enhance"
)

func TestMatchGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"abc", "abc", true},
		{"abc", "abcd", false},
		{"*", "abc", true},
		{"**", "a", true},
		{"a*", "a", true},
		{"a*", "ba", false},
		{"*a", "ba", true},
		{"*a", "ab", false},
		{"a*a", "a", false},
		{"a*a", "aa", true},
		{"a*b*c", "a-b-b-c", true},
		{"a*b*c", "a-c-b", false},
		{"*b*", "abc", true},
		{"ide_*", "IDE_x", false},
		{"a?c", "abc", false},
		{strings.Repeat("*a", 50) + "b", strings.Repeat("a", 5000), false},
	} {
		if got := matchGlob(c.pattern, c.text); got != c.want {
			t.Errorf("%.20s, %.20s: got %t", c.pattern, c.text, got)
		}
	}
}

func TestWithoutMarks(t *testing.T) {
	for tags, want := range map[string]string{
		`"v1-ocp.0123456789abcdef"`:             `"v1"`,
		`W/"v1-ocp.0123456789abcdef"`:           `W/"v1"`,
		`"a-ocp.0123456789abcdef", "b"`:         `"a", "b"`,
		`"-ocp.0123456789abcdef"`:               `""`,
		`"v1-ocp.0123456789abcde"`:              `"v1-ocp.0123456789abcde"`,
		`"v1-ocp.0123456789ABCDEF"`:             `"v1-ocp.0123456789ABCDEF"`,
		`"v1-ocp.0123456789abcdef`:              `"v1-ocp.0123456789abcdef`,
		`"v1-ocp.-ocp.0123456789abcdef"`:        `"v1-ocp."`,
		`"v1-ocp.0123456789abcdef-ocp.x", "-oc`: `"v1-ocp.0123456789abcdef-ocp.x", "-oc`,
		`*`:                                     `*`,
	} {
		if got := stripMarks(tags); got != want {
			t.Errorf("%s: got %s, want %s", tags, got, want)
		}
	}
}

// TestContextJSON wants the header of `forward json` to be JSON in ASCII of bounded
// length, whatever the context holds.
func TestContextJSON(t *testing.T) {
	long := strings.Repeat("🚆", 5000)
	base := func() *ocp.Context {
		c := ocp.NewContext("ide")
		c.CurrentGoal = strings.Repeat("🚆", ocp.MaxCurrentGoal)
		c.User, c.Workspace = strings.Repeat("🚆", ocp.MaxUser), strings.Repeat("🚆", ocp.MaxWorkspace)
		return c
	}
	for rule, c := range map[string]struct {
		change func(*ocp.Context)
		want   string // a member that is still there
		gone   string // one that is not
	}{
		"short":        {func(c *ocp.Context) { *c = *ocp.NewContext("ide"); c.CurrentFile = "ä" }, `"current_file":"\u00e4"`, "0001-01-01"},
		"long history": {func(c *ocp.Context) { *c = *ocp.NewContext("ide"); fillHistory(c, 100, 20) }, `"history"`, ""},
		"fat history":  {func(c *ocp.Context) { *c = *ocp.NewContext("ide"); c.CurrentFile = "f"; fillHistory(c, 100, 3000) }, `"current_file":"f"`, `"history"`},
		"long texts":   {func(c *ocp.Context) { c.ContextSummary = long }, `"current_goal"`, `"context_summary"`},
		"long goal":    {func(c *ocp.Context) { c.CurrentGoal = long }, `"user"`, `"current_goal"`},
		"no times":     {func(c *ocp.Context) { *c = ocp.Context{ContextID: "c", AgentType: "a"} }, `"agent_type":"a"}`, `_at"`},
		"one time":     {func(c *ocp.Context) { *c = ocp.Context{ContextID: "c", CreatedAt: time.Unix(0, 0)} }, `"created_at":"1970`, "last_updated"},
	} {
		t.Run(rule, func(t *testing.T) {
			context := base()
			c.change(context)
			got := contextJSON(context)
			if len(got) > maxContextHeader || !json.Valid([]byte(got)) || strings.ContainsFunc(got, func(r rune) bool { return r > '~' || r < ' ' }) {
				t.Errorf("%d bytes: %.200s", len(got), got)
			}
			if !strings.Contains(got, c.want) || c.gone != "" && strings.Contains(got, c.gone) {
				t.Errorf("got %.300s", got)
			}
		})
	}
}

func fillHistory(c *ocp.Context, entries, length int) {
	for range entries {
		c.Record(ocp.CallEntry(c.CreatedAt, strings.Repeat("x", length), "", "", 200))
	}
}

// counted returns the value of a counter.
func counted(t *testing.T, counter prometheus.Collector) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(counter)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return families[0].GetMetric()[0].GetCounter().GetValue()
}

// TestOCPIgnored wants headers that are ignored to be counted by reason, and the
// log to report them without their values.
func TestOCPIgnored(t *testing.T) {
	for rule, c := range map[string]struct {
		key, value     string
		header, reason string
		change         func(*Handler)
	}{
		"pattern":         {ocp.HeaderContextID, "se cret", "OCP-Context-ID", "pattern", nil},
		"length":          {ocp.HeaderUser, strings.Repeat("secret", 20), "OCP-User", "too_long", nil},
		"base64":          {ocp.HeaderSession, "§secret", "OCP-Session", "base64", nil},
		"json, decoded":   {ocp.HeaderSession, "eyJzZWNyZXQ=", "OCP-Session", "json", nil},
		"schema, strict":  {ocp.HeaderSession, "eyJzZWNyZXQiOjF9", "OCP-Session", "unknown", func(h *Handler) { h.Strict = true; h.readOptions.Strict = true }},
		"version, strict": {ocp.HeaderVersion, "secret", "OCP-Version", "pattern", nil},
	} {
		t.Run(rule, func(t *testing.T) {
			core, logs := observer.New(zapcore.DebugLevel)
			h := benchOCP(t, c.change)
			h.logger = zap.New(core)
			counter := h.metrics.ignored.WithLabelValues(c.header, c.reason)
			before := counted(t, counter)
			r, w := sitetest.HandlerRequest(http.Header{c.key: {c.value}})
			next := caddyhttp.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) error {
				if r.Header.Get(c.key) != "" {
					t.Error("it was passed on")
				}
				return nil
			})
			if err := h.ServeHTTP(w, r, next); err != nil {
				t.Fatal(err)
			}
			if counted(t, counter) != before+1 {
				t.Errorf("not counted as %s, %s", c.header, c.reason)
			}
			logged := false
			for _, entry := range logs.All() {
				logged = logged || testkit.ContainsAll(entry.Message, "ignored OCP") && entry.ContextMap()["reason"] == c.reason
				for _, value := range entry.ContextMap() {
					if text, ok := value.(string); ok && strings.Contains(text, "secret") {
						t.Errorf("the log has the value: %v", entry)
					}
				}
			}
			if !logged {
				t.Errorf("the log has no entry with the reason %q: %v", c.reason, logs.All())
			}
		})
	}
}

// TestOCPLazy wants no session to be decoded that nothing needs.
func TestOCPLazy(t *testing.T) {
	h := benchOCP(t, func(h *Handler) { h.NoReply = true })
	header := http.Header{
		ocp.HeaderContextID: {"ocp-debug-123"}, ocp.HeaderAgentType: {"ide_coding_assistant"},
		ocp.HeaderSession: {benchContext(t)},
	}
	r, w := sitetest.HandlerRequest(header)
	var in *ocp.Incoming
	next := caddyhttp.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) error {
		in = ocp.IncomingFromContext(r.Context())
		return nil
	})
	allocated := testing.AllocsPerRun(100, func() { _ = h.ServeHTTP(w, r, next) })
	if in == nil || in.Session == nil || allocated > 20 {
		t.Errorf("%v allocations, %+v", allocated, in)
	}
	if ocp.FromContext(ocp.ContextWithIncoming(t.Context(), in)).ContextSummary == "" {
		t.Error("the session cannot be read")
	}
}

// TestOCP_sessions_kept wants equal sessions to be decoded once.
func TestOCP_sessions_kept(t *testing.T) {
	h := benchOCP(t, nil)
	encoded := benchContext(t)
	decoded := func() []byte {
		header := http.Header{ocp.HeaderContextID: {"ocp-debug-123"}, ocp.HeaderAgentType: {"ide_coding_assistant"}, ocp.HeaderSession: {strings.Clone(encoded)}}
		in := ocp.ReadIncoming(header, h.readOptions)
		h.checkHeaders(in)
		content, err := in.Session.JSON()
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	if first, again := decoded(), decoded(); &first[0] != &again[0] {
		t.Error("the session was decoded again")
	}
}

// TestExchange drives the writer of an answer by hand, with what real handlers
// rarely do.
func TestExchange(t *testing.T) {
	enhancing := func(h *Handler) { h.Enhance = []enhance.Property{{Name: "by", Expression: "ocp.agent_type"}} }
	failed := errors.New("failed")
	for rule, c := range map[string]struct {
		next caddyhttp.HandlerFunc
		want string
		code int
		err  error
	}{
		"flush before anything": {func(w http.ResponseWriter, _ *http.Request) error {
			return http.NewResponseController(w).Flush()
		}, "", 200, nil},
		"no header before the body": {func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Content-Type", "application/json")
			_, err := io.WriteString(w, `{}`)
			return err
		}, `{"by":"a"}`, 200, nil},
		"two headers": {func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(201)
			w.WriteHeader(500)
			_, err := io.WriteString(w, `{}`)
			return err
		}, `{"by":"a"}`, 201, nil},
		"an error after a part": {func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"a":1}`)
			return failed
		}, `{"a":1}`, 200, failed},
		"copied": {func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Content-Type", "application/json")
			_, err := io.Copy(w, strings.NewReader(`[{}]`))
			return err
		}, `[{"by":"a"}]`, 200, nil},
		"copied past the limit": {func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Content-Type", "application/json")
			_, err := io.Copy(w, strings.NewReader(`"`+strings.Repeat("x", defaultMaxEnhanced)+`"`))
			return err
		}, `"` + strings.Repeat("x", defaultMaxEnhanced) + `"`, 200, nil},
		"early hints": {func(w http.ResponseWriter, _ *http.Request) error {
			w.WriteHeader(http.StatusEarlyHints)
			w.Header().Set("Content-Type", "text/plain")
			_, err := io.WriteString(w, "x")
			return err
		}, "x", 200, nil},
	} {
		t.Run(rule, func(t *testing.T) {
			h := benchOCP(t, enhancing)
			r, _ := sitetest.HandlerRequest(http.Header{ocp.HeaderContextID: {"c"}, ocp.HeaderAgentType: {"a"}})
			w := &recording{ResponseRecorder: httptest.NewRecorder()}
			if err := h.ServeHTTP(w, r, c.next); !errors.Is(err, c.err) {
				t.Errorf("error %v", err)
			}
			got := w.Result()
			if body := w.Body.String(); body != c.want || got.StatusCode != c.code || len(got.Header["Ocp-Session"]) != 1 {
				t.Errorf("got %d %.100s %v", got.StatusCode, body, got.Header)
			}
		})
	}
}

// recording is a recorder that knows of answers before the answer.
type recording struct{ *httptest.ResponseRecorder }

func (r *recording) WriteHeader(status int) {
	if status >= http.StatusOK {
		r.ResponseRecorder.WriteHeader(status)
	}
}

// TestEntryMethod wants a history entry to be JSON whatever HTTP/2 has let through
// as a method.
func TestEntryMethod(t *testing.T) {
	for _, method := range []string{"GET", "", `A","x":{`, "\xff\n", strings.Repeat("Ä", 5000)} {
		x := &contextWriter{method: method, endpoint: "http://x/"}
		entry := x.historyEntry(time.Now(), http.StatusOK)
		var metadata struct {
			Method string
			Status int
		}
		if err := json.Unmarshal(entry.Metadata, &metadata); err != nil || metadata.Status != http.StatusOK || len(entry.Metadata) > 128 {
			t.Errorf("%.40q: %v, %s", method, err, entry.Metadata)
		}
	}
}
