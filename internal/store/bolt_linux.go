package store

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// syncData makes what is written to the file durable, and of what the system knows
// about the file only what is needed to read it.
func syncData(file *os.File) error {
	for {
		if err := syscall.Fdatasync(int(file.Fd())); err != syscall.EINTR {
			return err
		}
	}
}

// syncFolder makes the names in the file's folder durable.
func syncFolder(path string) error {
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// lockHolder returns the process that has the file locked; 0 if that cannot be
// seen.
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
		// 1: FLOCK ADVISORY WRITE 1234 fe:00:567890 0 EOF
		if f := strings.Fields(lines.Text()); len(f) > 5 && f[1] == "FLOCK" && strings.HasSuffix(f[5], inode) {
			pid, _ := strconv.Atoi(f[4])
			return max(pid, 0)
		}
	}
	return 0
}
