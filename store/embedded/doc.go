// Package embedded keeps the records of package store in one bbolt file on this machine. One
// process at a time can open it.
//
// A transaction of bbolt ends with two syncs of the disk, whatever the number of its changes. Therefore
// one goroutine, the committer, makes all changes: callers compute them and hand them over, it makes many in one
// transaction, commits, and then lets the callers return (group commit). A caller sees the changes of its record that are
// handed over already, and callers take turns at a record. A function of one caller delays no changes of other records, and
// its error leaves them alone. If the committer changes the record meanwhile, for example because it has expired, the change is
// computed again. Readers use read transactions: they see a change when it is committed, and never one that a crash could take
// back. A change with Async returns as soon as it has been made in memory; a reader of its record waits for the commit.
//
// After a failed commit, for instance because the disk is full, all changes of the batch are undone and return the
// error. The store then rejects changes until a commit works, which it tries once a second (Store.Health).
//
// Each record and each log entry has a checksum, which every read verifies. Open reads all pages of the file,
// because bbolt does not validate them.
//
// docs/decisions.md has the measurements behind these choices.
package embedded
