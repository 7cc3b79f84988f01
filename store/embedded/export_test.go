package embedded

import "time"

// Busy returns options with which the store flushes constantly and switches between the
// files of the write-ahead log after a few changes.
func Busy(o Options) Options {
	o.flushInterval = time.Millisecond
	o.memtableChanges = 8
	o.commitInterval = time.Microsecond
	o.maxBufferedChanges = 64
	return o
}
