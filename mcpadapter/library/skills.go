package library

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/mcpadapter/skills"
	"github.com/fairwayhq/fairway/tools"
)

// Skills are the skills of one directory. Their files are also resources.
type Skills struct {
	*skills.Set
	Scopes []string // that a token needs to see the skills and to read their files
}

// A skillEntry is an entry of skills/list.
type skillEntry struct {
	*skills.Skill
	Scopes []string    // that a token needs
	Denied bool        // the token lacks scopes, so the skill is not listed
	Tool   *tools.Tool // that reads the SKILL.md at an MCP server; nil for other skills
}

// IsDenied reports whether the token lacks scopes, so that the entry is not listed.
func (e *skillEntry) IsDenied() bool { return e.Denied }

// AppendTo appends the entry as skills/list returns it.
func (e *skillEntry) AppendTo(dst []byte, _ protocol.Revision) []byte {
	return append(dst, e.Entry...)
}

// forToken returns the entry as a caller with the token sees it.
func (e *skillEntry) forToken(access *tools.Access) *skillEntry {
	if access.Lacks(e.Scopes) == nil {
		return e
	}
	return &skillEntry{Skill: e.Skill, Scopes: e.Scopes, Denied: true}
}

// addSkills adds the skills and their files. A skill of one directory must not lie in a skill of another one, because the
// entry of the enclosing skill would lack its files.
func (l *Library) addSkills() error {
	roots := make(map[string]int) // directory of each skill
	for i, set := range l.options.Skills {
		for _, s := range set.Skills {
			roots[strings.TrimSuffix(s.URI, "/"+skills.FileName)] = i
		}
	}
	for i, set := range l.options.Skills {
		if err := checkScopes(set.Scopes); err != nil {
			return fmt.Errorf("skills: %w", err)
		}
		for _, s := range set.Skills {
			for uri := s.URI; len(uri) > len(skills.Scheme); uri = uri[:strings.LastIndexByte(uri, '/')] {
				if other, taken := roots[uri]; taken && other != i {
					return fmt.Errorf("skill %s: another directory has a skill in the same place, %s", s.URI, uri)
				}
			}
			l.skills = append(l.skills, &skillEntry{Skill: s, Scopes: set.Scopes})
		}
		for _, f := range set.Files {
			l.resources = append(l.resources, skillResource(f, set.Scopes))
		}
	}
	return nil
}

// skillResource returns a file of a skill as a resource.
func skillResource(f *skills.File, scopes []string) *Entry {
	r := &Entry{
		uri: f.URI, name: f.Name, Mime: TypeOf(mimeOf(f.URI, f.Name), f.Content),
		size: int64(len(f.Content)), modified: f.Modified, skill: f, Scopes: scopes,
	}
	if f.Skill != nil {
		r.name, r.description = f.Skill.Name, f.Skill.Description
	}
	return r
}

// addForeignSkill adds the skill of an MCP server whose SKILL.md is the resource, if it is one.
func (s *Index) addForeignSkill(r *Entry) {
	entry := r.foreignSkill()
	switch entry.Kind() {
	case '"':
		s.warn(r.Tool, "ignored the skill %s: %s", r.uri, strictjson.Text(entry))
	case '{':
		if strictjson.Text(strictjson.MemberOf(entry, "uri")) != r.uri {
			s.warn(r.Tool, "ignored the skill %s: another resource has its URI", strictjson.Text(strictjson.MemberOf(entry, "uri")))
			return
		}
		s.Skills = append(s.Skills, &skillEntry{Skill: &skills.Skill{URI: r.uri, Entry: entry}, Denied: r.Denied, Tool: r.Tool})
	}
}

// foreignSkill returns how the resource belongs to a skill of an MCP server (package mcpadapter/client), or nil.
func (r *Entry) foreignSkill() jsontext.Value {
	if r.Tool == nil || r.Tool.Foreign == nil || r.Tool.Foreign.Kind != tools.ForeignResource {
		return nil
	}
	return r.Tool.Foreign.Member(skills.Extension)
}

// Skill returns the skill with the URI of its SKILL.md, or nil.
func (s *Index) Skill(uri string) *skillEntry {
	for _, e := range s.Skills {
		if e.URI == uri {
			return e
		}
	}
	return nil
}

// directoryType is the media type of a directory (Skills, Directory Resources).
const directoryType = "inode/directory"

// Directory returns the files and folders in a folder of skills, also those that the token does not allow. There are none
// if the URI is not that of a folder.
func (s *Index) Directory(uri string) (children []*Entry) {
	seen := make(map[string]*Entry)
	for _, r := range s.Resources {
		below, isBelow := strings.CutPrefix(r.uri, uri+"/")
		if !isBelow || !strings.Contains(uri, "://") || r.skill == nil && r.foreignSkill() == nil {
			continue
		}
		if name, _, isFolder := strings.Cut(below, "/"); isFolder {
			child := uri + "/" + name
			r = &Entry{uri: child, name: LastPart(child), Mime: directoryType, size: -1, Scopes: r.Scopes, Tool: r.Tool, Denied: r.Denied}
		}
		if earlier := seen[r.uri]; earlier != nil {
			earlier.Denied = earlier.Denied && r.Denied
			continue
		}
		seen[r.uri] = r
		children = append(children, r)
	}
	return children
}
