package integration

import (
	"encoding/json"
	"fmt"
	"testing"
)

// TestSkills_are_verified_by_a_client reads all skills of the conformance fixture with the client of the TypeScript SDK, which
// verifies each file: at the gateway that has the files, and at a gateway that has the first one as an MCP server.
func TestSkills_are_verified_by_a_client(t *testing.T) {
	t.Parallel()
	first := startFixture(t)
	site := freeAddress(t)
	second := startGateway(t, t.TempDir(), site, "{\n\tadmin off\n\tagents {\n\t\ttoolset up {\n\t\t\tmcp_server "+first.url+"/mcp\n\t\t}\n\t}\n}\n"+
		"http://"+site+" {\n\tmcp /mcp up\n\tmcp_servers\n}\n")
	second.waitForTools(t, "/mcp")
	for prefix, url := range map[string]string{"": first.url, "up/": second.url} {
		var got struct {
			DirectoryRead bool
			Invalid       []json.RawMessage
			Skills        []struct {
				URI                string
				Verified, Children int
			}
		}
		decodeOutput(t, node(t, "skills.mjs", url+"/mcp"), &got)
		want := fmt.Sprintf("[{skill://%sacme/refunds/SKILL.md 2 2} {skill://%sboard/SKILL.md 2 2}]", prefix, prefix)
		if !got.DirectoryRead || len(got.Invalid) > 0 || fmt.Sprint(got.Skills) != want {
			t.Errorf("prefix %q: got %+v", prefix, got)
		}
	}
}
