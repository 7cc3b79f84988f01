// Package openapi reads OpenAPI documents: 3.0, 3.1 and Swagger 2.0, in JSON
// and YAML.
//
// Bytes become a tree of Nodes that keeps the document's order (Parse), the
// tree becomes a Document (Read), and the Document gives its Operations one by
// one. An Operation is the same for every version: parameters with their style
// settled, bodies by media type, answers. Schemas stay where they are, as
// Places, and whoever wants one follows its $refs.
//
// Nothing is validated as a whole. What is wrong in one operation is that
// operation's error or warning and never costs another.
package openapi

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
)

// A Document is one OpenAPI document. It is safe for concurrent use.
type Document struct {
	Title       string   // info.title
	Description string   // info.description
	Version     string   // info.version
	OpenAPI     string   // the version of OpenAPI it is written in: "3.0.3", "2.0"
	Warnings    []string // what concerns the document and no single operation

	root     Place
	location string
	basePath string                // of the first server, or of Swagger 2.0
	security []map[string][]string // for operations that have none of their own
}

// Options says how a document is read. The zero value reads it as one file of
// unknown origin, with the default limits.
type Options struct {
	Location string // path or URL of the document, for messages and relative $refs
	Refs     string // directory below which $refs may name other files; "": they may not
	Limits   Limits // on each file
}

// Read reads a document. It fails if data is not an OpenAPI document at all;
// all lesser faults are warnings, or belong to an Operation. It keeps parts of
// data, which must not be changed afterwards.
func Read(data []byte, options Options) (*Document, error) {
	document, err := read(data, options)
	if err != nil && options.Location != "" {
		return nil, fmt.Errorf("%s: %w", options.Location, err)
	}
	return document, err
}

func read(data []byte, options Options) (*Document, error) {
	root, err := Parse(data, options.Limits)
	if err != nil {
		return nil, err
	}
	d := &Document{location: options.Location}
	version, err := d.recognise(root)
	if err != nil {
		return nil, err
	}
	fs, dir, err := newFiles(data, options)
	if err != nil {
		return nil, err
	}
	name := options.Location
	if name == "" {
		name = "the document"
	}
	d.root = Place{root, fs.file(name, dir, root, version)}
	d.describe()
	d.readDefaults()
	return d, nil
}

// newFiles returns the files of a document of which only the first was read,
// and the directory at which that one's relative $refs begin.
func newFiles(data []byte, options Options) (fs *files, dir string, err error) {
	sum := sha256.Sum256(data)
	fs = &files{
		limits: options.Limits.orDefaults(),
		opened: make(map[string]*opened),
		hashes: []string{hex.EncodeToString(sum[:])},
		size:   len(data),
	}
	local := isPath(options.Location)
	if local {
		fs.paths = []string{options.Location}
	}
	if options.Refs == "" {
		return fs, "", nil
	}
	if fs.refs, err = filepath.Abs(options.Refs); err != nil {
		return nil, "", err
	}
	if !local {
		return fs, fs.refs, nil
	}
	path, err := filepath.Abs(options.Location)
	return fs, filepath.Dir(path), err
}

// isPath reports whether location is a file's path and no URL.
func isPath(location string) bool {
	if location == "" {
		return false
	}
	u, err := url.Parse(location)
	return err != nil || len(u.Scheme) < 2
}

// recognise finds the version of OpenAPI, or says what stands there instead.
func (d *Document) recognise(root *Node) (Version, error) {
	version, text := versionOf(root)
	d.OpenAPI = text
	switch {
	case version == 0:
		return 0, strange(root, text)
	case strings.HasPrefix(text, "3.") && version == OpenAPI31 && !strings.HasPrefix(text, "3.1"):
		d.warn("OpenAPI %s is read as 3.1", text)
	}
	if root.Get("openapi").Kind() == '0' || root.Get("swagger").Kind() == '0' {
		d.warn("the OpenAPI version is a number, %s, and should be text", text)
	}
	return version, nil
}

