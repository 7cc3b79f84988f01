// Package embedded keeps the records of package store in a file on this machine. One
// process at a time can open it.
//
// The engine is a small log-structured merge tree: a write-ahead log makes changes
// durable, memtables hold them, and a bbolt file holds the rest. A change passes these
// steps:
//
//  1. Update locks the key, reads the record and adds the new version to the active
//     memtable, where later changes see it at once, and to the next batch (writeBuffer).
//  2. The committer appends each batch to the write-ahead log with one write and one sync.
//     This is the group commit: all changes that arrived since the last sync share the
//     next one. Then the changes are durable, and their callers return.
//  3. After a while the active memtable becomes immutable and a new one replaces it. The
//     flusher writes the immutable memtable to the file in one transaction: each record
//     once, however often it has changed, and the number of the last flushed frame.
//
// A read looks at the active memtable, then at the immutable one, then at the file. It waits
// until the version that it has found is durable, so that nothing leaves the process that a
// crash would take back. Asynchronous changes are the exception. The
// sweeper removes expired records. While a flush takes long, writers wait
// (backpressure). After a crash, Open replays the write-ahead log (recover.go).
//
// Why not a library: bbolt alone, and github.com/cockroachdb/pebble/v2 v2.1.7 with one goroutine that
// syncs for all callers, passed the same tests. With 64 callers, each of which makes a durable claim
// and then an asynchronous change, on two shared cores:
//
//	                         this package   bbolt alone   pebble
//	CPU per call             10–14 µs       50–87 µs      26–35 µs
//	memory of the process    58–79 MB       34–37 MB      53–54 MB
//	size of the Caddy binary 87.6 MB        87.5 MB       96.0 MB
//
// The CPU per call decides, because each recorded call pays it. When the disk is full or a sync fails,
// pebble ends the process, and with it all other sites. This package reports the error to the
// callers whose changes are not durable, and goes on.
package embedded
