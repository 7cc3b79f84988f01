package mcpadapter

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/mcpadapter/internal/catalog"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/mcpadapter/library"
	"github.com/fairwayhq/fairway/mcpadapter/skills"
)

// skillMD returns the SKILL.md of a skill.
func skillMD(name string) string {
	return "---\nname: " + name + "\ndescription: Does " + name + ".\n---\n# " + name + "\n"
}

// skillsIn reads the skills below a directory.
func skillsIn(t testing.TB, directory string, scopes ...string) library.Skills {
	t.Helper()
	set, _, err := (&skills.Directory{Path: directory}).Read()
	if err != nil {
		t.Fatal(err)
	}
	return library.Skills{Set: set, Scopes: scopes}
}

// skilled returns a server with the skills.
func skilled(t testing.TB, options Options, all ...library.Skills) *Server {
	t.Helper()
	lib, err := library.NewLibrary(library.LibraryOptions{Skills: all})
	if err != nil {
		t.Fatal(err)
	}
	server := New(options)
	server.SetLibrary(lib)
	return server
}

// A skillEntry is an entry of skills/list.
type skillEntry struct {
	URI         string
	Frontmatter struct{ Name, Description string }
	Resources   []struct {
		URI, Digest string
		Size        int
	}
}

// skillAnswer has the members of all results and errors of the methods.
type skillAnswer struct {
	Result struct {
		ResultType, CacheScope, NextCursor string
		TTLMs                              *int
		Skills                             []skillEntry
		Skill                              skillEntry
		Resources                          []struct{ URI, Name, Description, MIMEType string }
		Contents                           []struct{ URI, MIMEType, Text, Blob string }
		Capabilities                       struct{ Extensions map[string]any }
	}
	Error struct {
		Code    int
		Message string
	}
	status    int
	challenge string
}

// skillRequest sends a request of 2026-07-28 with an access token.
func skillRequest(t testing.TB, server *Server, access *Access, method, params string) (a skillAnswer) {
	t.Helper()
	r := shelved(t, server, protocol.V20260728, method, params)
	if method == "skills/get" || method == "resources/directory/read" {
		delete(r.header, nameHeader)
	}
	r.access = access
	w := r.Send(t)
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
		t.Fatalf("%s: %v in %s", method, err, w.Body)
	}
	a.status, a.challenge = w.Code, w.Header().Get("Www-Authenticate")
	return a
}

func TestSkills_are_listed_and_read_with_matching_digests(t *testing.T) {
	dir := writeFiles(t, map[string]string{
		"acme/refunds/SKILL.md": skillMD("refunds"), "acme/refunds/templates/mail.md": "Dear <b>&\u2028", "acme/refunds/logo.png": "\x89PNG\x00\xff",
		"acme/refunds/none": "", "packing/SKILL.md": skillMD("packing"),
	})
	server := skilled(t, Options{}, skillsIn(t, dir))
	found := skillRequest(t, server, nil, "server/discover", "").Result.Capabilities.Extensions
	if fmt.Sprint(found[skills.Extension]) != "map[directoryRead:true]" {
		t.Errorf("capabilities: %v", found)
	}
	list := skillRequest(t, server, nil, "skills/list", "").Result
	if len(list.Skills) != 2 || list.NextCursor != "" {
		t.Fatalf("got the skills %+v and the cursor %q, want 2 skills on one page", list.Skills, list.NextCursor)
	}
	if list.ResultType != "complete" || list.TTLMs == nil || list.CacheScope == "" {
		t.Fatalf("got %+v, want a complete result with its lifetime and its scope", list)
	}
	for _, s := range list.Skills {
		got := skillRequest(t, server, nil, "skills/get", `"uri":"`+s.URI+`"`).Result
		if fmt.Sprint(got.Skill) != fmt.Sprint(s) {
			t.Errorf("got the skill %+v, want %+v", got.Skill, s)
		}
		if got.ResultType != "complete" || got.TTLMs == nil || got.CacheScope == "" {
			t.Errorf("got %+v, want a complete result with its lifetime and its scope", got)
		}
		for _, file := range s.Resources {
			read := skillRequest(t, server, nil, "resources/read", `"uri":"`+file.URI+`"`).Result.Contents[0]
			content := []byte(read.Text)
			if read.Blob != "" {
				if err := json.Unmarshal([]byte(`"`+read.Blob+`"`), &content); err != nil {
					t.Fatal(err)
				}
			}
			if sum := sha256.Sum256(content); "sha256:"+hex.EncodeToString(sum[:]) != file.Digest || len(content) != file.Size || read.URI != file.URI {
				t.Errorf("%s: %+v", file.URI, read)
			}
		}
	}
	for _, r := range skillRequest(t, server, nil, "resources/list", "").Result.Resources {
		if r.URI == "skill://acme/refunds/SKILL.md" && (r.Name != "refunds" || r.Description != "Does refunds." || r.MIMEType != "text/markdown") {
			t.Errorf("got %+v", r)
		}
	}
}

