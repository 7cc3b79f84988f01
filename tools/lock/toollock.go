// Package lock pins the tools that an operator has approved, so that a document that changes
// cannot change them silently.
//
// [Of] describes the tools of a toolset: name, operation, title, description, hints, the schemas of
// arguments and responses, and how the arguments become a request, after shaping. [Lock.AppendYAML]
// writes them as a lock file, one block for each tool in the order of their names, so that a diff of the
// file shows the changed tools. [Read] reads it, and [Lock.Compare] compares it with the current tools.
//
// A tool is approved if its digest equals the digest in the lock. The other fields of the lock are for
// describing changes. Of arguments, the lock has only digests, since schemas are long.
//
// Of the tools of an MCP server, the lock pins all that the server says of them, and the title and the instructions of
// the server (foreign.go).
package lock

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/watch"
	"github.com/fairwayhq/fairway/internal/yamltree"
	"github.com/fairwayhq/fairway/tools"
)

const (
	// MaxSize is the largest lock file, in bytes. That of GitHub's 1,223 tools has 1 MB.
	MaxSize = 32 << 20

	version  = 1   // of the file format
	maxDepth = 100 // levels of a lock file; version 1 has four, and other files get an error of their own
	shortSum = 6   // bytes of the digest of a part of a tool, which is only for describing changes
	approve  = "approve the tools again with caddy tools lock"
	header   = "# The approved tools of a toolset. Written by caddy tools lock; check it with caddy tools diff.\n"
	indent   = 2
)

// A Lock describes tools.
type Lock struct {
	document     string // info.title of the document
	foreign      bool   // describes the tools of an MCP server; a lock that was read from a file does not know it
	instructions string // of the MCP server
	tools        map[string]*entry
}

// An entry describes one tool.
type entry struct {
	Name        string            `yaml:"name"`
	Operation   string            `yaml:"operation"` // method, and path with the base path
	Title       string            `yaml:"title,omitempty"`
	Description string            `yaml:"description"`
	Select      string            `yaml:"select,omitempty"`
	Hints       map[string]bool   `yaml:"hints,omitempty"`
	Arguments   map[string]string `yaml:"arguments,omitempty"`  // short digests by name
	Filled      map[string]string `yaml:"filled,omitempty"`     // short digests of the arguments that the gateway fills, by location and name
	Response    string            `yaml:"response,omitempty"`   // digest of the schema of responses; empty if it is not known
	Definition  map[string]string `yaml:"definition,omitempty"` // what an MCP server says of the tool: JSON by member, shortened
	Digest      string            `yaml:"digest"`               // of the other fields except Response, the whole schema, and how arguments become a request
}

// file is the form of a lock file.
type file struct {
	Version      int      `yaml:"version"`
	Document     string   `yaml:"document"`
	Instructions string   `yaml:"instructions,omitempty"`
	Tools        []*entry `yaml:"tools"`
}

// Of describes the current tools of a toolset, without built-in tools.
func Of(set *tools.Toolset) *Lock {
	l := &Lock{document: set.Title, foreign: set.Foreign, tools: make(map[string]*entry, len(set.Tools()))}
	if l.foreign {
		l.instructions = set.Description
	}
	for _, t := range set.Tools() {
		l.tools[t.Name] = describe(t, set.ResponseSchemas)
	}
	return l
}

// Len returns the number of tools.
func (l *Lock) Len() int { return len(l.tools) }

// describe returns the entry of a tool. Responses says whether the tool has the schema of its responses,
// if the document declares one.
func describe(t *tools.Tool, responses bool) *entry {
	e := &entry{
		Name:        t.Name,
		Operation:   t.Plan.Method + " " + t.Plan.Base + t.Plan.Path,
		Title:       t.Definition.Title,
		Description: t.Definition.Description,
		Hints:       t.Definition.Annotations,
		Arguments:   make(map[string]string, len(t.Definition.Arguments)),
	}
	if query := t.Output.Select; query != nil {
		e.Select = query.String()
	}
	request := t.RequestParts()
	for i := range t.Definition.Arguments {
		a := &t.Definition.Arguments[i]
		e.Arguments[a.Name] = short(strconv.FormatBool(a.Required), a.Description, string(canonical(a.Schema)), request.Arguments[a.Name])
	}
	for name, place := range request.Filled {
		if e.Filled == nil {
			e.Filled = make(map[string]string, len(request.Filled))
		}
		e.Filled[place] = short(request.Arguments[name])
	}
	if responses {
		e.Response = "sha256:" + digest(string(canonical(t.Output.Schema)))
	}
	parts := make([]string, 0, 16+2*len(request.Arguments))
	parts = append(parts, e.Name, e.Operation, e.Title, e.Description, e.Select, string(canonical(t.Definition.InputSchema)), request.Message, string(canonical(t.MCP)), t.OCP.Describe())
	for _, name := range slices.Sorted(maps.Keys(request.Arguments)) {
		parts = append(parts, name, request.Arguments[name])
	}
	for _, hint := range slices.Sorted(maps.Keys(e.Hints)) {
		parts = append(parts, hint, strconv.FormatBool(e.Hints[hint]))
	}
	if t.Foreign != nil {
		e.Definition = describeDefinition(t.Foreign, e)
		parts = append(parts, "definition", string(canonical(t.Foreign.Definition)))
	}
	e.Digest = "sha256:" + digest(parts...)
	return e
}

// canonical returns a JSON text in a form that does not depend on the order of members, which some
// servers change with each response.
func canonical(text jsontext.Value) jsontext.Value {
	value := text.Clone()
	if value.Canonicalize(jsontext.AllowDuplicateNames(true), jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)) != nil {
		return text
	}
	return value
}

