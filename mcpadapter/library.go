package mcpadapter

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairwayhq/fairway/ocp"
)

// DefaultMaxFile is how many bytes a file may have that is read as a resource.
const DefaultMaxFile = 4 << 20

// LibraryOptions say what an endpoint offers beside its tools. The zero value
// offers what the document's x-mcp says and nothing else.
type LibraryOptions struct {
	Resources []Resource // files, each under a URI of its own
	Folders   []Folder
	Apps      []App
	Prompts   []Prompt

	// Operations choose GET operations that are resources as well as tools, or
	// templates if they take arguments. AllOperations chooses all.
	Operations    []ocp.Selector
	AllOperations bool

	// Locales are the languages that the API answers in, BCP 47 tags, of which
	// the first is the default. Without any, what clients ask for is not looked
	// at.
	Locales []string

	// UserAgentHeader and LocationHeader are the headers in which an API is told
	// what a client says of itself and of where its user is (_meta of
	// tools/call, openai/userAgent and openai/userLocation). What a client's
	// own request has in these headers is dropped. Default: none.
	UserAgentHeader, LocationHeader string

	// MaxFile is the largest file that is read, in bytes. Default:
	// DefaultMaxFile.
	MaxFile int64
}

// A Resource is a file that clients may read.
type Resource struct {
	URI         string
	File        string // path
	Name        string // default: the last part of the URI
	Title       string
	Description string
	MIMEType    string // default: by the file's name, or else its content
	Icons       []Icon
}

// A Library is what an endpoint offers beside its tools: resources and their
// templates, prompts, and pages for results; and what becomes of what clients say
// of their users. It is immutable; what it has of files is read when it is asked
// for.
type Library struct {
	options   LibraryOptions
	resources []*resource // of files and apps
	templates []*resource // of folders
	prompts   []*prompt
	apps      map[string]*App // by the name of the tool
	chosen    func(*ocp.Tool) bool
	hints     bool // something that clients say of their users is passed on
	hash      [sha256.Size]byte
}

// NewLibrary returns a Library. Its errors say which of the options is wrong.
func NewLibrary(options LibraryOptions) (*Library, error) {
	if options.MaxFile <= 0 {
		options.MaxFile = DefaultMaxFile
	}
	text, err := json.Marshal(options)
	if err != nil {
		return nil, err
	}
	l := &Library{options: options, hash: sha256.Sum256(text), apps: make(map[string]*App)}
	for _, add := range []func() error{l.addFiles, l.addApps, l.addFolders, l.addPrompts, l.checkUnique, l.checkHints} {
		if err := add(); err != nil {
			return nil, err
		}
	}
	chosen, err := ocp.SelectTools(options.Operations)
	if err != nil {
		return nil, err
	}
	l.chosen = func(t *ocp.Tool) bool { return options.AllOperations || chosen(t) }
	return l, nil
}

func (l *Library) addFiles() error {
	for _, r := range l.options.Resources {
		if err := checkURI(r.URI); err != nil {
			return fmt.Errorf("resource %s: %w", r.URI, err)
		}
		if r.File == "" {
			return fmt.Errorf("resource %s has no file", r.URI)
		}
		if err := checkIcons(r.Icons); err != nil {
			return fmt.Errorf("resource %s: %w", r.URI, err)
		}
		l.resources = append(l.resources, &resource{
			uri:         r.URI,
			name:        first(r.Name, lastPart(r.URI)),
			title:       r.Title,
			description: r.Description,
			mime:        first(r.MIMEType, mimeOf(r.URI, r.File)),
			icons:       r.Icons,
			size:        -1,
			file:        &file{path: r.File, limit: l.options.MaxFile},
		})
	}
	return nil
}

func (l *Library) addFolders() error {
	for _, f := range l.options.Folders {
		made, err := newFolder(f, l.options.MaxFile)
		if err != nil {
			return fmt.Errorf("folder %s: %w", f.Path, err)
		}
		l.templates = append(l.templates, made.template())
	}
	return nil
}

