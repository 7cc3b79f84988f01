package embedded

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// syncFolder makes the directory entries of the file's folder durable.
func syncFolder(path string) error {
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// checkWritable returns an error if this user must not create files in the folder, or the file system is read-only.
func checkWritable(folder string) error {
	const write = 2
	if err := syscall.Access(folder, write); err != nil {
		return fmt.Errorf("writing to %s: %w", folder, err)
	}
	return nil
}

// takeOwner gives the file the owner and the group of its folder. Only root may do so; for others it does nothing.
func takeOwner(path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	folder, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return err
	}
	owner, ok := folder.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	return os.Lchown(path, int(owner.Uid), int(owner.Gid))
}

// lockHolder returns the id of the process that holds the lock on the file, or 0 if it
// cannot be determined.
func lockHolder(path string) int {
	stat, err := os.Stat(path)
	if err != nil {
		return 0
	}
	system, ok := stat.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	locks, err := os.Open("/proc/locks")
	if err != nil {
		return 0
	}
	defer locks.Close()
	inode := ":" + strconv.FormatUint(system.Ino, 10)
	for lines := bufio.NewScanner(io.LimitReader(locks, 1<<20)); lines.Scan(); {
		// Example: "1: FLOCK ADVISORY WRITE 1234 fe:00:567890 0 EOF"
		if f := strings.Fields(lines.Text()); len(f) > 5 && f[1] == "FLOCK" && strings.HasSuffix(f[5], inode) {
			pid, _ := strconv.Atoi(f[4])
			return max(pid, 0)
		}
	}
	return 0
}
