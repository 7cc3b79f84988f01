//go:build !linux

package store

import "os"

// syncData makes what is written to the file durable.
func syncData(file *os.File) error { return file.Sync() }

// syncFolder makes the names in the file's folder durable, which not every system
// can be told.
func syncFolder(string) error { return nil }

// lockHolder returns the process that has the file locked; 0 if that cannot be
// seen.
func lockHolder(string) int { return 0 }
