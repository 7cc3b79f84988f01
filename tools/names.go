package tools

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/fairwayhq/fairway/tools/build"
)

// maxRemembered is the number of names that mergedNames remembers. If there are more, tools without a name yet get
// their prefixes.
const maxRemembered = 1 << 16

// mergedNames holds the names that tools of several sources have got, so that a source that changes does not take the
// name of another one's tool:
//
//   - A tool of a document has its plain name before one of an MCP server, and of two of a kind the one whose source is
//     first. The others have their prefixes.
//   - A plain name stays with its source as long as the Merger exists. If another source would get it, no tool has it:
//     if both have such a tool, for good, and otherwise until the tool of the first one is back. Exception: a source that
//     is loaded for the first time gets the names that it would have had at start.
//   - Names of built-in tools are never those of an MCP server's tool.
type mergedNames struct {
	owners map[string]nameKey // by the name in the merged Toolset
	loaded map[int]bool       // the parts that were loaded once
	moved  map[string]bool    // plain names that another source would have got; true if no tool has the name for good
}

// nameKey identifies a tool of a part.
type nameKey struct{ prefix, name string }

// prefixed returns the name with its prefix.
func (k nameKey) prefixed() string { return build.ShortenName(k.prefix + "_" + k.name) }

// unique returns a name with the prefix that no other tool has. It is for the rare case that another
// tool has the name that prefixed returns.
func (k nameKey) unique() string {
	sum := sha256.Sum256([]byte(k.prefix + "\x00" + k.name))
	suffix := "_" + hex.EncodeToString(sum[:4])
	name := k.prefix + "_" + k.name
	return name[:min(len(name), build.MaxName-len(suffix))] + suffix
}

// assignment is one assignment of names to the tools of all parts.
type assignment struct {
	*mergedNames
	options *MergeOptions
	parts   []*Toolset
	names   [][]string // of the tools of each part; "" for one that is left out (MergeOptions.Yields)
	report  []string   // plain names that another source would get, and that were not reported before

	fresh   map[int]bool // the parts that are loaded for the first time
	present map[nameKey]bool
	taken   map[string]bool
	full    bool
}

// assign returns the names of the tools of each part.
func (n *mergedNames) assign(options *MergeOptions, parts []*Toolset) *assignment {
	a := &assignment{
		mergedNames: n, options: options, parts: parts, names: make([][]string, len(parts)),
		fresh: make(map[int]bool), present: make(map[nameKey]bool), taken: make(map[string]bool), full: len(n.owners) >= maxRemembered,
	}
	for _, foreign := range [...]bool{false, true} {
		a.each(foreign, func(_, _ int, key nameKey) { a.present[key] = true })
	}
	for _, foreign := range [...]bool{false, true} {
		a.each(foreign, func(part, at int, key nameKey) {
			if a.getsPlain(part, at, key) {
				a.take(part, at, key, key.name)
			}
		})
		a.each(foreign, func(part, at int, key nameKey) {
			if a.names[part][at] != "" || a.yields(part, at) {
				return
			}
			name := key.prefixed()
			if owner, owned := n.owners[name]; a.taken[name] || owned && owner != key || foreign && IsReserved(name) {
				name = key.unique()
			}
			a.take(part, at, key, name)
		})
	}
	return a
}

// each calls do for the tools of MCP servers, or for all others, in the order of the parts.
func (a *assignment) each(foreign bool, do func(part, at int, key nameKey)) {
	for i, part := range a.parts {
		if part == nil || part.Foreign != foreign {
			continue
		}
		if a.names[i] == nil {
			a.names[i] = make([]string, len(part.Tools()))
			a.fresh[i], a.loaded[i] = !a.loaded[i], true
		}
		for j, t := range part.Tools() {
			do(i, j, nameKey{a.options.Prefixes[i], t.Name})
		}
	}
}

// yields reports whether a tool is left out rather than that it gets a prefix.
func (a *assignment) yields(part, at int) bool {
	return a.options.Yields != nil && a.options.Yields[part] && !a.parts[part].tools[at].IsRequest()
}

// getsPlain reports whether a tool gets its plain name. If the name would move, it makes sure that no tool has it.
func (a *assignment) getsPlain(part, at int, key nameKey) bool {
	if a.moved[key.name] || a.taken[key.name] {
		return false
	}
	owner, owned := a.owners[key.name]
	switch {
	case !owned:
		return !a.full
	case owner == key, owner.name == key.name && a.fresh[part] && a.precedes(part, slices.Index(a.options.Prefixes, owner.prefix)):
		return true
	case owner.name != key.name || a.yields(part, at): // the name of a tool with a prefix, or the tool waits for an approval
		return false
	}
	if _, reported := a.moved[key.name]; !reported {
		a.report = append(a.report, key.name)
	}
	a.moved[key.name] = a.present[owner]
	return false
}

// precedes reports whether the tools of a part have names before those of another part.
func (a *assignment) precedes(part, other int) bool {
	if foreign := a.parts[part].Foreign; foreign != a.parts[other].Foreign {
		return !foreign
	}
	return part < other
}

// take gives a tool a name.
func (a *assignment) take(part, at int, key nameKey, name string) {
	a.names[part][at], a.taken[name] = name, true
	if !a.full {
		a.owners[name] = key
	}
}

// withoutYielded returns the parts without the tools that are left out, with their names, and the names of these tools
// with their prefixes.
func (a *assignment) withoutYielded() (left []*Toolset, names [][]string, yielded []string) {
	left, names = slices.Clone(a.parts), slices.Clone(a.names)
	for i, part := range a.parts {
		if !slices.Contains(a.names[i], "") {
			continue
		}
		at := -1
		left[i] = part.Only(func(t *Tool) bool {
			if at++; a.names[i][at] == "" {
				yielded = append(yielded, a.options.Prefixes[i]+"."+t.Name)
			}
			return a.names[i][at] != ""
		})
		names[i] = slices.DeleteFunc(slices.Clone(a.names[i]), func(name string) bool { return name == "" })
	}
	return left, names, yielded
}
