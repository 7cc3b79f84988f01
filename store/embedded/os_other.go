//go:build !linux

package embedded

// syncFolder does nothing, since not every system can sync a folder.
func syncFolder(string) error { return nil }

// takeOwner does nothing: services with a user of their own are documented for Linux only.
func takeOwner(string) error { return nil }

// checkWritable does nothing: Open finds out.
func checkWritable(string) error { return nil }

// lockHolder returns 0: the process that holds the lock cannot be determined.
func lockHolder(string) int { return 0 }
