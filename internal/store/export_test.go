package store

import "time"

// Busy are options with which the store is always bringing a layer into its file,
// and turns to the journal's other file after a few changes.
func Busy(o BoltOptions) BoltOptions {
	o.applyEvery = time.Millisecond
	o.applyChanges = 8
	o.flushPace = time.Microsecond
	o.maxStaged = 64
	return o
}
