package otcadapter

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/fairwayhq/fairway/tools"
)

// A catalog is built from the current Toolsets. It has their toolkits and the encoded response
// to GET /tools.
type catalog struct {
	source     []Toolkit  // the toolkits that it was built from
	toolkits   []*toolkit // the loaded ones, the newest version first
	partial    bool       // some toolkits are not loaded
	list       []byte
	defined    []*definedTool          // the tools of list, in its order
	byID       map[string]*definedTool // the same tools
	listTag    string                  // strong entity tag of list
	keyHeaders []string                // headers in which the APIs take keys, canonical and sorted
	retryAfter func() time.Duration    // see Options.RetryAfter
}

// catalog returns the catalog of the Toolsets. It is built at the first request. The latest ones are kept.
func (s *Server) catalog(source []Toolkit) *catalog {
	if c := s.current.Load(); c != nil && slices.Equal(c.source, source) {
		return c
	}
	s.building.Lock()
	defer s.building.Unlock()
	for _, c := range s.latest {
		if slices.Equal(c.source, source) {
			s.current.Store(c)
			return c
		}
	}
	c := newCatalog(s.options, slices.Clone(source))
	s.current.Store(c)
	s.latest = slices.DeleteFunc(s.latest, func(old *catalog) bool { return !slices.EqualFunc(old.source, source, sameWhole) })
	if s.latest = append(s.latest, c); len(s.latest) > maxCatalogs {
		s.latest = slices.Delete(s.latest, 0, 1)
	}
	return c
}

// sameWhole reports whether two toolkits are of the same Toolset, which may be narrowed for different users.
func sameWhole(a, b Toolkit) bool {
	if a.Tools == nil || b.Tools == nil {
		return a.Tools == b.Tools
	}
	ofA, _ := a.Tools.Whole()
	ofB, _ := b.Tools.Whole()
	return ofA == ofB
}

// maxCatalogs is the number of catalogs that are kept. Users have different ones if a rule decides which
// tools they may call.
const maxCatalogs = 16

// newCatalog builds the catalog of the Toolsets.
func newCatalog(options Options, source []Toolkit) *catalog {
	c := &catalog{source: source, retryAfter: options.RetryAfter}
	for i, site := range source {
		if site.Tools == nil {
			c.partial = true
			continue
		}
		c.toolkits = append(c.toolkits, newToolkit(options, i, site))
		c.keyHeaders = append(c.keyHeaders, site.Tools.KeyHeaders()...)
	}
	slices.Sort(c.keyHeaders)
	c.keyHeaders = slices.Compact(c.keyHeaders)
	c.buildList(options.Warn)
	sum := sha256.Sum256(c.list)
	c.listTag = `"` + hex.EncodeToString(sum[:16]) + `"`
	c.checkURLs(options)
	slices.SortStableFunc(c.toolkits, func(a, b *toolkit) int { return compareVersions(b.version, a.version) })
	return c
}

// checkURLs warns about configured URLs that are never sent to clients. It only checks if all
// Toolsets are loaded.
func (c *catalog) checkURLs(options Options) {
	if c.partial {
		return
	}
	sets := make([]*tools.Toolset, len(c.source))
	for i, site := range c.source {
		sets[i] = site.Tools
	}
	if err := CheckAuthorizationURLs(options.AuthorizationURLs, sets...); err != nil {
		options.Warn(err.Error())
	}
}

// loaded reports whether there are any tools.
func (c *catalog) loaded() bool {
	return len(c.toolkits) > 0
}

// mayCarryCredentials reports whether a request has a header in which the APIs may take credentials.
func (c *catalog) mayCarryCredentials(header http.Header) bool {
	return len(header["Authorization"]) > 0 || len(header["Cookie"]) > 0 ||
		slices.ContainsFunc(c.keyHeaders, func(name string) bool { return len(header[name]) > 0 })
}

// A reference is a parsed tool id.
type reference struct {
	id      string
	toolkit string
	tool    string
	version string // "" for the latest
}

