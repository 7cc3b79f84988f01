package store

import (
	"errors"
	"sync/atomic"
)

// ErrUnreadable reports that a record is damaged, or that a newer version has written it.
var ErrUnreadable = errors.New("the record is damaged, or written by a newer version")

// unreadable is the function of OnUnreadable. It belongs to the process, because records are decoded in many places that
// know neither a logger nor the store.
var unreadable atomic.Pointer[func(kind, key string, err error)]

// OnUnreadable sets the function that is called for each record that cannot be read. It must return quickly.
func OnUnreadable(report func(kind, key string, err error)) { unreadable.Store(&report) }

// Unreadable reports a record that cannot be read. Each reader of records calls it before it goes on without the record. Kind
// is the format, such as "reviews". An err of nil is not reported.
func Unreadable(kind, key string, err error) {
	if report := unreadable.Load(); report != nil && err != nil {
		(*report)(kind, key, err)
	}
}
