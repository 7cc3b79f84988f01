// Package skills reads Agent Skills from a directory, as the MCP extension io.modelcontextprotocol/skills serves them.
//
// A skill is a folder with the file SKILL.md, which begins with YAML frontmatter (frontmatter.go). [Directory.Read]
// returns all skills below a directory with the content of their files (directory.go), or [FileErrors] with the lines. A
// server that keeps a [Set] always serves content that matches the digests in its entries, also while files are edited.
//
// Package library makes resources of the files, and package mcpadapter serves the methods of the extension.
package skills

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
)

const (
	// Extension identifies the extension in the capabilities of a server.
	Extension = "io.modelcontextprotocol/skills"

	// FileName is the name of the file that makes a folder a skill.
	FileName = "SKILL.md"

	// MaxFiles and MaxSize limit the files of one skill and their size in bytes. All hosts accept skills up to these limits
	// (Skills, Limits).
	MaxFiles = 512
	MaxSize  = 16 << 20

	// Scheme is the scheme of the URIs: skill://<path of the folder>/<path of the file>.
	Scheme = "skill://"
)

// A Skill is a folder with its files.
type Skill struct {
	URI         string // of its SKILL.md
	Name        string
	Description string
	Entry       jsontext.Value // as skills/list returns it (Skills, Skill Entries)
}

// A File is a file of one or more skills: those of a nested skill are files of the enclosing one too.
type File struct {
	URI      string
	Name     string // without folders
	Digest   string // sha256:<64 hexadecimal digits>
	Content  []byte
	Modified time.Time
	Skill    *Skill // whose SKILL.md it is; nil for all other files
}

// A Set has the skills of one directory. It is immutable.
type Set struct {
	Skills []*Skill `json:"-"` // sorted by folder
	Files  []*File  `json:"-"` // of all skills, each once, sorted by path
	Hash   [sha256.Size]byte
}

// newFile returns a file with its digest. name is the path below the directory.
func newFile(name string, content []byte, modified time.Time) *File {
	sum := sha256.Sum256(content)
	return &File{
		URI: uriOf(name), Name: path.Base(name), Content: content, Modified: modified,
		Digest: "sha256:" + hex.EncodeToString(sum[:]),
	}
}

// uriOf returns the URI for a path. All but unreserved characters are percent-encoded, so that the first segment is a
// valid authority (RFC 3986, section 3.2.2).
func uriOf(name string) string {
	const unreserved = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/"
	b := []byte(Scheme)
	for i := range len(name) {
		if c := name[i]; strings.IndexByte(unreserved, c) >= 0 {
			b = append(b, c)
		} else {
			b = fmt.Appendf(b, "%%%02X", c)
		}
	}
	return string(b)
}

// newSkill returns a skill with its entry. files are all its files.
func newSkill(f *frontmatter, own *File, files []*File) *Skill {
	s := &Skill{URI: own.URI, Name: f.name, Description: f.description}
	var entry strictjson.ObjectBuilder
	entry.Add("uri", strictjson.AppendString(nil, s.URI))
	entry.Add("frontmatter", f.json)
	list := []byte{'['}
	for _, file := range files {
		list = strictjson.AppendString(append(strictjson.Comma(list), `{"uri":`...), file.URI)
		list = append(append(append(list, `,"digest":"`...), file.Digest...), `","size":`...)
		list = append(strconv.AppendInt(list, int64(len(file.Content)), 10), '}')
	}
	entry.Add("resources", append(list, ']'))
	s.Entry = entry.Close()
	own.Skill = s
	return s
}

// A fileError is a reason why skills cannot be served.
type fileError struct {
	Path string // of the file or the folder
	Line int    // 0 if the problem is not on one line
	Err  error
}

func (p *fileError) Error() string {
	if p.Line > 0 {
		return fmt.Sprintf("%s:%d: %v", p.Path, p.Line, p.Err)
	}
	return fmt.Sprintf("%s: %v", p.Path, p.Err)
}

func (p *fileError) Unwrap() error { return p.Err }

// FileErrors are all problems of a directory, up to maxProblems.
type FileErrors []*fileError

// maxShown is the number of problems that an error message repeats.
const maxShown = 5

func (p FileErrors) Error() string {
	shown := make([]string, 0, maxShown+1)
	for _, problem := range p[:min(len(p), maxShown)] {
		shown = append(shown, problem.Error())
	}
	if more := len(p) - len(shown); more > 0 {
		shown = append(shown, fmt.Sprintf("%d more problems, which caddy mcp skills lint prints", more))
	}
	return strings.Join(shown, "; ")
}

// maxProblems limits the problems of one directory.
const maxProblems = 100

// add adds a problem. name is the path below the directory.
func (p *FileErrors) add(directory, name string, line int, err error) {
	if len(*p) < maxProblems {
		*p = append(*p, &fileError{filepath.Join(directory, filepath.FromSlash(name)), line, err})
	}
}