func (l *Library) addPrompts() error {
	for i := range l.options.Prompts {
		p := &l.options.Prompts[i]
		if err := p.check(); err != nil {
			return fmt.Errorf("prompt %q: %w", p.Name, err)
		}
		l.prompts = append(l.prompts, &prompt{Prompt: p})
	}
	return nil
}

// checkUnique refuses names and URIs that would hide each other.
func (l *Library) checkUnique() error {
	seen := make(map[string]bool)
	take := func(name string) error {
		if seen[name] {
			return fmt.Errorf("%s is given twice", name)
		}
		seen[name] = true
		return nil
	}
	for _, r := range l.resources {
		if err := take("resource " + r.uri); err != nil {
			return err
		}
	}
	for _, r := range l.templates {
		if err := take("folder " + r.template.text); err != nil {
			return err
		}
	}
	for _, p := range l.prompts {
		if err := take("prompt " + p.Name); err != nil {
			return err
		}
	}
	return nil
}

// checkURI refuses what is no absolute URI.
func checkURI(uri string) error {
	t, err := parseTemplate(uri)
	if err != nil {
		return err
	}
	if !t.isURI() {
		return errors.New("a file has one URI, without {variables}")
	}
	return nil
}

// lastPart is what comes after the last slash that something comes after, or else
// the scheme.
func lastPart(uri string) string {
	uri = strings.TrimRight(uri, "/:")
	name := uri[strings.LastIndexAny(uri, "/:")+1:]
	if plain, ok := unescape(name); ok && plain != "" {
		return plain
	}
	return uri
}

// SetLibrary puts the Library in place of the one before, nil for none. Clients
// that listen are told with Notify.
func (s *Server) SetLibrary(l *Library) {
	if l == nil {
		l = new(Library)
	}
	s.library.Store(l)
}

// A shelf is the resources, templates and prompts that one catalog offers: those
// of the Library, then those of the document.
type shelf struct {
	resources []*resource
	templates []*resource
	prompts   []*prompt
	warnings  []ocp.Warning
	routes    *ocp.Routes // nil if no operation is a resource
	pages     bool        // some are pages of apps

	byURI      map[string]*resource
	byTemplate map[string]*resource // by its text
	byName     map[string]*prompt
	byTool     map[*ocp.Tool]*resource
}

// newShelf arranges what the Library and the tools have. What a token does not
// allow can be found, to be refused, and is not listed.
func newShelf(l *Library, tools *ocp.Toolset, access *Access) *shelf {
	s := &shelf{
		byURI:      make(map[string]*resource),
		byTemplate: make(map[string]*resource),
		byName:     make(map[string]*prompt),
		byTool:     make(map[*ocp.Tool]*resource),
	}
	for _, r := range l.resources {
		s.addResource(r)
	}
	for _, r := range l.templates {
		s.addTemplate(r)
	}
	for _, p := range l.prompts {
		s.addPrompt(p)
	}
	for _, tool := range tools.Tools() {
		s.addOperation(l, tools, tool, access.missing(tool, tools.SecuritySchemes) != nil)
	}
	if len(s.byTool) > 0 {
		s.routes = ocp.NewRoutes(tools)
	}
	return s
}

// warn notes something in the document that cannot be used.
func (s *shelf) warn(tool *ocp.Tool, format string, args ...any) {
	s.warnings = append(s.warnings, ocp.Warning{
		Operation: tool.Method + " " + tool.Path,
		Reason:    fmt.Sprintf(format, args...),
	})
}

func (s *shelf) addResource(r *resource) bool {
	if _, taken := s.byURI[r.uri]; taken {
		return false
	}
	s.byURI[r.uri] = r
	s.pages = s.pages || r.mime == appType
	s.resources = append(s.resources, r)
	return true
}

func (s *shelf) addTemplate(r *resource) bool {
	if _, taken := s.byTemplate[r.template.text]; taken {
		return false
	}
	s.byTemplate[r.template.text] = r
	s.pages = s.pages || r.mime == appType
	s.templates = append(s.templates, r)
	return true
}

