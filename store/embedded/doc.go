// Package embedded keeps the records of package store in one bbolt file on this machine. One
// process at a time can open it.
//
// A transaction of bbolt ends with two syncs of the disk, whatever the number of its changes. Therefore
// one goroutine, the committer, makes all changes: callers hand them over, it calls their functions one after the
// other in one transaction, commits, and then lets the callers return (group commit). So changes of the same
// batch see each other, and a change whose function returns an error leaves the others alone. Readers use read transactions:
// they see a change when it is committed, and never one that a crash could take back. A change with
// Async returns as soon as its function has been called; a reader of its record waits for the commit.
//
// After a failed commit, for instance because the disk is full, all changes of the batch are undone and return the
// error. The store then rejects changes until a commit works, which it tries once a second (Store.Health).
//
// Each record and each log entry has a checksum, which every read verifies. Open reads all pages of the file,
// because bbolt does not validate them.
//
// docs/decisions.md has the measurements behind these choices.
package embedded
