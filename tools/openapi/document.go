// Package openapi reads OpenAPI documents in JSON and YAML: 3.0, 3.1 and Swagger 2.0.
//
// Package source fetches the bytes of a document. Data then passes through three steps:
//
//  1. [Parse] turns the bytes into a tree of Nodes that keeps the document's order.
//  2. [Read] does so too, and turns the tree into a [Document].
//  3. [Document.Operations] returns the operations. An [Operation] has the same form
//     for every OpenAPI version: parameters with their style and its defaults, bodies
//     by media type, and responses.
//
// Schemas are not converted. They are returned as Places, and the caller follows
// their $refs.
//
// The document is not validated as a whole. A fault in one operation becomes an error
// or a warning of that operation and does not affect the others. The command
// `caddy tools --lint` validates a document with kin-openapi.
package openapi

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/fairwayhq/fairway/internal/strictjson"
)

// A Document is one OpenAPI document. It is safe for concurrent use.
type Document struct {
	Title       string   // info.title
	Description string   // info.description
	Version     string   // info.version
	OpenAPI     string   // the OpenAPI version of the document: "3.0.3", "2.0"
	Warnings    []string // warnings about the document as a whole

	root     Place
	location string
	basePath string                // from the first server, or from Swagger 2.0's basePath
	security []map[string][]string // the default for operations
}

// Options configure how a document is read. The zero value reads it as a single file of
// unknown origin, with the default limits.
type Options struct {
	Location string // path or URL of the document, for messages and relative $refs
	Refs     string // directory whose files $refs may refer to; "" allows no other files
	Limits   Limits // limits on each file

	// Hidden keeps characters that are not shown in the texts of a JSON document, because something else looks for them. Other
	// documents are read without them.
	Hidden bool
}

// Read reads a document. It returns an error only if data is not an OpenAPI document.
// Other faults are warnings, or belong to an Operation. The Document refers to parts of
// data, so data must not be changed afterwards.
func Read(data []byte, options Options) (*Document, error) {
	document, err := read(data, options)
	if err != nil && options.Location != "" {
		return nil, fmt.Errorf("%s: %w", options.Location, err)
	}
	return document, err
}

func read(data []byte, options Options) (*Document, error) {
	root, err := parse(data, options.Limits, options.Hidden)
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
	name := cmp.Or(options.Location, "the document")
	d.root = Place{root, fs.file(name, dir, root, version, data)}
	d.describe()
	d.readDefaults()
	return d, nil
}

// newFiles returns the files of a document, of which only the first has been read, and
// the directory that this file's relative $refs start from.
func newFiles(data []byte, options Options) (fs *files, dir string, err error) {
	fs = &files{
		limits: options.Limits.orDefaults(),
		opened: make(map[string]*opened),
		hashes: []string{fmt.Sprintf("%x", sha256.Sum256(data))},
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

// isPath reports whether location is a file path and not a URL.
func isPath(location string) bool {
	if location == "" {
		return false
	}
	u, err := url.Parse(location)
	return err != nil || len(u.Scheme) < 2
}

// recognise returns the OpenAPI version. If there is none, the error says what was found
// instead.
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

// versionOf returns the version that a document names, or 0 if it is not supported, and
// the text of the version.
func versionOf(root *Node) (Version, string) {
	named := cmp.Or(root.Get("openapi"), root.Get("swagger"))
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

// strange returns an error that says what the tree is, if it is not an OpenAPI document.
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

// memberNames lists the members of an object, as many as fit into a message.
func memberNames(n *Node) string {
	const most = 5
	members := n.Members()[:min(most, len(n.Members()))]
	names := make([]string, 0, len(members))
	for _, m := range members {
		names = append(names, string(strictjson.AppendString(nil, m.Name)))
	}
	if len(names) == 0 {
		return ""
	}
	return ", its members begin with " + strings.Join(names, ", ")
}

// Location returns Options.Location.
func (d *Document) Location() string {
	return d.location
}

// Root returns the whole document.
func (d *Document) Root() Place {
	return d.root
}

// Files returns the paths of all files that were read or looked up so far: the document,
// if it is a file, and the targets of $refs. $refs are followed on demand, so the list
// can grow.
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

// describe reads the title, description and version of the document.
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
		d.warn("the document has webhooks and no paths: there is nothing to call, but agent_events can receive them")
	default:
		d.warn("the document has no paths")
	}
}

// plainText returns the text of a string, or the literal of a number or boolean. In
// YAML, a version or title easily becomes a number or boolean by mistake.
func plainText(n *Node) string {
	switch n.Kind() {
	case '"':
		return n.Text()
	case '0', 't', 'f':
		return string(n.Raw())
	}
	return ""
}

// readDefaults reads the defaults for operations: base path and security.
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
