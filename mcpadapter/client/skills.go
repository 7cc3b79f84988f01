package client

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/mcpadapter/skills"
)

// maxSkillURI is the longest URI of a file of a skill, in bytes.
const maxSkillURI = 2048

// validDigest is the form of a digest (Skills, Integrity and Verification).
var validDigest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// A listedResource is a resource of the server with its URI at the gateway. Its definition has the member skills.Extension if it
// is a file of a skill: the entry of the skill for its SKILL.md, the reason for one that is not valid, and true for other files.
type listedResource struct {
	definition jsontext.Value
	uri        string
}

// resources returns the resources of the server, and the files of its skills that the server does not list. All files
// of skills get a URI with the name of the toolset, so that relative references in them stay valid and skills of several
// servers do not have the same URI.
func (d *discovery) resources(name string) []listedResource {
	m := manifest{prefix: skills.Scheme + segment(name) + "/", marks: make(map[string]jsontext.Value)}
	for _, entry := range d.Skills {
		if err := m.add(entry); err != nil {
			m.mark(strictjson.Text(strictjson.MemberOf(entry, "uri")), strictjson.AppendString(nil, err.Error()))
		}
	}
	var all []listedResource
	listed := make(map[string]bool)
	for _, definition := range d.Resources {
		uri := strictjson.Text(strictjson.MemberOf(definition, "uri"))
		listed[uri] = true
		all = append(all, m.resource(uri, definition))
	}
	for _, definition := range m.files {
		if uri := strictjson.Text(strictjson.MemberOf(definition, "uri")); !listed[uri] && len(all) < maxListed {
			listed[uri] = true
			all = append(all, m.resource(uri, definition))
		}
	}
	return all
}

// A manifest has the files of all skills of a server.
type manifest struct {
	prefix string
	marks  map[string]jsontext.Value // the member skills.Extension, by URI
	roots  []string                  // URIs of the skills that do not list their files, with a slash
	files  []jsontext.Value          // definitions of files, in case the server does not list them
}

// mark sets the member of a file. That of a SKILL.md takes precedence over that of a file.
func (m *manifest) mark(uri string, value jsontext.Value) {
	if m.marks[uri] == nil || value.Kind() != 't' {
		m.marks[uri] = value
	}
}

// uri returns the URI of a file at the gateway.
func (m *manifest) uri(uri string) string {
	_, rest, _ := strings.Cut(uri, "://")
	return m.prefix + rest
}

// resource returns a resource with its mark, in place of a member with which the server could forge one.
func (m *manifest) resource(uri string, definition jsontext.Value) listedResource {
	definition = append(strictjson.AppendWithout([]byte{'{'}, definition, func(w *strictjson.Walk) bool { return w.Is(skills.Extension) }), '}')
	mark := m.marks[uri]
	for _, root := range m.roots {
		if mark == nil && strings.HasPrefix(uri, root) {
			mark = []byte("true")
		}
	}
	if mark == nil {
		return listedResource{definition, uri}
	}
	definition = append(strictjson.AppendString(append(definition[:len(definition)-1], ','), skills.Extension), ':')
	definition = append(append(definition, mark...), '}')
	if mark.Kind() == '"' {
		return listedResource{definition, uri}
	}
	return listedResource{definition, m.uri(uri)}
}

// add adds the files of a skill. The entry at the gateway has other URIs, and the digests of the server.
func (m *manifest) add(entry jsontext.Value) error {
	uri, frontmatter, list := strictjson.Text(strictjson.MemberOf(entry, "uri")), strictjson.MemberOf(entry, "frontmatter"), strictjson.MemberOf(entry, "resources")
	root, err := skillRoot(uri, frontmatter)
	if err != nil {
		return err
	}
	files, resources, err := m.readFiles(uri, root, list)
	if err != nil {
		return err
	}
	var own, definition strictjson.ObjectBuilder
	own.Add("uri", strictjson.AppendString(nil, m.uri(uri)))
	own.Add("frontmatter", frontmatter)
	own.Add("resources", resources)
	definition.Add("uri", strictjson.AppendString(nil, uri))
	definition.Add("name", strictjson.MemberOf(frontmatter, "name"))
	definition.Add("description", strictjson.MemberOf(frontmatter, "description"))
	definition.Add("mimeType", []byte(`"text/markdown"`))
	m.files = append(m.files, definition.Close())
	for _, file := range files {
		m.mark(strictjson.Text(strictjson.MemberOf(file, "uri")), []byte("true"))
	}
	m.files = append(m.files, files...)
	if len(files) == 0 {
		m.roots = append(m.roots, root)
	}
	m.mark(uri, own.Close())
	return nil
}

// skillRoot returns the URI of the folder of a skill, with a slash.
func skillRoot(uri string, frontmatter jsontext.Value) (string, error) {
	root, isSkill := strings.CutSuffix(uri, skills.FileName)
	_, rest, _ := strings.Cut(root, "://")
	name, description := strictjson.MemberOf(frontmatter, "name"), strictjson.MemberOf(frontmatter, "description")
	switch {
	case len(uri) > maxSkillURI, !isSkill, !strings.HasSuffix(rest, "/"), !fs.ValidPath(strings.TrimSuffix(rest, "/")):
		return "", errors.New("the uri must be <scheme>://<folder>/" + skills.FileName)
	case name.Kind() != '"' || description.Kind() != '"' || !skills.IsName(strictjson.Text(name)):
		return "", errors.New("the frontmatter lacks a valid name and a description")
	case path.Base(rest) != strictjson.Text(name):
		return "", errors.New("the folder in the uri has not the name of the skill")
	}
	return root, nil
}

// readFiles returns definitions of the files in an entry, and the list with their URIs at the gateway. A dynamic skill lists none.
func (m *manifest) readFiles(skill, root string, list jsontext.Value) (files []jsontext.Value, resources []byte, err error) {
	if strictjson.Text(list) == "dynamic" {
		return nil, list, nil
	}
	resources = []byte{'['}
	seen := make(map[string]bool)
	var total int64
	for walk := strictjson.Into(list); walk.Next(); {
		uri, digest, raw := strictjson.Text(strictjson.MemberOf(walk.Value, "uri")), strictjson.Text(strictjson.MemberOf(walk.Value, "digest")), strictjson.MemberOf(walk.Value, "size")
		size, err := strconv.ParseInt(string(raw), 10, 32)
		if total += size; err != nil || size < 0 || total > skills.MaxSize || len(seen) == skills.MaxFiles {
			return nil, nil, fmt.Errorf("the resources have invalid sizes, more than %d files or more than %d bytes", skills.MaxFiles, skills.MaxSize)
		}
		if len(uri) > maxSkillURI || !strings.HasPrefix(uri, root) || !fs.ValidPath(uri[len(root):]) || seen[uri] || !validDigest.MatchString(digest) {
			return nil, nil, errors.New("the resources have a URI outside of the skill, a file twice, or an invalid digest")
		}
		resources = strictjson.Comma(resources)
		seen[uri] = true
		var file, definition strictjson.ObjectBuilder
		file.Add("uri", strictjson.AppendString(nil, m.uri(uri)))
		file.Add("digest", strictjson.AppendString(nil, digest))
		file.Add("size", raw)
		resources = append(resources, file.Close()...)
		definition.Add("uri", strictjson.AppendString(nil, uri))
		definition.Add("name", strictjson.AppendString(nil, path.Base(uri)))
		definition.Add("size", raw)
		files = append(files, definition.Close())
	}
	if !seen[skill] {
		return nil, nil, errors.New("the resources lack the " + skills.FileName)
	}
	return files, append(resources, ']'), nil
}
