package tools

import (
	"crypto/sha256"
	"encoding/hex"
	"sync"

	"github.com/fairwayhq/fairway/tools/build"
)

// maxRemembered is the number of names that Names remembers.
const maxRemembered = 1 << 16

// MergedNames holds the names that tools of several documents have got, so that a name never comes
// to mean a tool of another document while the program runs, however the documents change:
//
//   - Where two documents had the same name once, both tools keep their prefixes.
//   - A name without prefix stays with its document. If the document loses the tool and another
//     document gets one with the name, that one has its prefix.
//
// It is safe for concurrent use.
type MergedNames struct {
	mu        sync.Mutex
	owners    map[string]nameKey  // by the name in the merged Toolset
	contested map[string]struct{} // names that several documents have had at once
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

// NewMergedNames returns MergedNames without names.
func NewMergedNames() *MergedNames {
	return &MergedNames{owners: make(map[string]nameKey), contested: make(map[string]struct{})}
}

// assign returns the names of the tools of each part.
func (n *MergedNames) assign(prefixes []string, parts []*Toolset) [][]string {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.forget()
	plain, prefixed := make(map[string]int), make(map[string]int)
	each := func(do func(part, at int, key nameKey)) {
		for i, part := range parts {
			if part == nil {
				continue
			}
			for j, t := range part.Tools() {
				do(i, j, nameKey{prefixes[i], t.Name})
			}
		}
	}
	each(func(_, _ int, key nameKey) { plain[key.name]++ })
	for name, count := range plain {
		if count > 1 {
			n.contested[name] = struct{}{}
		}
	}
	names := make([][]string, len(parts))
	each(func(part, at int, key nameKey) {
		if names[part] == nil {
			names[part] = make([]string, len(parts[part].Tools()))
		}
		if _, contested := n.contested[key.name]; !contested && n.isFree(key.name, key) {
			names[part][at] = key.name
		} else {
			prefixed[key.prefixed()]++
		}
	})
	each(func(part, at int, key nameKey) {
		if names[part][at] != "" {
			return
		}
		name := key.prefixed()
		if owner, owned := n.owners[name]; owned && owner != key || !owned && (plain[name] > 0 || prefixed[name] > 1) {
			name = key.unique()
		}
		names[part][at] = name
	})
	each(func(part, at int, key nameKey) { n.owners[names[part][at]] = key })
	return names
}

// isFree reports whether no other tool has had the name.
func (n *MergedNames) isFree(name string, key nameKey) bool {
	owner, owned := n.owners[name]
	return !owned || owner == key
}

// forget makes room if too many names are remembered.
func (n *MergedNames) forget() {
	if len(n.owners) > maxRemembered || len(n.contested) > maxRemembered {
		clear(n.owners)
		clear(n.contested)
	}
}