func TestSkills_directories_have_their_direct_children(t *testing.T) {
	server := skilled(t, Options{}, skillsIn(t, writeFiles(t, map[string]string{
		"acme/refunds/SKILL.md": skillMD("refunds"), "acme/refunds/t/a b.md": "", "acme/refunds/t/deep/c.md": "", "acme/refunds/t-2.md": "", "acme/packing/SKILL.md": skillMD("packing"),
	})))
	for uri, want := range map[string]string{
		"skill://acme/refunds":        "refunds text/markdown, t inode/directory, t-2.md text/markdown",
		"skill://acme/refunds/t":      "a b.md text/markdown, deep inode/directory",
		"skill://acme/refunds/t/deep": "c.md text/markdown",
		"skill://acme":                "packing inode/directory, refunds inode/directory",
		"skill://acme/refunds/":       "-32602", "skill://acme/refunds/SKILL.md": "-32602", "skill://acme/refunds/none": "-32602",
		"skill:/": "-32602", "skill://acme/refund": "-32602", "": "-32602",
	} {
		a := skillRequest(t, server, nil, "resources/directory/read", `"uri":"`+uri+`"`)
		var got []string
		for _, r := range a.Result.Resources {
			got = append(got, r.Name+" "+r.MIMEType)
			if !strings.HasPrefix(r.URI, uri+"/") {
				t.Errorf("%s: %s", uri, r.URI)
			}
		}
		if a.Error.Code != 0 {
			got = []string{fmt.Sprint(a.Error.Code)}
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: got %s; want %s", uri, strings.Join(got, ", "), want)
		}
	}
}

func TestSkills_unknown_ones_are_invalid_params(t *testing.T) {
	server := skilled(t, Options{}, skillsIn(t, writeFiles(t, map[string]string{"a/SKILL.md": skillMD("a"), "a/x": ""})))
	for _, params := range []string{`"uri":"skill://b/SKILL.md"`, `"uri":"skill://a/x"`, `"uri":"skill://a"`, `"uri":1`, ``} {
		if a := skillRequest(t, server, nil, "skills/get", params); a.Error.Code != protocol.InvalidParams {
			t.Errorf("%s: got %+v", params, a.Error)
		}
	}
	for _, uri := range []string{"skill://a/../a/x", "skill://a/%78", "skill://a/none", "skill://a/.env"} {
		if a := skillRequest(t, server, nil, "resources/read", `"uri":"`+uri+`"`); a.Error.Code != protocol.InvalidParams {
			t.Errorf("%s: got %+v", uri, a)
		}
	}
}

