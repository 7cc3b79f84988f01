package command_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/ocp"
)

// ocpCommand runs `caddy ocp` with that input on stdin.
func ocpCommand(input string, arguments ...string) (stdout, stderr string, err error) {
	cmd := &cobra.Command{Use: "ocp", SilenceUsage: true}
	caddycmd.Commands()["ocp"].CobraFunc(cmd)
	var out, aside bytes.Buffer
	cmd.SetIn(strings.NewReader(input))
	cmd.SetOut(&out)
	cmd.SetErr(&aside)
	cmd.SetArgs(append([]string{}, arguments...)) // nil would mean the arguments of the test binary
	err = cmd.Execute()
	return out.String(), aside.String(), err
}

const (
	goodContext = `{"context_id":"ocp-0123456789ab","agent_type":"planner","user":"alice","current_goal":"book a trip",
		"created_at":"2025-11-16T10:30:00Z","last_updated":"2025-11-16T10:30:00Z"}`

	// bareContext is the session of the protocol's own header example: usable.
	bareContext = `{"context_id":"ocp-a1b2c3d4"}`
)

func base64Of(text string) string {
	return base64.StdEncoding.EncodeToString([]byte(text))
}

func TestOCPEncode(t *testing.T) {
	t.Run("good", func(t *testing.T) {
		out, aside, err := ocpCommand(goodContext, "encode", "--strict")
		if err != nil || aside != "" {
			t.Fatalf("%v, %s", err, aside)
		}
		header := make(http.Header)
		for line := range strings.Lines(out) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
			header.Add(name, value)
		}
		in := ocp.ReadIncoming(header, ocp.ReadOptions{Strict: true})
		if in == nil {
			t.Fatalf("got no context of\n%s", out)
		}
		if got, want := [...]any{in.Judge().Verdict, in.Context().User, in.Version}, [...]any{ocp.Conforming, "alice", "1.0"}; got != want {
			t.Errorf("got %v, want %v of\n%s", got, want, out)
		}
	})
	t.Run("from-a-file", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "context.json")
		if err := os.WriteFile(path, []byte(goodContext), 0o600); err != nil {
			t.Fatal(err)
		}
		out, _, err := ocpCommand("", "encode", "--file", path)
		if err != nil || !strings.HasPrefix(out, "OCP-Context-ID: ocp-0123456789ab\nOCP-Agent-Type: planner\n") {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("what-is-wrong-is-reported", func(t *testing.T) {
		out, aside, err := ocpCommand(`{"context_id":"ocp-debug-123","agent_type":"cli","mood":"good","history":[7]}`, "encode")
		if err != nil || !strings.Contains(out, "OCP-Session: ") {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, want := range []string{"mood", "history", "created_at", "last_updated"} {
			if !strings.Contains(aside, want) {
				t.Errorf("nothing of %s in\n%s", want, aside)
			}
		}
	})
	t.Run("long-contexts-are-made-to-fit", func(t *testing.T) {
		entries := make([]string, 400)
		for i := range entries {
			entries[i] = fmt.Sprintf(`{"timestamp":"2025-11-16T10:30:00Z","action":"%x"}`, sha256.Sum256([]byte{byte(i), byte(i >> 8)}))
		}
		out, aside, err := ocpCommand(strings.TrimSuffix(goodContext, "}")+`,"history":[`+strings.Join(entries, ",")+`]}`, "encode")
		if err != nil || !strings.Contains(aside, "removed") {
			t.Fatalf("%v\n%s", err, aside)
		}
		if _, session, _ := strings.Cut(out, "OCP-Session: "); len(strings.TrimSpace(session)) > ocp.MaxSession {
			t.Errorf("the session has %d bytes", len(session))
		}
	})
	for name, test := range map[string]struct{ input, want string }{
		"empty":            {" \n", "stdin is empty"},
		"not JSON":         {"context", "object"},
		"an array":         {"[1]", "object"},
		"cut off":          {`{"a":`, "JSON"},
		"no context id":    {`{"agent_type":"cli"}`, "OCP-Context-ID"},
		"bad agent type":   {`{"context_id":"a","agent_type":"a b"}`, "OCP-Agent-Type"},
		"too large":        {strings.Repeat(" ", 3<<20), "more than 2097152 bytes"},
		"too deep":         {`{"a":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`, "deeply"},
		"too large inside": {`{"a":"` + strings.Repeat("a", 1<<20) + `"}`, "too large"},
	} {
		t.Run(name, func(t *testing.T) {
			if out, _, err := ocpCommand(test.input, "encode"); err == nil || !testkit.ContainsAll(err.Error(), test.want) {
				t.Errorf("got %v, want %q\n%.200s", err, test.want, out)
			}
		})
	}
	if _, _, err := ocpCommand(`{"context_id":"ocp-debug-123","agent_type":"cli"}`, "encode", "--strict"); err == nil ||
		!strings.Contains(err.Error(), "context_id") || !strings.Contains(err.Error(), "created_at") {
		t.Errorf("strict: %v", err)
	}
}

func TestOCPDecode(t *testing.T) {
	session := base64Of(goodContext)
	for name, test := range map[string]struct {
		input     string
		arguments []string
	}{
		"an argument": {"", []string{session}},
		"stdin":       {session + "\n", nil},
		"a dash":      {session, []string{"-"}},
	} {
		t.Run(name, func(t *testing.T) {
			out, aside, err := ocpCommand(test.input, append([]string{"decode"}, test.arguments...)...)
			var context map[string]any
			if err != nil || aside != "" {
				t.Fatalf("got %s and the error %v, want neither", aside, err)
			}
			if err := json.Unmarshal([]byte(out), &context); err != nil || context["user"] != "alice" {
				t.Fatalf("got %s, %v; want the user alice", out, err)
			}
			if !strings.HasPrefix(out, "{\n  \"context_id\": ") {
				t.Errorf("not indented:\n%s", out)
			}
		})
	}
	t.Run("gzip", func(t *testing.T) {
		out, _, err := ocpCommand(strings.TrimSuffix(goodContext, "}")+`,"context_summary":"`+strings.Repeat("long ", 400)+`"}`, "encode")
		if err != nil {
			t.Fatal(err)
		}
		_, encoded, _ := strings.Cut(out, "OCP-Session: ")
		if !strings.HasPrefix(encoded, "gzip:") {
			t.Fatalf("not compressed: %.40s", encoded)
		}
		if out, _, err = ocpCommand(encoded, "decode"); err != nil || !strings.Contains(out, "long long") {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("broken", func(t *testing.T) {
		out, aside, err := ocpCommand(base64Of(`{"user":"alice","created_at":"soon"}`), "decode")
		if err != nil || !strings.Contains(out, "alice") || !strings.Contains(aside, "created_at") {
			t.Errorf("%v\n%s\n%s", err, out, aside)
		}
	})
	t.Run("headers", func(t *testing.T) {
		out, aside, err := ocpCommand("> GET /trips HTTP/1.1\r\n> Host: example.com\r\n> ocp-context-id: ocp-a1b2c3d4\r\n"+
			"> OCP-User: "+strings.Repeat("a", 65)+"\r\n> OCP-Agent-Type: cli\r\n> OCP-Agent-Type: ide\r\n> OCP-Session: "+session+"\r\n>\r\n", "decode")
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Headers map[string]string
			Session map[string]any
		}
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatal(err)
		}
		if len(got.Headers) != 1 || got.Headers["OCP-Context-ID"] != "ocp-a1b2c3d4" || got.Session["user"] != "alice" {
			t.Errorf("got %s", out)
		}
		for _, want := range []string{"OCP-User: longer", "OCP-Agent-Type", "once"} {
			if !strings.Contains(aside, want) {
				t.Errorf("no %q in\n%s", want, aside)
			}
		}
	})
	t.Run("over-the-limit", func(t *testing.T) {
		long := base64Of(`{"context_id":"a","context_summary":"` + strings.Repeat("a", 9000) + `"}`)
		out, aside, err := ocpCommand(long, "decode")
		if err != nil || !strings.Contains(out, "aaaa") || !strings.Contains(aside, "8192") {
			t.Errorf("%v, %s", err, aside)
		}
	})
	for name, test := range map[string]struct {
		arguments []string
		want      string
	}{
		"not base64":    {[]string{"%%%%"}, "Base64"},
		"not gzip":      {[]string{"gzip:" + base64Of("{}aaaa")}, "gzip"},
		"broken gzip":   {[]string{base64Of("\x1f\x8b\x08 and no more of it")}, "gzip"},
		"not an object": {[]string{base64Of("[1, 2]")}, "object"},
		"lines":         {[]string{"one\ntwo"}, "neither"},
		"both":          {[]string{"a", "--file", "b"}, "both"},
		"no file":       {[]string{"--file", "/nonexistent/x"}, "no such file"},
		"two values":    {[]string{"a", "b"}, "accepts at most 1"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := ocpCommand("", append([]string{"decode"}, test.arguments...)...); err == nil || !testkit.ContainsAll(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestOCPValidate(t *testing.T) {
	good := "OCP-Context-ID: ocp-0123456789ab\nOCP-Agent-Type: planner\n"
	for name, test := range map[string]struct {
		input, want string // want is part of the output
		fails       string // "" if it does not
		strict      bool
	}{
		"conforming session":         {base64Of(goodContext), "session: conforming\n", "", true},
		"usable session":             {base64Of(bareContext), "session: usable\n  agent_type: missing\n", "", false},
		"usable, but strict":         {base64Of(bareContext), "session: ignored\n", "ignored", true},
		"ignored session":            {base64Of("[]"), "session: ignored\n  OCP-Session: not a JSON object", "ignored", false},
		"long session":               {strings.Repeat("e30A", 3000), "longer", "ignored", false},
		"JSON of a context":          {goodContext, "context: conforming\n", "", true},
		"bad JSON":                   {`{"context_id":1}`, "context: ignored\n  context_id: of the wrong JSON type", "ignored", false},
		"broken JSON":                {`{"context_id":`, "context: ignored\n", "ignored", false},
		"headers":                    {good + "OCP-Session: " + base64Of(goodContext) + "\n", "OCP-Session: conforming\n", "", true},
		"headers without session":    {good, "OCP-Agent-Type: valid\n", "", false},
		"a bad header":               {good + "OCP-Workspace: \n", "OCP-Workspace: ignored\n  OCP-Workspace: empty", "some headers", false},
		"disagreement":               {good + "OCP-Session: " + base64Of(strings.Replace(goodContext, "planner", "cli", 1)), "agent_type", "some headers", true},
		"disagreement, strict":       {good + "OCP-Session: " + base64Of(strings.Replace(goodContext, "planner", "cli", 1)), "OCP-Session: ignored", "some headers", true},
		"a required header is away":  {"OCP-Context-ID: a\n", "OCP-Agent-Type: missing\n", "no valid context", false},
		"a bad session in headers":   {good + "OCP-Session: %%\n", "OCP-Session: ignored\n  OCP-Session: not Base64", "some headers", false},
		"only the session in header": {"OCP-Session: " + base64Of(goodContext), "OCP-Context-ID: missing\n", "no valid context", false},
	} {
		t.Run(name, func(t *testing.T) {
			arguments := []string{"validate"}
			if test.strict {
				arguments = append(arguments, "--strict")
			}
			out, _, err := ocpCommand(test.input, arguments...)
			if !testkit.ContainsAll(out, test.want) {
				t.Errorf("no %q in\n%s", test.want, out)
			}
			if (err != nil) != (test.fails != "") || err != nil && !testkit.ContainsAll(err.Error(), test.fails) {
				t.Errorf("got %v, want %q", err, test.fails)
			}
		})
	}
}
