package otcadapter

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"github.com/fairwayhq/fairway/ocp"
)

// A catalog is what the server says of the Toolsets of the moment: their
// toolkits, and the encoded answer to GET /tools.
type catalog struct {
	source     []Toolkit  // what it was made of
	toolkits   []*toolkit // of those that are loaded, the newest version first
	partial    bool       // some are not loaded
	list       []byte
	listTag    string               // strong entity tag of list
	keyHeaders []string             // in which the APIs take keys, canonical and sorted
	wait       func() time.Duration // of Options
}

// catalog returns the catalog of the Toolsets, which is made at its first request
// and kept until one of them changes.
func (s *Server) catalog(source []Toolkit) *catalog {
	if c := s.current.Load(); c != nil && slices.Equal(c.source, source) {
		return c
	}
	s.compiling.Lock()
	defer s.compiling.Unlock()
	if c := s.current.Load(); c != nil && slices.Equal(c.source, source) {
		return c
	}
	c := newCatalog(s.options, slices.Clone(source))
	s.current.Store(c)
	return c
}

func newCatalog(options Options, source []Toolkit) *catalog {
	c := &catalog{source: source, wait: options.RetryAfter}
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
	c.list = c.appendList(nil, options.Warn)
	sum := sha256.Sum256(c.list)
	c.listTag = `"` + hex.EncodeToString(sum[:16]) + `"`
	c.checkURLs(options)
	slices.SortStableFunc(c.toolkits, func(a, b *toolkit) int { return compareVersions(b.version, a.version) })
	return c
}

// checkURLs warns of URLs that clients are never told, as far as that is known.
func (c *catalog) checkURLs(options Options) {
	if c.partial || options.Warn == nil {
		return
	}
	sets := make([]*ocp.Toolset, len(c.source))
	for i, site := range c.source {
		sets[i] = site.Tools
	}
	if err := CheckAuthorizationURLs(options.AuthorizationURLs, sets...); err != nil {
		options.Warn(err.Error())
	}
}

// loaded reports whether there are tools to offer.
func (c *catalog) loaded() bool {
	return len(c.toolkits) > 0
}

// A reference is a tool id, taken apart.
type reference struct {
	id      string
	toolkit string
	tool    string
	version string // "" for the latest
}

// parseID reads a tool id: Toolkit.Tool, Toolkit.Tool@Version.
func parseID(id string) (reference, bool) {
	path, version, versioned := strings.Cut(id, "@")
	kit, name, dotted := strings.Cut(path, ".")
	if !dotted || !isWord(kit) || !isWord(name) || versioned && !isVersion(version) {
		return reference{}, false
	}
	if version == latestVersion {
		version = ""
	}
	return reference{id, kit, name, version}, true
}

// resolve finds the tool that the id means (OXP, Tool Version Resolution): that of
// the exact version, or of the newest version that has the tool. The entry is nil
// if the toolkit has no such tool in any version; what to say of that is for the
// Caller, who knows which name is near.
func (c *catalog) resolve(id string) (*toolkit, *entry, reference, *fault) {
	ref, ok := parseID(id)
	if !ok {
		return nil, nil, ref, badToolID(id)
	}
	var first, withTool *toolkit // of the wanted version
	var versions []string        // that have the tool
	known := false               // the toolkit
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
		return nil, nil, ref, notLoaded(c.wait)
	case !known:
		return nil, nil, ref, unknownToolkit(ref.toolkit, c.names())
	case len(versions) > 0:
		return nil, nil, ref, unknownVersion(ref, slices.Compact(versions))
	case first == nil:
		return nil, nil, ref, unknownVersion(ref, c.versions(ref.toolkit))
	}
	return first, nil, ref, nil
}

// matches reports whether the toolkit has the version that a tool id asks for.
func (k *toolkit) matches(version string) bool {
	return version == "" || version == k.version || wantedVersion(version) == k.version
}

// names lists the toolkits.
func (c *catalog) names() (names []string) {
	for _, k := range c.toolkits {
		if !slices.Contains(names, k.name) {
			names = append(names, k.name)
		}
	}
	return names
}

// versions lists those of a toolkit, the newest first.
func (c *catalog) versions(name string) (versions []string) {
	for _, k := range c.toolkits {
		if k.name == name && !slices.Contains(versions, k.version) {
			versions = append(versions, k.version)
		}
	}
	return versions
}

// maxListed is how many toolkits or versions a message names.
const maxListed = 10

func listed(names []string) string {
	if len(names) > maxListed {
		return strings.Join(names[:maxListed], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}

func badToolID(id string) *fault {
	return &fault{
		status:    http.StatusBadRequest,
		message:   quoted(id) + " is not the id of a tool: it is Toolkit.Tool or Toolkit.Tool@Version, as GET /tools lists it",
		developer: "tool_id does not have the form ^[A-Za-z0-9_]+\\.[A-Za-z0-9_]+(@[A-Za-z0-9_.\\-]+)?$",
	}
}

func unknownToolkit(name string, names []string) *fault {
	return &fault{
		status:    http.StatusBadRequest,
		message:   "unknown toolkit " + quoted(name) + "; the tools here are in " + listed(names),
		developer: "GET /tools lists the ids of the tools there are",
	}
}

func unknownVersion(ref reference, versions []string) *fault {
	of := "toolkit " + ref.toolkit
	if len(versions) == 1 {
		versions = []string{"version " + versions[0]}
	} else if len(versions) > 1 {
		versions[0] = "versions " + versions[0]
	}
	return &fault{
		status:    http.StatusBadRequest,
		message:   "unknown version " + quoted(ref.version) + " of " + ref.tool + " of the " + of + "; it has " + listed(versions),
		developer: "write one of these after the @, or @latest, or no version, which is the latest",
	}
}
