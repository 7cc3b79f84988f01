//go:build !linux

package testkit

import "errors"

// queryListeners is not available.
func queryListeners(int) (int, error) { return 0, errors.ErrUnsupported }
