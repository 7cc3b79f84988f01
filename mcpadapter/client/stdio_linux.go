package client

import (
	"os/exec"

	"golang.org/x/sys/unix"
)

// limitMemory limits the data of a process. Processes that it starts inherit the limit.
func limitMemory(cmd *exec.Cmd, limit int64) error {
	if limit <= 0 {
		return nil
	}
	return unix.Prlimit(cmd.Process.Pid, unix.RLIMIT_DATA, &unix.Rlimit{Cur: uint64(limit), Max: uint64(limit)}, nil)
}
