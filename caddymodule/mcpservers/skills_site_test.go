package mcpservers_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
	"github.com/fairwayhq/fairway/mcpadapter"
	"github.com/fairwayhq/fairway/mcpadapter/library"
	"github.com/fairwayhq/fairway/mcpadapter/skills"
	"github.com/fairwayhq/fairway/tools"
)

// skillHost is the Host of a server without tools.
type skillHost struct{ tools *tools.Toolset }

func (h skillHost) Tools() *tools.Toolset              { return h.tools }
func (h skillHost) Caller(*tools.Toolset) tools.Caller { return nil }
func (h skillHost) Identity() string                   { return "" }

// skillServer runs an MCP server with the skills below a directory. It counts the reads of resources.
func skillServer(t *testing.T, directory string) (url string, reads *atomic.Int64) {
	t.Helper()
	set, _, err := (&skills.Directory{Path: directory}).Read()
	if err != nil {
		t.Fatal(err)
	}
	lib, err := library.NewLibrary(library.LibraryOptions{Skills: []library.Skills{{Set: set}}})
	if err != nil {
		t.Fatal(err)
	}
	server, host := mcpadapter.New(mcpadapter.Options{}), skillHost{tools.NewToolset("up", nil)}
	server.SetLibrary(lib)
	t.Cleanup(server.Close)
	reads = new(atomic.Int64)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Method") == "resources/read" {
			reads.Add(1)
		}
		server.ServeHTTP(w, r, mcpadapter.Site{Host: host})
	}))
	t.Cleanup(upstream.CloseClientConnections)
	t.Cleanup(upstream.Close)
	return upstream.URL, reads
}

// writeSkill writes a skill with one more file.
func writeSkill(t *testing.T, directory, name, content string) {
	t.Helper()
	for file, text := range map[string]string{"SKILL.md": "---\nname: " + name + "\ndescription: " + content + "\n---\n", "references/policy.md": content} {
		path := filepath.Join(directory, name, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

type skillAnswer struct {
	Result struct {
		Skills []struct {
			URI       string
			Resources []struct {
				URI, Digest string
				Size        int
			}
		}
		Resources []struct{ URI, Name, MIMEType string }
		Contents  []struct{ URI, Text string }
	}
	Error *struct{ Code int }
}

// askSkills sends a request of 2026-07-28.
func askSkills(s *sitetest.Site, method, uri string) (a skillAnswer) {
	s.T.Helper()
	message := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{}},"uri":"` + uri + `"}}`
	header := map[string]string{"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
	if method == "resources/read" {
		header["Mcp-Name"] = uri
	}
	body := s.Post("/mcp", message, header).Body
	if err := json.Unmarshal([]byte(body), &a); err != nil {
		s.T.Fatalf("%s: %v in %s", method, err, body)
	}
	return a
}

// TestSkills_of_servers_and_of_the_gateway are in one list. Each file is read where it comes from, and matches its digest.
func TestSkills_of_servers_and_of_the_gateway(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	writeSkill(t, dirs[0], "refunds", "of the CRM")
	writeSkill(t, dirs[1], "refunds", "of the shop")
	writeSkill(t, dirs[2], "refunds", "of the gateway")
	crm, reads := skillServer(t, dirs[0])
	shop, _ := skillServer(t, dirs[1])
	s := sitetest.Run(t, "agents {\ntoolset crm {\nmcp_server "+crm+"\n}\ntoolset shop {\nmcp_server "+shop+"\n}\n}",
		"mcp /mcp crm shop {\nskills "+dirs[2]+"\n}\nmcp_servers\nrespond 418")
	var list skillAnswer
	sitetest.Eventually(t, "all skills are listed", func() bool {
		list = askSkills(s, "skills/list", "")
		return len(list.Result.Skills) == 3
	})
	if n := reads.Load(); n != 0 {
		t.Errorf("listing has read %d files", n)
	}
	for _, skill := range list.Result.Skills {
		source := map[string]string{"skill://refunds/SKILL.md": "of the gateway", "skill://crm/refunds/SKILL.md": "of the CRM", "skill://shop/refunds/SKILL.md": "of the shop"}[skill.URI]
		if source == "" || len(skill.Resources) != 2 {
			t.Errorf("got %+v", skill)
		}
		for _, file := range skill.Resources {
			read := askSkills(s, "resources/read", file.URI)
			if len(read.Result.Contents) != 1 {
				t.Errorf("%s: %+v", file.URI, read)
				continue
			}
			content := read.Result.Contents[0]
			sum := sha256.Sum256([]byte(content.Text))
			got := [...]any{"sha256:" + hex.EncodeToString(sum[:]), len(content.Text), content.URI}
			if want := [...]any{file.Digest, file.Size, file.URI}; got != want || !strings.Contains(content.Text, source) {
				t.Errorf("got %v with the text %s, want %v with the source %s", got, content.Text, want, source)
			}
		}
		if got := askSkills(s, "skills/get", skill.URI); got.Error != nil {
			t.Errorf("%s: %+v", skill.URI, got.Error)
		}
	}
	if n := reads.Load(); n != 2 {
		t.Errorf("the server got %d reads, want 2", n)
	}
	children := askSkills(s, "resources/directory/read", "skill://crm/refunds").Result.Resources
	if len(children) != 2 || children[0].URI != "skill://crm/refunds/SKILL.md" {
		t.Fatalf("got %+v, want SKILL.md and a folder", children)
	}
	if c := children[1]; c.URI != "skill://crm/refunds/references" || c.MIMEType != "inode/directory" {
		t.Errorf("got %s of the type %s, want skill://crm/refunds/references, inode/directory", c.URI, c.MIMEType)
	}
}

// TestSkills_of_servers_are_under_the_policies_of_the_toolset: each file is an operation.
func TestSkills_of_servers_are_under_the_policies_of_the_toolset(t *testing.T) {
	dir := t.TempDir()
	writeSkill(t, dir, "refunds", "Refunds.")
	writeSkill(t, dir, "packing", "Packs.")
	for policy, refused := range map[string]string{"exclude operation resource_refunds": "skill://crm/refunds/SKILL.md", "allow `tool.name != \"resource_refunds\"`": "skill://crm/refunds/SKILL.md"} {
		t.Run(policy, func(t *testing.T) {
			url, reads := skillServer(t, dir)
			s := sitetest.Run(t, "agents {\ntoolset crm {\nmcp_server "+url+"\n"+policy+"\n}\n}", "mcp /mcp crm\nmcp_servers\nrespond 418")
			var list skillAnswer
			sitetest.Eventually(t, "a skill is listed", func() bool {
				list = askSkills(s, "skills/list", "")
				return len(list.Result.Skills) > 0
			})
			if len(list.Result.Skills) != 1 || list.Result.Skills[0].URI != "skill://crm/packing/SKILL.md" {
				t.Errorf("got %+v", list.Result.Skills)
			}
			for _, method := range []string{"skills/get", "resources/read"} {
				if got := askSkills(s, method, refused); got.Error == nil {
					t.Errorf("%s: %+v", method, got)
				}
			}
			if n := reads.Load(); n != 0 {
				t.Errorf("the server got %d reads", n)
			}
		})
	}
}
