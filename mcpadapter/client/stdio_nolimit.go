//go:build !linux

package client

import (
	"errors"
	"os/exec"
)

func limitMemory(_ *exec.Cmd, limit int64) error {
	if limit <= 0 {
		return nil
	}
	return errors.New("this operating system has no such limit")
}