func TestSkills_exist_only_if_the_extension_does(t *testing.T) {
	with := skilled(t, Options{}, skillsIn(t, writeFiles(t, map[string]string{"a/SKILL.md": skillMD("a")})))
	for _, method := range []string{"skills/list", "skills/get", "resources/directory/read"} {
		if a := skillRequest(t, New(Options{}), nil, method, `"uri":"skill://a"`); a.Error.Code != protocol.MethodNotFound || a.status != http.StatusNotFound {
			t.Errorf("%s without skills: got %d %+v", method, a.status, a.Error)
		}
		w := shelved(t, with, protocol.V20251125, method, `"uri":"skill://a"`).Send(t)
		if !strings.Contains(w.Body.String(), fmt.Sprint(protocol.MethodNotFound)) {
			t.Errorf("%s in 2025-11-25: got %s", method, w.Body)
		}
	}
	if found := skillRequest(t, New(Options{}), nil, "server/discover", "").Result.Capabilities.Extensions; found[skills.Extension] != nil {
		t.Errorf("declared without skills: %v", found)
	}
	w := shelved(t, with, protocol.V20251125, "resources/read", `"uri":"skill://a/SKILL.md"`).Send(t)
	if !strings.Contains(w.Body.String(), "Does a.") {
		t.Errorf("2025-11-25 cannot read the resource: %s", w.Body)
	}
}

func TestSkills_with_scopes_are_hidden_from_others(t *testing.T) {
	open := skillsIn(t, writeFiles(t, map[string]string{"acme/open/SKILL.md": skillMD("open")}))
	board := skillsIn(t, writeFiles(t, map[string]string{"acme/board/SKILL.md": skillMD("board"), "acme/board/x/y": ""}), "board")
	server := skilled(t, Options{}, board, open)
	const challenge = `Bearer error="insufficient_scope", scope="board`
	for rule, c := range map[string]struct {
		access  *Access
		allowed bool
	}{
		"token with the scope":    {&Access{Scopes: []string{"board"}}, true},
		"token without it":        {&Access{Scopes: []string{"x"}}, false},
		"scopes of tools are off": {&Access{AllTools: true}, false},
		"no token":                {nil, false},
	} {
		t.Run(rule, func(t *testing.T) {
			var listed []string
			for _, s := range skillRequest(t, server, c.access, "skills/list", "").Result.Skills {
				listed = append(listed, s.Frontmatter.Name)
			}
			for _, r := range skillRequest(t, server, c.access, "resources/list", "").Result.Resources {
				listed = append(listed, r.Name)
			}
			for _, r := range skillRequest(t, server, c.access, "resources/directory/read", `"uri":"skill://acme"`).Result.Resources {
				listed = append(listed, r.Name)
			}
			if strings.Contains(fmt.Sprint(listed), "board") != c.allowed || strings.Count(fmt.Sprint(listed), "open") != 3 {
				t.Errorf("listed: %v", listed)
			}
			for method, uri := range map[string]string{"skills/get": "skill://acme/board/SKILL.md", "resources/read": "skill://acme/board/x/y", "resources/directory/read": "skill://acme/board"} {
				a := skillRequest(t, server, c.access, method, `"uri":"`+uri+`"`)
				if (a.status == http.StatusOK) != c.allowed || strings.HasPrefix(a.challenge, challenge) == c.allowed {
					t.Errorf("%s: got %d %q %+v", method, a.status, a.challenge, a.Error)
				}
			}
			if a := skillRequest(t, server, c.access, "skills/get", `"uri":"skill://acme/open/SKILL.md"`); a.status != http.StatusOK {
				t.Errorf("a skill without scopes: got %d", a.status)
			}
		})
	}
}