// parseID parses a tool id of the form Toolkit.Tool or Toolkit.Tool@Version.
func parseID(id string) (reference, bool) {
	path, version, versioned := strings.Cut(id, "@")
	toolkit, name, dotted := strings.Cut(path, ".")
	if !dotted || !isWord(toolkit) || !isWord(name) || versioned && !isVersion(version) {
		return reference{}, false
	}
	if version == latestVersion {
		version = ""
	}
	return reference{id, toolkit, name, version}, true
}

// resolve finds the tool for an id (OXP, Tool Version Resolution): the tool of the given
// version or, without a version, of the newest version that has the tool. The entry is nil if
// no version of the toolkit has the tool. The Caller reports this then, because it can suggest
// similar names.
func (c *catalog) resolve(id string) (*toolkit, *entry, reference, *fault) {
	ref, ok := parseID(id)
	if !ok {
		return nil, nil, ref, badToolID(id)
	}
	var first, withTool *toolkit // of the requested version
	var versions []string        // versions that have the tool
	known := false               // whether the toolkit exists
	for _, k := range c.toolkits {
		if k.name != ref.toolkit {
			continue
		}
		known = true
		_, has := k.entries[ref.tool]
		if has {
			versions = append(versions, k.version)
		}
		if !k.matches(ref.version) {
			continue
		}
		first = cmp.Or(first, k)
		if has && withTool == nil {
			withTool = k
		}
	}
	switch {
	case withTool != nil:
		return withTool, withTool.entries[ref.tool], ref, nil
	case c.partial:
		return nil, nil, ref, notLoaded(c.retryAfter)
	case !known:
		return nil, nil, ref, unknownToolkit(ref.toolkit, c.names())
	case len(versions) > 0:
		return nil, nil, ref, unknownVersion(ref, slices.Compact(versions))
	case first == nil:
		return nil, nil, ref, unknownVersion(ref, c.versions(ref.toolkit))
	}
	return first, nil, ref, nil
}

// matches reports whether the toolkit has the version of a tool id.
func (k *toolkit) matches(version string) bool {
	return version == "" || version == k.version || requestedVersion(version) == k.version
}

// names returns the names of the toolkits.
func (c *catalog) names() (names []string) {
	for _, k := range c.toolkits {
		if !slices.Contains(names, k.name) {
			names = append(names, k.name)
		}
	}
	return names
}

// versions returns the versions of a toolkit, the newest first.
func (c *catalog) versions(name string) (versions []string) {
	for _, k := range c.toolkits {
		if k.name == name && !slices.Contains(versions, k.version) {
			versions = append(versions, k.version)
		}
	}
	return versions
}

// maxListed limits how many toolkits or versions a message lists.
const maxListed = 10

