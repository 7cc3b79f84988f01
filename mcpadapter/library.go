package mcpadapter

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairwayhq/fairway/ocp/match"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// DefaultMaxFile is the default maximum size of a file resource, in bytes.
const DefaultMaxFile = 4 << 20

// LibraryOptions configure what an endpoint offers besides tools. The zero value offers only what
// the document's x-mcp declares.
type LibraryOptions struct {
	Resources []Resource // files, each with a URI of its own
	Folders   []Folder
	Apps      []App
	Prompts   []Prompt

	// Operations select GET operations that are also offered as resources, or as resource templates
	// if they have arguments. AllOperations selects all GET operations.
	Operations    []tool.Selector
	AllOperations bool

	// Locales are the languages that the API supports, as BCP 47 tags; the first is the default. If
	// empty, the locale that clients send is ignored.
	Locales []string

	// UserAgentHeader and LocationHeader name request headers that pass on what a client reports
	// about itself and about its user's location (openai/userAgent and openai/userLocation in _meta
	// of tools/call). Headers of these names in the client's HTTP request are dropped. Default:
	// none.
	UserAgentHeader, LocationHeader string

	// MaxFile is the maximum size of a file, in bytes. Default: DefaultMaxFile.
	MaxFile int64
}

// A Resource is a file that clients may read with resources/read (MCP, Resources).
type Resource struct {
	URI         string
	File        string // path of the file
	Name        string // default: the last segment of the URI
	Title       string
	Description string
	MIMEType    string // default: derived from the file's name, or else from its content
	Icons       []Icon
}

// A Library holds what an endpoint offers besides tools: resources, resource templates, prompts, and
// pages of apps. It also defines how client hints (locale, user agent, location) reach the API. A
// Library is immutable. It reads files when clients request them.
type Library struct {
	options   LibraryOptions
	resources []*resource // from files and apps
	templates []*resource // from folders
	prompts   []*prompt
	apps      map[string]*App // by tool name
	chosen    func(*tool.Tool) bool
	hints     bool // whether any client hint is passed to the API
	hash      [sha256.Size]byte
}

// NewLibrary returns a Library. An error names the invalid option.
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
	chosen, err := tool.SelectTools(options.Operations)
	if err != nil {
		return nil, err
	}
	l.chosen = func(t *tool.Tool) bool { return options.AllOperations || chosen(t) }
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

// checkUnique returns an error if two resources, folders or prompts have the same URI or name.
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

// checkURI returns an error if uri is not an absolute URI.
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

// lastPart returns the last non-empty path segment of a URI, or else the scheme.
func lastPart(uri string) string {
	uri = strings.TrimRight(uri, "/:")
	name := uri[strings.LastIndexAny(uri, "/:")+1:]
	if plain, ok := unescape(name); ok && plain != "" {
		return plain
	}
	return uri
}

// SetLibrary replaces the Library; nil removes it. Call Notify afterwards to inform listening
// clients.
func (s *Server) SetLibrary(l *Library) {
	if l == nil {
		l = new(Library)
	}
	s.library.Store(l)
}

// A shelf holds the resources, templates and prompts of one catalog: first those of the Library,
// then those of the document.
type shelf struct {
	resources []*resource
	templates []*resource
	prompts   []*prompt
	warnings  []tool.Warning
	routes    *match.Routes // nil if no operation is a resource
	pages     bool          // whether any resource is a page of an app

	byURI      map[string]*resource
	byTemplate map[string]*resource // by the text of the template
	byName     map[string]*prompt
	byTool     map[*tool.Tool]*resource
}

// newShelf collects the resources, templates and prompts of the Library and the tools. Entries that
// the access token does not allow are not listed; they can still be looked up, so that a request for
// them is rejected with the missing scopes.
func newShelf(l *Library, tools *tool.Toolset, access *Access) *shelf {
	s := &shelf{
		byURI:      make(map[string]*resource),
		byTemplate: make(map[string]*resource),
		byName:     make(map[string]*prompt),
		byTool:     make(map[*tool.Tool]*resource),
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
		s.addOperation(l, tools, tool, access.Missing(tool, tools.SecuritySchemes) != nil)
	}
	if len(s.byTool) > 0 {
		s.routes = match.NewRoutes(tools)
	}
	return s
}

// warn adds a warning about a part of the document that cannot be used.
func (s *shelf) warn(t *tool.Tool, format string, args ...any) {
	s.warnings = append(s.warnings, tool.Warning{
		Operation: t.Method + " " + t.Path,
		Reason:    fmt.Sprintf(format, args...),
	})
}

// addResource adds a resource. It returns false if the URI is taken: resources of the Library
// take precedence over those of the document.
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

// find returns the resource for a URI: the resource with exactly this URI, or else the matching
// template with the most literal characters.
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

// filesInFolders returns the files that currently exist in the folders. A file that lies in several
// folders is returned once, for the folder that find would choose.
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

// folderOf returns the folder with the longest prefix of the URI.
func (s *shelf) folderOf(uri string) (found *folder) {
	for _, r := range s.templates {
		if f := r.folder; f != nil && strings.HasPrefix(uri, f.prefix) && (found == nil || len(f.prefix) > len(found.prefix)) {
			found = f
		}
	}
	return found
}

// Warnings returns warnings about parts of the document and of the Library that cannot be used as
// they are.
func (s *Server) Warnings(tools *tool.Toolset) []tool.Warning {
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

// Changes returns which lists differ between two Toolsets, and so which notifications clients need
// when after replaces before.
func (s *Server) Changes(before, after *tool.Toolset) (c Change) {
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

// appendPrompts and appendResources append the lists in the encoding of the newest revision. Files
// in folders are left out, because they change without a reload.
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

// FolderState returns a value that changes when files are added to or removed from the Library's
// folders. The content of the files does not matter. Directory listings are cached for a second.
func (l *Library) FolderState() string {
	sum := sha256.New()
	for _, r := range l.templates {
		for _, f := range r.folder.list(time.Now()) {
			sum.Write([]byte(f.uri + "\n"))
		}
	}
	return string(sum.Sum(nil))
}

// completes reports whether servers declare the capability completions.
func (v revision) completes() bool { return v >= v20250326 }

// extends reports whether servers declare the extensions that they support.
func (v revision) extends() bool { return v >= v20260728 }
