package mcp_test

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// skillMethod sends a request of 2026-07-28 and returns the response.
func skillMethod(s *sitetest.Site, method, params string) string {
	s.T.Helper()
	message := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{}}` + params + `}}`
	header := map[string]string{"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
	if uri, isRead := strings.CutPrefix(params, `,"uri":"`); isRead && method == "resources/read" {
		header["Mcp-Name"] = strings.TrimSuffix(uri, `"`)
	}
	return s.Post("/mcp", message, header).Body
}

// TestSkills_are_reloaded changes a skill while a client listens, makes a mistake, and corrects it.
func TestSkills_are_reloaded(t *testing.T) {
	s := sitetest.NewSite(t)
	for _, folder := range []string{"skills/refunds", "more/packing"} {
		if err := os.MkdirAll(filepath.Join(s.Dir, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	skill := func(description string) {
		t.Helper()
		s.Write("skills/refunds/SKILL.md", "---\nname: refunds\ndescription: "+description+"\n---\nRefund it.\n")
	}
	skill("Refunds a trip.")
	s.Write("more/packing/SKILL.md", "---\nname: packing\ndescription: Packs.\n---\n")
	s.Start("", "mcp TRIPS {\n\tskills DIR/skills\n\tskills DIR/more\n}\nrespond ok")

	if got := skillMethod(s, "server/discover", ""); !strings.Contains(got, `"io.modelcontextprotocol/skills":{"directoryRead":true}`) {
		t.Errorf("got %s", got)
	}
	const uri = `,"uri":"skill://refunds/SKILL.md"`
	for method, want := range map[string]string{
		"skills/list": "Packs.", "skills/get": "Refunds a trip.", "resources/read": "Refund it.", "resources/list": `"uri":"skill://refunds/SKILL.md"`,
	} {
		if got := skillMethod(s, method, uri); !strings.Contains(got, want) {
			t.Errorf("%s: %q is not in %s", method, want, got)
		}
	}

	stream := sitetest.StreamsOf(s).ListenTo(`{"resourcesListChanged":true}`)
	defer stream.Body.Close()
	lines := bufio.NewReader(stream.Body)
	sitetest.Message(t, lines) // acknowledged
	skill("Refunds a hotel.")
	if got := sitetest.Message(t, lines); !strings.Contains(got, "notifications/resources/list_changed") {
		t.Errorf("got %s", got)
	}
	if got := skillMethod(s, "skills/get", uri); !strings.Contains(got, "Refunds a hotel.") {
		t.Errorf("after the change: %s", got)
	}

	skill("[")
	s.Logged(`"level":"error"`, "loading the skills failed; the previous skills stay in use", "SKILL.md:")
	for _, method := range []string{"skills/get", "resources/read"} {
		if got := skillMethod(s, method, uri); !strings.Contains(got, "Refunds a hotel.") {
			t.Errorf("%s after a mistake: %s", method, got)
		}
	}
	if err := os.Rename(filepath.Join(s.Dir, "more/packing"), filepath.Join(s.Dir, "more/refunds")); err != nil {
		t.Fatal(err)
	}
	s.Write("more/refunds/SKILL.md", "---\nname: refunds\ndescription: Packs.\n---\n")
	s.Logged(`"level":"error"`, "another directory has a skill in the same place")

	if err := os.RemoveAll(filepath.Join(s.Dir, "skills/refunds")); err != nil {
		t.Fatal(err)
	}
	sitetest.Eventually(t, "the skill of the other directory", func() bool {
		got := skillMethod(s, "skills/list", "")
		return strings.Contains(got, "Packs.") && !strings.Contains(got, "hotel")
	})
}

// TestSkills_need_their_scopes, with tokens that agent_auth verifies.
func TestSkills_need_their_scopes(t *testing.T) {
	s := sitetest.NewSite(t)
	for _, folder := range []string{"open/a", "board/b"} {
		if err := os.MkdirAll(filepath.Join(s.Dir, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s.Write("open/a/SKILL.md", "---\nname: a\ndescription: Open.\n---\n")
	s.Write("board/b/SKILL.md", "---\nname: b\ndescription: Secret.\n---\n")
	s.Start("", "mcp TRIPS {\n\tskills DIR/open\n\tskills DIR/board {\n\t\tscopes board\n\t}\n}\nrespond ok")
	if got := skillMethod(s, "skills/list", ""); !strings.Contains(got, "Open.") || strings.Contains(got, "Secret.") {
		t.Errorf("got %s", got)
	}
	for _, method := range []string{"skills/get", "resources/read"} {
		if got := skillMethod(s, method, `,"uri":"skill://b/SKILL.md"`); !strings.Contains(got, "lacks board") || strings.Contains(got, "Secret.") {
			t.Errorf("%s: %s", method, got)
		}
	}
}
