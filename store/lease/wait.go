package lease

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/fairwayhq/fairway/internal/stored"
	"github.com/fairwayhq/fairway/store"
)

// Wait waits until the value of a record differs from seen, until a time, or until the context ends. It
// returns changed = false at that time, store.ErrNotFound if the record is gone, and otherwise the error of the
// context or of the store. Until is usually Lease.Until: then the record may be claimed, although it has not changed.
func Wait(ctx context.Context, s store.Store, key string, seen []byte, until time.Time) (found store.Record, changed bool, err error) {
	within, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	found, err = s.Wait(within, key, seen)
	switch {
	case err == nil, errors.Is(err, store.ErrNotFound):
		return found, true, err
	case ctx.Err() != nil:
		return store.Record{}, false, ctx.Err()
	case within.Err() != nil, !time.Now().Before(until): // a connection may report the deadline before the context does
		return store.Record{}, false, nil
	}
	return store.Record{}, false, err
}

// A List is the index of the records of an owner: a record with an array of entries in JSON, under a key of the
// owner. It is changed before the records that it lists are created, and after they are deleted, so it may have
// entries without a record.
type List[E any] struct {
	Store store.Store
	TTL   time.Duration // of the list, after its last change
	// MaxSize is the number of bytes beyond which a list does not grow. Default: the limit of the store.
	MaxSize int
	// IsOver reports whether an entry has expired. Such entries are not listed, and removed by the next change.
	IsOver func(entry *E) bool
}

// ErrListFull means that a list would grow beyond MaxSize. Nothing was written.
var ErrListFull = errors.New("the list is full")

// Get returns the entries of the list in the order in which they were added.
func (l *List[E]) Get(ctx context.Context, key string) (entries []E, err error) {
	err = l.read(ctx, key, func(old []byte) error {
		entries, err = l.decode(key, old)
		return err
	})
	return entries, err
}

// Check returns the error that Change would return for that change.
func (l *List[E]) Check(ctx context.Context, key string, change func([]E) ([]E, error)) error {
	return l.read(ctx, key, func(old []byte) error {
		_, err := l.next(key, old, change)
		return err
	})
}

// read calls visit with the encoded list; nil if there is none.
func (l *List[E]) read(ctx context.Context, key string, visit func(old []byte) error) error {
	r, err := l.Store.Get(ctx, key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return visit(r.Value)
}

// Change replaces the entries by those that change returns. If it returns an error, nothing is changed, and Change returns
// that error. An empty list is deleted. The list takes the share of by in the store.
func (l *List[E]) Change(ctx context.Context, key string, by store.Owner, change func([]E) ([]E, error)) error {
	return l.Store.Update(ctx, key, func(old store.Record) (store.Change, error) {
		c, err := l.next(key, old.Value, change)
		c.Owner = by
		return c, err
	})
}

func (l *List[E]) decode(key string, value []byte) (entries []E, err error) {
	if len(value) > 0 {
		err = stored.Decode("lists", key, value, &entries)
	}
	return slices.DeleteFunc(entries, func(e E) bool { return l.IsOver(&e) }), err
}

// next returns the change that stores the entries that change returns.
func (l *List[E]) next(key string, old []byte, change func([]E) ([]E, error)) (c store.Change, err error) {
	entries, err := l.decode(key, old)
	if err == nil {
		entries, err = change(entries)
	}
	if err != nil || len(entries) == 0 {
		return store.Change{Delete: true}, err
	}
	value, err := json.Marshal(entries)
	if l.MaxSize > 0 && len(value) > max(l.MaxSize, len(old)) {
		return c, ErrListFull
	}
	return store.Change{Value: value, TTL: l.TTL}, err
}
