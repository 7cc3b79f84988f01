package otcadapter

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"github.com/fairwayhq/fairway/ocp/tool"
)

// A catalog is built from the current Toolsets. It has their toolkits and the encoded response
// to GET /tools.
type catalog struct {
	source     []Toolkit  // the toolkits that it was built from
	toolkits   []*toolkit // the loaded ones, the newest version first
	partial    bool       // some toolkits are not loaded
	list       []byte
	defined    []definedTool           // the tools of list, in its order
	byID       map[string]*definedTool // the same tools
	listTag    string                  // strong entity tag of list
	keyHeaders []string                // headers in which the APIs take keys, canonical and sorted
	retryAfter func() time.Duration    // see Options.RetryAfter
}

// catalog returns the catalog of the Toolsets. It is built at the first request and kept until
// one of the Toolsets changes.
func (s *Server) catalog(source []Toolkit) *catalog {
	if c := s.current.Load(); c != nil && slices.Equal(c.source, source) {
		return c
	}
	s.building.Lock()
	defer s.building.Unlock()
	if c := s.current.Load(); c != nil && slices.Equal(c.source, source) {
		return c
	}
	c := newCatalog(s.options, slices.Clone(source))
	s.current.Store(c)
	return c
}

// newCatalog builds the catalog of the Toolsets.
func newCatalog(options Options, source []Toolkit) *catalog {
	c := &catalog{source: source, retryAfter: options.RetryAfter}
	for i, site := range source {
		if site.Tools == nil {
			c.partial = true
			continue
		}
		c.toolkits = append(c.toolkits, newToolkit(options, i, site))
		for _, scheme := range site.Tools.SecuritySchemes {
			if scheme.Type == "apiKey" && scheme.In == "header" {
				c.keyHeaders = append(c.keyHeaders, textproto.CanonicalMIMEHeaderKey(scheme.ParameterName))
			}
		}
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
	if c.partial || options.Warn == nil {
		return
	}
	sets := make([]*tool.Toolset, len(c.source))
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
		if first == nil {
			first = k
		}
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
