//go:build !linux

package embedded

import "os"

// syncData makes the content of the file durable.
func (file osFile) syncData() error { return file.Sync() }

// syncFolder does nothing, since not every system can sync a folder.
func syncFolder(string) error { return nil }

// takeOwner does nothing: services with a user of their own are documented for Linux only.
func takeOwner(*os.File) error { return nil }

// lockHolder returns 0: the process that holds the lock cannot be determined.
func lockHolder(string) int { return 0 }
