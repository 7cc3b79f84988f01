//go:build !linux

package embedded

// syncData makes the content of the file durable.
func (file osFile) syncData() error { return file.Sync() }

// syncFolder does nothing, since not every system can sync a folder.
func syncFolder(string) error { return nil }

// lockHolder returns 0: the process that holds the lock cannot be determined.
func lockHolder(string) int { return 0 }