// joinNames joins names for a message.
func joinNames(names []string) string {
	if len(names) > maxListed {
		return strings.Join(names[:maxListed], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}

func badToolID(id string) *fault {
	return &fault{
		status:    http.StatusBadRequest,
		message:   "tool_id " + quoted(id) + " is not valid; write it as Toolkit.Tool or Toolkit.Tool@Version, as in GET /tools",
		developer: "tool_id does not have the form ^[A-Za-z0-9_]+\\.[A-Za-z0-9_]+(@[A-Za-z0-9_.\\-]+)?$",
	}
}

func unknownToolkit(name string, names []string) *fault {
	return &fault{
		status:    http.StatusBadRequest,
		message:   "unknown toolkit " + quoted(name) + "; the toolkits are " + joinNames(names),
		developer: "GET /tools lists the ids of all tools",
	}
}

func unknownVersion(ref reference, versions []string) *fault {
	return &fault{
		status:    http.StatusBadRequest,
		message:   "unknown version " + quoted(ref.version) + " of tool " + ref.toolkit + "." + ref.tool + "; available: " + joinNames(versions),
		developer: "write one of these after the @, or @latest; without a version the latest one is used",
	}
}

const (
	// maxToolkit limits the length of a toolkit's name, in bytes.
	maxToolkit = 64

	// maxToolkitDescription limits how much of the document's description is in every tool
	// definition, in bytes.
	maxToolkitDescription = 256

	// ownVersion is the version of a toolkit that has a name of its own.
	ownVersion = "1.0.0"

	// maxVersionPart limits the number of digits in one part of a version.
	maxVersionPart = 18
)

// A toolkit has the tools of one document under one name and version. Several toolkits may have
// the same name.
type toolkit struct {
	name        string // [A-Za-z0-9_]+
	version     string // x.y.z
	description string
	index       int               // in Site.Toolkits
	entries     map[string]*entry // by the tool's name

	tools              *tools.Toolset
	injectsCredentials bool              // the gateway adds the credentials for the API
	authorizationURLs  map[string]string // from the configuration, by id of the requirement
}

// An entry is a tool with its requirements.
type entry struct {
	*tools.Tool
	requirements [][]requirement // alternatives
}

// newToolkit returns the toolkit of a loaded Toolset.
func newToolkit(options Options, index int, site Toolkit) *toolkit {
	toolset := site.Tools
	if site.Name != "" {
		options.Toolkit, options.Version = site.Name, ownVersion
	}
	k := &toolkit{
		version:            options.Version,
		description:        shortDescription(toolset),
		index:              index,
		entries:            make(map[string]*entry, len(toolset.Listed())),
		injectsCredentials: site.InjectsCredentials,
		tools:              toolset,
		authorizationURLs:  options.AuthorizationURLs,
	}
	for _, t := range toolset.Listed() {
		k.entries[t.Name] = &entry{t, requirementsOf(t, toolset.SecuritySchemes)}
	}
	k.setName(options.Toolkit)
	return k
}

// setName sets the name and the version of the toolkit. Name and k.version are those of the configuration, or "".
func (k *toolkit) setName(name string) {
	for _, source := range []string{name, k.tools.Title, k.tools.Name, "Toolkit"} {
		if k.name = pascalCase(source); k.name != "" {
			break
		}
	}
	k.version = semver(cmp.Or(k.version, k.tools.Version))
}

// CallMessage returns the path below the server's, and the body, of a request that calls a tool. Arguments is a JSON
// object.
func CallMessage(options Options, site Toolkit, tool string, arguments []byte) (path string, body []byte) {
	k := newToolkit(options, 0, site)
	body = append(k.appendID([]byte(`{"request":{"tool_id":"`), tool), `","input":`...)
	return callEndpoint, append(append(body, arguments...), "}}"...)
}

// appendID appends the full id of a tool.
func (k *toolkit) appendID(b []byte, tool string) []byte {
	b = append(b, k.name...)
	b = append(b, '.')
	b = append(b, tool...)
	b = append(b, '@')
	return append(b, k.version...)
}

// shortDescription returns the first paragraph of the document's description, shortened. If there is
// none, it returns the title.
func shortDescription(toolset *tools.Toolset) string {
	paragraph, _, _ := strings.Cut(strings.TrimSpace(strings.ReplaceAll(toolset.Description, "\r\n", "\n")), "\n\n")
	text := strings.Join(strings.Fields(paragraph), " ")
	text = cmp.Or(text, toolset.Title)
	if len(text) <= maxToolkitDescription {
		return text
	}
	cut := maxToolkitDescription - len("…")
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}

// pascalCase joins the words of a title: "Train Travel API" becomes TrainTravelAPI. A text that
// is a valid name of a toolkit stays unchanged. Letters outside ASCII are removed.
func pascalCase(title string) string {
	if isWord(title) && len(title) <= maxToolkit {
		return title
	}
	var name strings.Builder
	inWord := false
	for _, r := range title {
		switch {
		case r > unicode.MaxASCII && unicode.In(r, unicode.L, unicode.M, unicode.N):
			continue
		case !isWordRune(r) || r == '_':
			inWord = false
			continue
		case !inWord:
			r = unicode.ToUpper(r)
			inWord = true
		}
		if name.Len() == maxToolkit {
			break
		}
		name.WriteRune(r)
	}
	return name.String()
}

// isWord reports whether s is valid as a part of a tool id: [A-Za-z0-9_]+.
func isWord(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !isWordRune(r) })
}

// isWordRune reports whether isWord allows the character.
func isWordRune(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_'
}

// isVersion reports whether s is valid as the version in a tool id: [A-Za-z0-9_.-]+.
func isVersion(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !isWordRune(r) && r != '.' && r != '-' })
}
