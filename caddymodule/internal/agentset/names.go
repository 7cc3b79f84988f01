package agentset

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/tools"
)

// Operation is a tool under the name that agent documents use.
type Operation struct {
	Tool    *tools.Tool
	Toolset *app.Toolset
	Set     *tools.Toolset // the tools of Toolset
	Name    string         // in kebab case; qualified with its toolset's name if several tools have the name

	// Overridable reports whether the caller's own headers or cookies may override arguments
	// of a tool call. The arguments must then be read from the request.
	Overridable bool
	// CredentialQueries are the query parameters that contain a caller's credentials, also those of bearer tokens.
	CredentialQueries []string
	// Credentials are the places in a request where callers send credentials for the API.
	Credentials callerCredentials
}

// ReturnsJSON reports whether the document declares a JSON response.
func (op *Operation) ReturnsJSON() bool {
	return slices.ContainsFunc(op.Tool.Output.MediaTypes, func(mediaType string) bool { return strings.HasSuffix(mediaType, "json") })
}

// Names are the names of tools and agents in agent documents. Accepted agents are not among them:
// they are neither capabilities nor reviewers. It implements oagent.RemoteNames.
type Names struct {
	own, other map[string][]*Operation // by name, without the toolset's name
	bare       map[string]*Operation   // what such a name means
	qualified  map[string][]*Operation // by name, with the toolset's name
	renamed    map[string]*Operation   // by name before the configuration renamed it or in earlier versions, with and without the toolset's name
	isAgent    func(name string) bool
	remote     func(oagent.Reference) error
	all        []string
}

func newNames(isAgent func(name string) bool, checkRemote func(oagent.Reference) error) *Names {
	return &Names{
		own: make(map[string][]*Operation), other: make(map[string][]*Operation), bare: make(map[string]*Operation), qualified: make(map[string][]*Operation),
		renamed: make(map[string]*Operation), isAgent: isAgent, remote: checkRemote,
	}
}

// Tool returns the tool with that name. A name without a toolset is first one of a document, then that of an agent, and
// then one of an MCP server, and of these that of the site's own tools. It returns none if the name is ambiguous.
func (n *Names) Tool(name string) (string, *tools.Tool, bool) {
	found := n.Find(name)
	if found == nil {
		return "", nil, false
	}
	return found.Toolset.Name, found.Tool, true
}

// Find is like Tool, but it returns the operation, or nil if there is none.
func (n *Names) Find(name string) *Operation {
	if found := n.qualified[name]; len(found) == 1 {
		return found[0]
	}
	return n.bare[name]
}

// resolve returns what a name without a toolset means, nil if it is ambiguous. The name stays with the toolset whose tool
// it meant when all were loaded, which is in owners, so that an MCP server that changes its list does not get the calls of another.
func (n *Names) resolve(name string, owners map[string]string) *Operation {
	owner, owned := owners[name]
	for _, foreign := range [...]bool{false, true} {
		if foreign && n.isAgent(name) {
			return nil
		}
		for _, all := range [...][]*Operation{n.own[name], n.other[name]} {
			found := slices.DeleteFunc(slices.Clone(all), func(op *Operation) bool { return op.Set.Foreign != foreign })
			switch {
			case len(found) == 0:
				continue
			case owned:
				found = slices.DeleteFunc(found, func(op *Operation) bool { return op.Toolset.Name != owner })
			case len(found) == 1 && owners != nil && len(owners) < maxOwners:
				owners[name] = found[0].Toolset.Name
			}
			if len(found) == 1 {
				return found[0]
			}
			return nil
		}
	}
	return nil
}

// maxOwners limits how many names are remembered.
const maxOwners = 1 << 16

// Agent reports whether there is an agent with that name.
func (n *Names) Agent(name string) bool {
	return n.isAgent(name)
}

// CheckRemote returns an error if agents of the reference's server must not be called.
func (n *Names) CheckRemote(r oagent.Reference) error {
	return n.remote(r)
}

// All returns the names of all tools and agents.
func (n *Names) All() []string {
	return n.all
}

// Renamed returns the name of the tool that had that name before the configuration renamed it or in earlier versions, or "".
func (n *Names) Renamed(name string) string {
	if op := n.renamed[name]; op != nil {
		return op.Name
	}
	return ""
}

// add adds an operation. own reports whether requests of the site are matched to it.
func (n *Names) add(op *Operation, own bool) {
	name := oagent.KebabName(op.Tool.Name)
	if own {
		n.own[name] = append(n.own[name], op)
	} else {
		n.other[name] = append(n.other[name], op)
	}
	qualified := qualifier(op.Toolset) + "." + name
	n.qualified[qualified] = append(n.qualified[qualified], op)
	for _, before := range [...]string{op.Tool.Unshaped.Name, op.Tool.Unshaped.Former} {
		if before != "" && before != op.Tool.Name {
			before = oagent.KebabName(before)
			n.renamed[before], n.renamed[qualifier(op.Toolset)+"."+before] = op, op
		}
	}
}

// nameOperations gives each operation its shortest unique name.
func (n *Names) nameOperations(owners map[string]string) {
	for _, named := range [...]map[string][]*Operation{n.own, n.other} {
		for name := range named {
			if _, done := n.bare[name]; !done {
				n.bare[name] = n.resolve(name, owners)
			}
		}
	}
	for qualified, operations := range n.qualified {
		for _, op := range operations {
			bare := oagent.KebabName(op.Tool.Name)
			op.Name = bare
			if n.Find(bare) != op {
				op.Name = qualified
			}
		}
	}
	names := make(map[string]bool)
	for _, operations := range n.qualified {
		for _, op := range operations {
			names[op.Name] = true
		}
	}
	n.all = slices.Sorted(maps.Keys(names))
}

// qualifier returns the name of a toolset in the form in which it precedes the names of its tools.
func qualifier(t *app.Toolset) string {
	name := t.Key.ShownName()
	return oagent.KebabName(strings.TrimSuffix(name, path.Ext(name)))
}