func (s *shelf) addPrompt(p *prompt) bool {
	if _, taken := s.byName[p.Name]; taken {
		return false
	}
	s.byName[p.Name] = p
	s.prompts = append(s.prompts, p)
	return true
}

// find returns what a URI means: the resource that has it, or else of the templates
// that it fits the one that leaves least of it open.
func (s *shelf) find(uri string) (target, bool) {
	if r := s.byURI[uri]; r != nil {
		return target{resource: r, uri: uri}, true
	}
	var found target
	for _, r := range s.templates {
		if found.resource != nil && r.template.literal <= found.template.literal {
			continue
		}
		if bindings, ok := r.template.match(uri); ok {
			found = target{resource: r, uri: uri, bindings: bindings}
		}
	}
	return found, found.resource != nil
}

// filesInFolders returns the files that there are now, each under the folder in
// which its URI is looked for.
func (s *shelf) filesInFolders(now time.Time) (files []*resource) {
	for _, r := range s.templates {
		if r.folder == nil {
			continue
		}
		for _, f := range r.folder.list(now) {
			if s.byURI[f.uri] == nil && s.folderOf(f.uri) == r.folder {
				files = append(files, f)
			}
		}
	}
	return files
}

// folderOf returns the folder with the longest prefix that the URI begins with.
func (s *shelf) folderOf(uri string) (found *folder) {
	for _, r := range s.templates {
		if f := r.folder; f != nil && strings.HasPrefix(uri, f.prefix) && (found == nil || len(f.prefix) > len(found.prefix)) {
			found = f
		}
	}
	return found
}

// Warnings returns what the tools' document and the Library say that cannot be
// used as it stands.
func (s *Server) Warnings(tools *ocp.Toolset) []ocp.Warning {
	c := s.newCatalog(tools, nil)
	warnings := append(c.extensionWarnings(), c.shelf().warnings...)
	warnings = append(warnings, c.library.selectorWarnings(tools)...)
	for _, app := range c.library.options.Apps {
		for _, name := range app.Tools {
			if _, ok := tools.Tool(name); !ok {
				warnings = append(warnings, app.toolWarning(name, tools))
			}
		}
	}
	return warnings
}

// Changes returns what a client has to be told of when the tools of one document
// take the place of those before.
func (s *Server) Changes(before, after *ocp.Toolset) (c Change) {
	if before == after {
		return 0
	}
	was, is := s.newCatalog(before, nil), s.newCatalog(after, nil)
	for _, list := range []struct {
		change Change
		text   func(*catalog) string
	}{
		{ToolsChanged, func(c *catalog) string { return fmt.Sprintf("%s", c.encode(v20260728)) }},
		{PromptsChanged, func(c *catalog) string { return string(c.shelf().appendPrompts(nil)) }},
		{ResourcesChanged, func(c *catalog) string { return string(c.shelf().appendResources(nil)) }},
	} {
		if list.text(was) != list.text(is) {
			c |= list.change
		}
	}
	return c
}

// appendPrompts and appendResources append the lists as the newest revision has
// them, but for files in folders, which come and go.
func (s *shelf) appendPrompts(dst []byte) []byte {
	for _, p := range s.prompts {
		dst = p.appendTo(dst, v20260728)
	}
	return dst
}

func (s *shelf) appendResources(dst []byte) []byte {
	for _, r := range slices.Concat(s.resources, s.templates) {
		dst = r.appendTo(dst, v20260728)
	}
	return dst
}

// FolderState returns what tells one state of the Library's folders from another:
// of which files there are, not of what is in them. Looking again within a second
// gives the same.
func (l *Library) FolderState() string {
	sum := sha256.New()
	for _, r := range l.templates {
		for _, f := range r.folder.list(time.Now()) {
			sum.Write([]byte(f.uri + "\n"))
		}
	}
	return string(sum.Sum(nil))
}

// completes reports whether servers say that they propose values for arguments.
func (v revision) completes() bool { return v >= v20250326 }

// extends reports whether servers say which extensions they know.
func (v revision) extends() bool { return v >= v20260728 }