func TestSkills_pages_do_not_split_an_entry(t *testing.T) {
	files := make(map[string]string)
	for i := range 40 {
		name := fmt.Sprintf("s%02d", i)
		files[name+"/SKILL.md"] = "---\nname: " + name + "\ndescription: d\nx: " + strings.Repeat("x", 200) + "\n---\n"
	}
	dir := writeFiles(t, files)
	for _, size := range []int{0, 1, 7, 40, 100} {
		server := skilled(t, Options{PageSize: size}, skillsIn(t, dir))
		var names []string
		pages := 0
		for cursor := ""; pages < 100; {
			params := ""
			if cursor != "" {
				params = `"cursor":"` + cursor + `"`
			}
			page := skillRequest(t, server, nil, "skills/list", params).Result
			pages++
			for _, s := range page.Skills {
				names = append(names, s.Frontmatter.Name)
			}
			if cursor = page.NextCursor; cursor == "" {
				break
			}
		}
		if want := map[int]int{0: 1, 1: 40, 7: 6, 40: 1, 100: 1}[size]; len(names) != 40 || pages != want {
			t.Fatalf("page size %d: got %d skills on %d pages, want 40 on %d", size, len(names), pages, want)
		}
		if names[0] != "s00" || names[39] != "s39" {
			t.Errorf("page size %d: got %v, want s00 to s39", size, names)
		}
	}
}

// TestLists_have_pages_of_limited_size lists items that are together larger than a page.
func TestLists_have_pages_of_limited_size(t *testing.T) {
	l := listRequest{request: &request{scope: scope{server: &Server{}}}}
	for rule, c := range map[string]struct {
		size int
		ends []int
		want string
	}{
		"empty":          {0, nil, "[0]"},
		"small":          {0, []int{1, 2, 3}, "[0]"},
		"by count":       {2, []int{1, 2, 3, 4, 5}, "[0 2 4]"},
		"exactly a page": {0, []int{catalog.MaxPageBytes - 1, catalog.MaxPageBytes}, "[0]"},
		"large":          {0, []int{catalog.MaxPageBytes - 1, catalog.MaxPageBytes + 1, 2*catalog.MaxPageBytes - 1, 3 * catalog.MaxPageBytes}, "[0 1 3]"},
		"one is larger":  {0, []int{1, 2 * catalog.MaxPageBytes, 2*catalog.MaxPageBytes + 1}, "[0 1 2]"},
	} {
		l.request.server.options.PageSize = c.size
		if got := fmt.Sprint(l.startsOf(c.ends)); got != c.want {
			t.Errorf("%s: got %s; want %s", rule, got, c.want)
		}
	}
}

func TestSkills_of_two_directories_do_not_overlap(t *testing.T) {
	one := skillsIn(t, writeFiles(t, map[string]string{"a/SKILL.md": skillMD("a")}))
	for rule, c := range map[string]struct {
		path string
		ok   bool
	}{
		"the same":  {"a", false},
		"inside":    {"a/x/b", false},
		"a brother": {"x/a", true},
		"a prefix":  {"a-b", true},
	} {
		other := skillsIn(t, writeFiles(t, map[string]string{c.path + "/SKILL.md": skillMD(filepath.Base(c.path))}))
		for _, order := range [][]library.Skills{{one, other}, {other, one}} {
			if _, err := library.NewLibrary(library.LibraryOptions{Skills: order}); (err == nil) != c.ok {
				t.Errorf("%s: %v", rule, err)
			}
		}
	}
}

// TestSkills_change_the_digest_of_the_resources, so that a client that comes back learns that a skill has changed.
func TestSkills_change_the_digest_of_the_resources(t *testing.T) {
	server := New(Options{})
	toolset := stationTools(t)
	before := server.catalogOf(toolset).Digests()
	for _, content := range []string{"1", "2"} {
		lib, err := library.NewLibrary(library.LibraryOptions{Skills: []library.Skills{skillsIn(t, writeFiles(t, map[string]string{"a/SKILL.md": skillMD("a"), "a/x": content}))}})
		if err != nil {
			t.Fatal(err)
		}
		server.SetLibrary(lib)
		now := server.catalogOf(toolset).Digests()
		if before.Changes(now) != ResourcesChanged {
			t.Errorf("content %s: changes %v", content, before.Changes(now))
		}
		before = now
	}
}
