//go:build !linux

package store

// lockHolder returns the process that has the file locked; 0 if that cannot be
// seen.
func lockHolder(string) int { return 0 }
