package embedded

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

// syncData makes the content of the file durable, and only the metadata needed to read
// it.
func (file osFile) syncData() error {
	for {
		if err := syscall.Fdatasync(int(file.Fd())); err != syscall.EINTR {
			return err
		}
	}
}

// syncFolder makes the directory entries of the file's folder durable.
func syncFolder(path string) error {
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// takeOwner gives the file the owner and the group of its folder. Only root may do so; for others it does nothing.
func takeOwner(file *os.File) error {
	if os.Geteuid() != 0 {
		return nil
	}
	folder, err := os.Stat(filepath.Dir(file.Name()))
	if err != nil {
		return err
	}
	owner, ok := folder.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	return file.Chown(int(owner.Uid), int(owner.Gid))
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
