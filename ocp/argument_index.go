package ocp

import (
	"cmp"
	"slices"
)

// An argumentIndex finds arguments by name: their positions in the order of their
// names. A map of each tool would take ten times as much. It is nil for a few
// arguments, which are compared one by one.
type argumentIndex []int32

// unindexed is how many arguments are compared one by one.
const unindexed = 8

// indexOf returns the index of the arguments.
func indexOf(all []Argument) argumentIndex {
	if len(all) <= unindexed {
		return nil
	}
	index := make(argumentIndex, len(all))
	for i := range index {
		index[i] = int32(i) //nolint:gosec // a tool has far fewer arguments
	}
	slices.SortFunc(index, func(a, b int32) int { return cmp.Compare(all[a].Name, all[b].Name) })
	return index
}

// position returns the position of the argument of that name.
func (x argumentIndex) position(all []Argument, name string) (int, bool) {
	if x == nil {
		for i := range all {
			if all[i].Name == name {
				return i, true
			}
		}
		return 0, false
	}
	at, found := slices.BinarySearchFunc(x, name, func(i int32, name string) int { return cmp.Compare(all[i].Name, name) })
	if !found {
		return 0, false
	}
	return int(x[at]), true
}
