// Package library holds what an MCP endpoint offers besides tools: resources, resource templates,
// prompts, and pages of MCP Apps.
//
// A Library is made of files, folders and options of the configuration (library.go, file.go, apps.go,
// prompt_file.go). An Index adds what the OpenAPI document of a toolset declares in x-mcp
// (extension.go, resource_operation.go, prompt_operation.go): it finds a resource by its URI and a
// prompt by its name, and it collects warnings. The rules of extension_rules.go are the only reader of x-mcp. Polls limits
// how often watched resources of an API are checked for changes (poll.go).
//
// The package knows neither HTTP connections nor sessions. Package mcpadapter serves the requests,
// and calls the tools behind resources and prompts.
package library

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/mcpadapter/internal/content"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/build"
	"github.com/fairwayhq/fairway/tools/match"
)

// defaultMaxFile is the default maximum size of a file resource, in bytes.
const defaultMaxFile = 4 << 20

// LibraryOptions configure what an endpoint offers besides tools. The zero value offers only what
// the document's x-mcp declares.
type LibraryOptions struct {
	// Files that clients may read, each under its own URI. Default: none.
	Resources []Resource `json:"resources,omitempty"`

	// Folders whose files clients may read, except files whose names begin with a dot. Default:
	// none.
	Folders []Folder `json:"folders,omitempty"`

	// GET operations that are also resources, or resource templates if they have arguments.
	// Default: the operations that the document marks with x-mcp.
	Operations []build.Selector `json:"operations,omitempty"`

	// Pages that clients show for the results of tools (MCP Apps). Default: none.
	Apps []App `json:"apps,omitempty"`

	// The languages that the API supports, the default language first. The client's locale
	// (_meta, openai/locale) is matched with them and sent as the Accept-Language of the tool
	// call. Default: none; the client's locale is ignored.
	Locales []string `json:"locales,omitempty"`

	// The headers that pass client hints to the API. Clients can send any value, so do not base
	// access decisions on these headers. If the client's own request has them, they are
	// dropped. Default: none.
	Hints Hints `json:"hints,omitzero"`

	// The largest file that clients may read, in bytes. Default: 4 MiB.
	MaxFile int64 `json:"max_resource,omitempty"`

	Prompts []Prompt `json:"-"`
	Skills  []Skills `json:"-"`

	// Live returns further resources. It is called again after each change of the document. May be nil.
	Live func() []Live `json:"-"`
}

// Resource is a file that clients may read under a URI (MCP, Resources).
type Resource struct {
	// The URI of the resource, such as docs:///fares. Required.
	URI string `json:"uri"`

	// The path of the file. Placeholders such as {env.DOCS} are replaced. Required.
	File string `json:"file"`

	// The name of the resource. Default: the last part of the URI.
	Name string `json:"name,omitempty"`

	// The display title. Default: omitted.
	Title string `json:"title,omitempty"`

	// What the resource contains, for models. Default: omitted.
	Description string `json:"description,omitempty"`

	// The media type. Default: derived from the file's name or content.
	MIMEType string `json:"mime_type,omitempty"`

	// Scopes that an access token needs to read the resource. Other callers are refused, and do not
	// see it in the list. Default: none; all callers may read it.
	Scopes []string `json:"scopes,omitempty"`

	Icons []content.Icon `json:"-"`
}

// Hints are the names of the headers that pass client hints to the API.
type Hints struct {
	// The header for the client's user agent (_meta, openai/userAgent). Default: none; the hint
	// is not sent.
	UserAgent string `json:"user_agent,omitempty"`

	// The header for the user's location (_meta, openai/userLocation), as a JSON object in
	// ASCII. Default: none; the hint is not sent.
	Location string `json:"location,omitempty"`
}

