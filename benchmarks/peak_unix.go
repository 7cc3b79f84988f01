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

// ownCPU returns the CPU time that this process has used, in seconds.
func ownCPU() (float64, error) {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0, err
	}
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(used.Utime) + seconds(used.Stime), nil
}