// short returns the short digest of the parts, as in an entry.
func short(parts ...string) string { return digest(parts...)[:2*shortSum] }

// same reports whether two entries describe the same tool. Responses are compared if both are known.
func (e *entry) same(other *entry) bool {
	return e.Digest == other.Digest && (e.Response == other.Response || e.Response == "" || other.Response == "")
}

// Digest identifies changes between a lock and these tools: it differs if one of the changed tools changes again. It is ""
// without changes.
func (l *Lock) Digest(changes []Change) string {
	if len(changes) == 0 {
		return ""
	}
	var parts []string
	for i := range changes {
		parts = append(parts, string(changes[i].Kind), changes[i].Tool)
		if changes[i].Tool == Instructions {
			parts = append(parts, l.document, l.instructions)
		}
		if now := l.tools[changes[i].Tool]; now != nil {
			parts = append(parts, now.Digest, now.Response)
		}
	}
	return digest(parts...)
}

// Approve returns the lock with the current tools in place of those that the names select. A name that current does not
// have is removed.
func (l *Lock) Approve(current *Lock, names []string) *Lock {
	approved := &Lock{document: current.document, foreign: current.foreign, tools: maps.Clone(l.tools)}
	if current.foreign {
		approved.document, approved.instructions = l.document, l.instructions
	}
	for _, name := range names {
		if name == Instructions {
			approved.document, approved.instructions = current.document, current.instructions
		} else if now := current.tools[name]; now != nil {
			approved.tools[name] = now
		} else {
			delete(approved.tools, name)
		}
	}
	return approved
}

// digest returns the SHA-256 of the parts in hexadecimal.
func digest(parts ...string) string {
	return fmt.Sprintf("%x", sha256.Sum256(strictjson.AppendStrings(nil, parts)))
}

// AppendYAML appends the lock as a lock file.
func (l *Lock) AppendYAML(dst []byte) ([]byte, error) {
	f := file{Version: version, Document: l.document, Instructions: l.instructions, Tools: slices.SortedFunc(maps.Values(l.tools), func(a, b *entry) int { return cmp.Compare(a.Name, b.Name) })}
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(indent)
	if err := encoder.Encode(&f); err != nil {
		return nil, err
	}
	if text.Len()+len(header) > MaxSize {
		return nil, fmt.Errorf("the lock file would have more than %d bytes: choose fewer tools with include and exclude", MaxSize)
	}
	return append(append(dst, header...), text.Bytes()...), nil
}

// WriteFile writes the lock file, so that a reader sees the old or the new content, not a part of it. An
// existing file keeps its permissions, and a symbolic link stays one.
func (l *Lock) WriteFile(path string) error {
	content, err := l.AppendYAML(nil)
	if err != nil {
		return err
	}
	mode := os.FileMode(0o644)
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	if stat, err := os.Stat(path); err == nil {
		mode = stat.Mode().Perm()
	}
	temporary, err := os.CreateTemp(filepath.Dir(path), temporaryName)
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name()) // fails if the file was renamed
	_, err = temporary.Write(content)
	err = errors.Join(err, temporary.Chmod(mode), temporary.Close())
	if err != nil {
		return err
	}
	return os.Rename(temporary.Name(), path)
}

// temporaryName is the pattern of the names of files that become lock files.
const temporaryName = ".lock-*"

// CheckWritable returns an error if WriteFile cannot write the lock file. It tries to create a file beside it.
func CheckWritable(path string) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	temporary, err := os.CreateTemp(filepath.Dir(path), temporaryName)
	if err != nil {
		return err
	}
	return errors.Join(temporary.Close(), os.Remove(temporary.Name()))
}

// ErrMissing reports that there is no lock file.
var ErrMissing = errors.New("the lock file does not exist")

// ReadFile reads a lock file. If there is none, the error wraps ErrMissing.
func ReadFile(path string) (*Lock, error) {
	data, _, _, err := watch.File{Path: path, MaxSize: MaxSize}.Read(nil)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s: %w", path, ErrMissing)
	case err != nil:
		return nil, fmt.Errorf("reading the lock file: %w", err)
	}
	return Read(data, path)
}

// Read reads a lock file. The name appears in messages.
func Read(data []byte, name string) (*Lock, error) {
	root, err := yamltree.Parse(data, yamltree.Options{MaxDepth: maxDepth})
	if err != nil {
		return nil, fmt.Errorf("lock file %s: %w: %s", name, err, approve)
	}
	number := yamltree.Member(root, "version")
	if number == nil {
		return nil, fmt.Errorf("lock file %s has no version, so it is not a lock file: %s", name, approve)
	}
	if number.Value != strconv.Itoa(version) {
		return nil, fmt.Errorf("lock file %s: version %.20q is not supported, only %d: %s", name, number.Value, version, approve)
	}
	var f file
	if err := root.Decode(&f); err != nil {
		reason := strings.ReplaceAll(strings.TrimPrefix(err.Error(), "yaml: "), "\n", " ")
		return nil, fmt.Errorf("lock file %s: %s: %s", name, reason, approve)
	}
	l := &Lock{document: f.Document, instructions: f.Instructions, tools: make(map[string]*entry, len(f.Tools))}
	for i, e := range f.Tools {
		if e == nil || e.Name == "" || e.Digest == "" {
			return nil, fmt.Errorf("lock file %s: tool %d has no name or no digest: %s", name, i+1, approve)
		}
		if l.tools[e.Name] != nil {
			return nil, fmt.Errorf("lock file %s: tool %.100s occurs twice: %s", name, e.Name, approve)
		}
		l.tools[e.Name] = e
	}
	return l, nil
}