// A Library holds what an endpoint offers besides tools: resources, resource templates, prompts, and
// pages of apps. It also defines how client hints (locale, user agent, location) reach the API. A
// Library is immutable. It reads files when clients request them.
type Library struct {
	options   LibraryOptions
	resources []*Entry // from files and apps
	templates []*Entry // from folders
	prompts   []*Prompt
	skills    []*skillEntry
	apps      map[string]*App // by tool name
	chosen    build.Selection
	hints     bool // whether any client hint is passed to the API

	// Scopes are those that files, folders, skills and prompts need. If there are any, lists depend on the token.
	Scopes []string

	Hash [sha256.Size]byte
}

// NewLibrary returns a Library. An error names the invalid option.
func NewLibrary(options LibraryOptions) (*Library, error) {
	options.MaxFile = cmp.Or(max(options.MaxFile, 0), defaultMaxFile)
	encoded, err := json.Marshal(map[string]any{"options": options, "prompts": options.Prompts, "skills": options.Skills})
	if err != nil {
		return nil, err
	}
	l := &Library{options: options, Hash: sha256.Sum256(encoded), apps: make(map[string]*App)}
	for _, add := range []func() error{l.addFiles, l.addApps, l.addFolders, l.addPrompts, l.addSkills, l.checkUnique, l.checkHints} {
		if err := add(); err != nil {
			return nil, err
		}
	}
	for _, r := range slices.Concat(l.resources, l.templates) {
		l.Scopes = append(l.Scopes, r.Scopes...)
	}
	for _, p := range l.prompts {
		l.Scopes = append(l.Scopes, p.Scopes...)
	}
	if l.chosen, err = build.CompileSelectors(options.Operations); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *Library) addFiles() error {
	for _, r := range l.options.Resources {
		if err := checkURI(r.URI); err != nil {
			return fmt.Errorf("resource %s: %w", r.URI, err)
		}
		if r.File == "" {
			return fmt.Errorf("resource %s: file is missing", r.URI)
		}
		if err := cmp.Or(content.CheckIcons(r.Icons), checkScopes(r.Scopes)); err != nil {
			return fmt.Errorf("resource %s: %w", r.URI, err)
		}
		l.resources = append(l.resources, &Entry{
			uri:         r.URI,
			name:        cmp.Or(r.Name, LastPart(r.URI)),
			title:       r.Title,
			description: r.Description,
			Mime:        cmp.Or(r.MIMEType, mimeOf(r.URI, r.File)),
			icons:       r.Icons,
			Scopes:      r.Scopes,
			size:        -1,
			file:        &file{path: r.File, limit: l.options.MaxFile},
		})
	}
	return nil
}

func (l *Library) addFolders() error {
	for _, f := range l.options.Folders {
		if err := checkScopes(f.Scopes); err != nil {
			return fmt.Errorf("folder %s: %w", f.Path, err)
		}
		made, err := newFolder(f, l.options.MaxFile)
		if err != nil {
			return fmt.Errorf("folder %s: %w", f.Path, err)
		}
		l.templates = append(l.templates, made.template(f.Scopes))
	}
	return nil
}

func (l *Library) addPrompts() error {
	for i := range l.options.Prompts {
		p := &l.options.Prompts[i]
		if err := p.check(); err != nil {
			return fmt.Errorf("prompt %q: %w", p.Name, err)
		}
		l.prompts = append(l.prompts, p)
	}
	return nil
}

// checkUnique returns an error if two resources, folders or prompts have the same URI or name.
func (l *Library) checkUnique() error {
	names := make([]string, 0, len(l.options.Apps)+len(l.resources)+len(l.templates)+len(l.prompts))
	for i := range l.options.Apps {
		names = append(names, "app "+l.options.Apps[i].URI)
	}
	for _, r := range l.resources {
		names = append(names, "resource "+r.uri)
	}
	for _, r := range l.templates {
		names = append(names, "folder "+r.template.text)
	}
	for _, p := range l.prompts {
		names = append(names, "prompt "+p.Name)
	}
	seen := make(map[string]bool)
	for _, name := range names {
		if seen[name] {
			return fmt.Errorf("%s is given twice", name)
		}
		seen[name] = true
	}
	return nil
}

