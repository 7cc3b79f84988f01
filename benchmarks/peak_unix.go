//go:build unix

package main

import (
	"os"
	"runtime"
	"syscall"
)

// peakMemory returns the largest resident memory of a process that has ended, in MB.
func peakMemory(state *os.ProcessState) float64 {
	peak := float64(state.SysUsage().(*syscall.Rusage).Maxrss) / 1024 // KB
	if runtime.GOOS == "darwin" {
		peak /= 1024 // bytes
	}
	return peak
}
