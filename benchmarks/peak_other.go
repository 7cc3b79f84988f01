//go:build !unix

package main

import (
	"errors"
	"math"
	"os"
)

// peakMemory is not measured on this system.
func peakMemory(*os.ProcessState) float64 { return math.NaN() }

// ownCPU returns an error: this system does not report it.
func ownCPU() (float64, error) { return 0, errors.ErrUnsupported }
