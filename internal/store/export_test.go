package store

import "time"

// Busy returns options with which the store flushes constantly and switches between the
// files of the write-ahead log after a few changes.
func Busy(o BoltOptions) BoltOptions {
	o.applyEvery = time.Millisecond
	o.applyChanges = 8
	o.flushPace = time.Microsecond
	o.maxStaged = 64
	return o
}
