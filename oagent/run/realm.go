package run

import (
	"context"

	"github.com/fairwayhq/fairway/store"
)

// realm is the part of a store whose keys begin with a prefix. See Options.Realm.
type realm struct {
	store.Store
	prefix string
}

// Get implements store.Store.
func (s realm) Get(ctx context.Context, key string) (store.Record, error) {
	return s.Store.Get(ctx, s.prefix+key)
}

// Update implements store.Store.
func (s realm) Update(ctx context.Context, key string, change func(old store.Record) (store.Change, error)) error {
	return s.Store.Update(ctx, s.prefix+key, change)
}

// Put implements store.Store.
func (s realm) Put(ctx context.Context, key string, change store.Change) error {
	return s.Store.Put(ctx, s.prefix+key, change)
}

// Read implements store.Store.
func (s realm) Read(ctx context.Context, key string, from int64, limit int) ([][]byte, error) {
	return s.Store.Read(ctx, s.prefix+key, from, limit)
}

// Wait implements store.Store.
func (s realm) Wait(ctx context.Context, key string, seen []byte) (store.Record, error) {
	return s.Store.Wait(ctx, s.prefix+key, seen)
}

// Keys implements store.Store.
func (s realm) Keys(ctx context.Context, prefix, after string, limit int) ([]string, error) {
	if after != "" {
		after = s.prefix + after
	}
	keys, err := s.Store.Keys(ctx, s.prefix+prefix, after, limit)
	for i := range keys {
		keys[i] = keys[i][len(s.prefix):]
	}
	return keys, err
}

// Delete implements store.Store.
func (s realm) Delete(ctx context.Context, keys ...string) error {
	own := make([]string, len(keys))
	for i, key := range keys {
		own[i] = s.prefix + key
	}
	return s.Store.Delete(ctx, own...)
}
