package run

import (
	"context"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"github.com/fairwayhq/fairway/store"
)

// index lists the runs that have not ended, so that a node finds the runs of a dead node without
// reading all keys of the store. A run is added after it is stored, and removed after its end.
// The ids are distributed over indexShards records.
type index struct{ storage *storage }

const (
	indexKey    = "run-index/" // followed by the number of the shard
	indexShards = 16
)

func shardOf(id string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	return indexKey + strconv.Itoa(int(h.Sum32()%indexShards))
}

func (x index) add(ctx context.Context, id string) error {
	return x.change(ctx, shardOf(id), func(ids []string) []string {
		if slices.Contains(ids, id) {
			return ids
		}
		return append(ids, id)
	})
}

func (x index) remove(ctx context.Context, id string) error {
	return x.change(ctx, shardOf(id), func(ids []string) []string {
		return slices.DeleteFunc(ids, func(listed string) bool { return listed == id })
	})
}

// change replaces the list of a shard. The error store.ErrTooLarge means that there are too many
// runs.
func (x index) change(ctx context.Context, key string, change func([]string) []string) error {
	return x.storage.store.Update(ctx, key, func(old store.Record) (store.Change, error) {
		ids := change(splitIDs(old.Value))
		if len(ids) == 0 {
			return store.Change{Delete: true}, nil
		}
		return store.Change{Value: []byte(strings.Join(ids, "\n")), TTL: store.MaxTTL}, nil
	})
}

// all returns the ids of all shards.
func (x index) all(ctx context.Context) ([]string, error) {
	var ids []string
	for shard := range indexShards {
		r, err := x.storage.store.Get(ctx, indexKey+strconv.Itoa(shard))
		if isNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		ids = append(ids, splitIDs(r.Value)...)
	}
	return ids, nil
}

func splitIDs(value []byte) []string {
	if len(value) == 0 {
		return nil
	}
	return strings.Split(string(value), "\n")
}
