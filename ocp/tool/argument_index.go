package tool

import (
	"cmp"
	"slices"
)

// An argumentIndex finds arguments by name. It holds the positions of the arguments,
// sorted by name, for binary search; a map for each tool would take ten times the memory.
// It is nil for tools with few arguments, which are searched linearly.
type argumentIndex []int32

// unindexed is the largest number of arguments that are searched linearly.
const unindexed = 8

// indexOf returns the index of the arguments, or nil if there are too few to need one.
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

// position returns the position of the argument with the given name.
func (x argumentIndex) position(all []Argument, name string) (int, bool) {
	if x == nil {
		for i := range all {
			if all[i].Name == name {
				return i, true
			}
		}
		return 0, false
	}
	// A function value, as slices.BinarySearchFunc takes, would let name escape to the heap.
	low, high := 0, len(x)
	for low < high {
		middle := (low + high) / 2
		switch at := int(x[middle]); {
		case all[at].Name == name:
			return at, true
		case all[at].Name < name:
			low = middle + 1
		default:
			high = middle
		}
	}
	return 0, false
}