// checkScopes returns an error if one of the scopes is not valid.
func checkScopes(scopes []string) error {
	for _, scope := range scopes {
		if !protocol.IsScope(scope) {
			return fmt.Errorf("%q is not a scope; scopes are printable ASCII without spaces, quotes and backslashes", text.Cut(scope, text.MaxQuoted))
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
		return errors.New("the URI of a file must not contain {variables}")
	}
	return nil
}

// LastPart returns the last non-empty path segment of a URI, or else the scheme.
func LastPart(uri string) string {
	uri = strings.TrimRight(uri, "/:")
	name := uri[strings.LastIndexAny(uri, "/:")+1:]
	if plain, ok := unescape(name); ok && plain != "" {
		return plain
	}
	return uri
}

// An Index holds the resources, templates and prompts of one catalog: first those of the Library,
// then those of the document.
type Index struct {
	library *Library
	tools   *tools.Toolset

	Resources []*Entry
	Templates []*Entry
	Prompts   []*PromptEntry
	Skills    []*skillEntry
	warnings  []tools.Warning
	routes    map[*tools.Toolset]*match.Routes // by document; nil if no operation is a resource
	Pages     bool                             // whether any resource is a page of an app

	byURI      map[string]*Entry
	ByTemplate map[string]*Entry // by the text of the template
	ByName     map[string]*PromptEntry
	byTool     map[*tools.Tool]*Entry
}

// NewIndex collects the resources, templates and prompts of the Library and the tools. Entries that
// the access token does not allow are not listed; they can still be looked up, so that a request for
// them is rejected with the missing scopes.
func NewIndex(l *Library, toolset *tools.Toolset, access *tools.Access) *Index {
	s := &Index{
		library:    l,
		tools:      toolset,
		byURI:      make(map[string]*Entry),
		ByTemplate: make(map[string]*Entry),
		ByName:     make(map[string]*PromptEntry),
		byTool:     make(map[*tools.Tool]*Entry),
	}
	for _, r := range l.resources {
		s.addResource(r.forToken(access))
	}
	if l.options.Live != nil {
		for _, r := range l.options.Live() {
			s.addResource(&Entry{uri: r.URI, name: r.Name, description: r.Description, Mime: r.Mime, size: -1, Live: r.Read})
		}
	}
	for _, r := range l.templates {
		s.addTemplate(r.forToken(access))
	}
	for _, p := range l.prompts {
		s.addPrompt(&PromptEntry{Prompt: p, Denied: access.Lacks(p.Scopes) != nil})
	}
	for _, skill := range l.skills {
		s.Skills = append(s.Skills, skill.forToken(access))
	}
	for _, foreign := range [...]bool{false, true} { // what a document has keeps its name and URI
		for _, tool := range toolset.Tools() {
			if (tool.Foreign != nil) == foreign {
				s.addOperation(l, toolset, tool, access.Missing(tool, toolset) != nil)
			}
		}
	}
	if len(s.byTool) > 0 {
		s.routes = routesOf(toolset)
	}
	return s
}

// routesOf returns the routes of the tools, for each document. Documents may have operations with the
// same paths.
func routesOf(toolset *tools.Toolset) map[*tools.Toolset]*match.Routes {
	documents := toolset.Parts()
	routes := make(map[*tools.Toolset]*match.Routes, len(documents))
	for _, document := range documents {
		own := toolset
		if document != toolset {
			own = toolset.Only(func(t *tools.Tool) bool { return toolset.PartOf(t) == document })
		}
		routes[document] = match.NewRoutes(own)
	}
	return routes
}

// warn adds a warning about a part of the document that cannot be used.
func (s *Index) warn(t *tools.Tool, format string, args ...any) {
	s.warnings = append(s.warnings, tools.Warning{
		Operation: t.Plan.Method + " " + t.Plan.Path,
		Reason:    fmt.Sprintf(format, args...),
	})
}

// addResource adds a resource. It returns false if the URI is taken: resources of the Library
// take precedence over those of the document.
func (s *Index) addResource(r *Entry) bool {
	if _, taken := s.byURI[r.uri]; taken {
		return false
	}
	s.byURI[r.uri] = r
	s.Pages = s.Pages || r.Mime == AppType
	s.Resources = append(s.Resources, r)
	return true
}

func (s *Index) addTemplate(r *Entry) bool {
	if _, taken := s.ByTemplate[r.template.text]; taken {
		return false
	}
	s.ByTemplate[r.template.text] = r
	s.Pages = s.Pages || r.Mime == AppType
	s.Templates = append(s.Templates, r)
	return true
}

func (s *Index) addPrompt(p *PromptEntry) bool {
	if _, taken := s.ByName[p.Name]; taken {
		return false
	}
	s.ByName[p.Name] = p
	s.Prompts = append(s.Prompts, p)
	return true
}

// Find returns the resource for a URI: the resource with exactly this URI, or else the matching
// template with the most literal characters.
func (s *Index) Find(uri string) (Target, bool) {
	if r := s.byURI[uri]; r != nil {
		return Target{Entry: r, URI: uri}, true
	}
	var found Target
	for _, r := range s.Templates {
		if found.Entry != nil && r.template.literal <= found.template.literal {
			continue
		}
		if bindings, ok := r.template.match(uri); ok {
			found = Target{Entry: r, URI: uri, bindings: bindings}
		}
	}
	return found, found.Entry != nil
}

// FilesInFolders returns the files that currently exist in the folders. A file that lies in several
// folders is returned once, for the folder that Find would choose.
func (s *Index) FilesInFolders(now time.Time) (files []*Entry) {
	for _, r := range s.Templates {
		if r.folder == nil || r.Denied {
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
func (s *Index) folderOf(uri string) (found *folder) {
	for _, r := range s.Templates {
		if f := r.folder; f != nil && strings.HasPrefix(uri, f.prefix) && (found == nil || len(f.prefix) > len(found.prefix)) {
			found = f
		}
	}
	return found
}

// Warnings returns warnings about parts of the document and of the Library that cannot be used
// as they are.
func (s *Index) Warnings() []tools.Warning {
	warnings := append(s.extensionWarnings(), s.warnings...)
	operations := gets(s.tools)
	for i := range s.library.chosen {
		if unmatched := s.library.chosen[i:i+1].Unmatched("resources:", operations); unmatched != nil {
			warnings = append(warnings, tools.Warning{Reason: strings.Replace(unmatched.Error(), "no operation", "no GET operation", 1)})
		}
	}
	for _, app := range s.library.options.Apps {
		for _, name := range app.Tools {
			if _, ok := s.tools.Tool(name); ok {
				continue
			}
			near := text.DidYouMean(s.tools.Nearest(name, func(*tools.Tool) bool { return true }))
			warnings = append(warnings, tools.Warning{Reason: fmt.Sprintf("app %s: unknown tool %s%s", app.URI, name, near)})
		}
	}
	return warnings
}

// gets returns the operations that selectors can make resources of.
func gets(toolset *tools.Toolset) (operations []build.Candidate) {
	for _, t := range toolset.Tools() {
		if t.Plan.Method == "GET" {
			operations = append(operations, t.Candidate())
		}
	}
	return operations
}

// AppendPrompts and AppendResources append the lists in the encoding of the newest revision. Files
// in folders are left out, because they change without a reload. The list of resources is followed by that of the skills,
// for which clients get the same notification.
func (s *Index) AppendPrompts(dst []byte) []byte {
	for _, p := range s.Prompts {
		dst = p.AppendTo(dst, protocol.V20260728)
	}
	return dst
}

func (s *Index) AppendResources(dst []byte) []byte {
	for _, r := range slices.Concat(s.Resources, s.Templates) {
		dst = r.AppendTo(dst, protocol.V20260728)
	}
	for _, skill := range s.Skills {
		dst = skill.AppendTo(dst, protocol.V20260728)
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