// versionOf returns the version that a document names, 0 if it is none that is
// known here, and its text.
func versionOf(root *Node) (Version, string) {
	named := root.Get("openapi")
	if named == nil {
		named = root.Get("swagger")
	}
	text := named.Text()
	if named.Kind() == '0' {
		text = string(named.Raw())
	}
	text = strings.TrimSpace(text)
	switch major, rest, _ := strings.Cut(text, "."); {
	case major == "2" && (rest == "" || rest[0] == '0'):
		return Swagger20, text
	case major == "3" && (rest == "" || rest[0] == '0'):
		return OpenAPI30, text
	case major == "3" && (rest[0] >= '1' && rest[0] <= '9'):
		return OpenAPI31, text
	}
	return 0, text
}

// strange says what a tree is that is no OpenAPI document.
func strange(root *Node, version string) error {
	switch {
	case version != "":
		return fmt.Errorf("OpenAPI version %q is not supported: 3.0, 3.1 and Swagger 2.0 are", version)
	case root.Kind() == '[':
		return errors.New("not an OpenAPI document but a list: it must be an object with the member openapi")
	case root.Kind() != '{':
		return fmt.Errorf("not an OpenAPI document but a single value, %q", beginning(root.Raw()))
	case root.Get("openapi") != nil || root.Get("swagger") != nil:
		return errors.New("the member openapi or swagger must be text, such as \"3.1.0\"")
	case root.Get("swaggerVersion") != nil:
		return errors.New("documents in Swagger 1 are not supported: convert it to OpenAPI 3")
	case root.Get("asyncapi") != nil:
		return errors.New("an AsyncAPI document, not an OpenAPI document")
	}
	return fmt.Errorf("not an OpenAPI document: it has no member openapi or swagger%s", memberNames(root))
}

// memberNames says which members an object has, as far as fits a message.
func memberNames(n *Node) string {
	const most = 5
	members := n.Members()[:min(most, len(n.Members()))]
	names := make([]string, 0, len(members))
	for _, m := range members {
		names = append(names, string(appendQuoted(nil, m.Name)))
	}
	if len(names) == 0 {
		return ""
	}
	return ", its members begin with " + strings.Join(names, ", ")
}

// Location returns where the document came from, as Options has it.
func (d *Document) Location() string {
	return d.location
}

// Root returns the whole document.
func (d *Document) Root() Place {
	return d.root
}

// Files returns the path of every file that was read or looked for so far: the
// document, unless it came from elsewhere, and those that $refs named. $refs
// are followed as they are needed, so the list may grow.
func (d *Document) Files() []string {
	return d.root.File.files.list()
}

// Hash identifies the content of all files read so far.
func (d *Document) Hash() string {
	return d.root.File.files.hash()
}

func (d *Document) warn(format string, arguments ...any) {
	d.Warnings = append(d.Warnings, fmt.Sprintf(format, arguments...))
}

// describe reads what the document says about itself.
func (d *Document) describe() {
	info, err := d.root.At("info").Resolve()
	if err != nil || info.Kind() != '{' {
		d.warn("the document has no info")
	}
	d.Title = plainText(info.Get("title"))
	d.Description = plainText(info.Get("description"))
	d.Version = plainText(info.Get("version"))
	switch paths := d.root.Get("paths"); {
	case paths.Kind() == '{':
	case paths != nil:
		d.warn("paths is not an object: the document has no operations")
	case d.root.Get("webhooks") != nil:
		d.warn("the document has webhooks and no paths: there is nothing to call")
	default:
		d.warn("the document has no paths")
	}
}

// plainText returns text, and a number or boolean as it is written, since in
// YAML a version or title easily becomes one by mistake.
func plainText(n *Node) string {
	switch n.Kind() {
	case '"':
		return n.Text()
	case '0', 't', 'f':
		return string(n.Raw())
	}
	return ""
}

// readDefaults reads what applies to operations that do not say otherwise.
func (d *Document) readDefaults() {
	var err error
	if d.root.File.Version == Swagger20 {
		d.basePath, err = d.swaggerBasePath()
	} else {
		d.basePath, err = d.firstBasePath(d.root.At("servers"))
	}
	if err != nil {
		d.warn("%v", err)
	}
	security := d.root.Get("security")
	if security.Kind() == 0 || security.Kind() == 'n' {
		return
	}
	alternatives, ok := requirements(security)
	if !ok {
		d.warn("security must be a list of objects and is %s", security.Kind())
	}
	d.security = alternatives
}
