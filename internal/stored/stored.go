// Package stored reads what an earlier or a later version of the program may have stored. A record that cannot be read is
// never skipped in silence: its reader calls Decode or Unreadable, which report it to the log and to a metric.
//
// Each format has a version. Binary formats and kept calls begin with it. JSON has it in a first member "v"; without one it is
// version 1. A version that adds members with useful zero values does not change the version, because readers ignore unknown members. A
// change that readers must not ignore does. testdata/stored has a sample of each format.
package stored

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/go-json-experiment/json"
)

// ErrUnreadable reports that a record is damaged, or that a newer version has written it.
var ErrUnreadable = errors.New("damaged, or written by a newer version")

// report belongs to the process, because records are decoded in many places that have no logger.
var report atomic.Pointer[func(kind, key string, err error)]

// OnUnreadable sets the function that is called for each record that cannot be read. It must return quickly.
func OnUnreadable(f func(kind, key string, err error)) { report.Store(&f) }

// Unreadable reports a record that cannot be read, and returns an error that wraps ErrUnreadable. Kind is the format, such as
// "reviews". If err is nil, it does nothing.
func Unreadable(kind, key string, err error) error {
	if err == nil {
		return nil
	}
	if f := report.Load(); f != nil {
		(*f)(kind, key, err)
	}
	if errors.Is(err, ErrUnreadable) {
		return fmt.Errorf("the record %s is %w", key, err)
	}
	return fmt.Errorf("the record %s is %w: %w", key, ErrUnreadable, err)
}

// Decode decodes a record of version 1 in JSON. Otherwise it reports the record, and returns an error.
func Decode(kind, key string, value []byte, into any) error {
	if bytes.HasPrefix(value, []byte(`{"v":`)) {
		return Unreadable(kind, key, ErrUnreadable)
	}
	return Unreadable(kind, key, json.Unmarshal(value, into))
}
