package calllog

import (
	"context"
	"time"

	"github.com/fairwayhq/fairway/store"
)

// trim deletes calls of all nodes until the size of all blocks is below the limit, the oldest ones first. A user whose
// blocks have more than half of the limit loses calls before others do.
func (k *keeper) trim(ctx context.Context, records store.Store, options *Options) error {
	places, err := placesIn(ctx, records, time.Time{})
	if err != nil {
		return err
	}
	final, total, ofUser := make(map[string]*header, len(places)), int64(0), make(map[string]int64)
	all := make([]*header, len(places))
	oldest := time.Now().Add(-2 * blockAge).UnixMicro()
	for i, p := range places {
		if all[i] = k.known[p.key]; all[i] == nil {
			if all[i], err = headerOf(ctx, records, p); err != nil {
				return err
			}
		}
		if p.start < oldest || all[i].Calls >= blockCalls {
			final[p.key] = all[i]
		}
		total += all[i].Size
		if owner := all[i].Owner; owner != nil {
			ofUser[*owner] += all[i].Size
		}
	}
	k.known = final
	for i, p := range places { // the oldest first
		h := all[i]
		if total <= options.MaxSize {
			return nil
		}
		if h.Owner == nil || ofUser[*h.Owner] <= options.MaxSize/2 {
			continue
		}
		_, rest, err := deleteCalls(ctx, records, p, *h.Owner, time.Duration(options.Keep))
		if err != nil {
			return err
		}
		if rest != nil {
			total -= h.Size - rest.Size
			ofUser[*h.Owner] -= h.Size
			all[i], k.known[p.key] = rest, rest
		}
	}
	for i, p := range places {
		if total <= options.MaxSize {
			return nil
		}
		if err := records.Delete(ctx, p.key); err != nil {
			return err
		}
		total -= all[i].Size
		delete(k.known, p.key)
	}
	return nil
}

// headerOf returns the header of a block. It computes that of version 1, and the size of a block that cannot be read.
func headerOf(ctx context.Context, records store.Store, p place) (*header, error) {
	b, err := readBlock(ctx, records, p)
	if err != nil || b.Size > 0 {
		return &b.header, err
	}
	h := new(header) // of version 1, or of a block that cannot be read
	entries, err := b.entries(ctx)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		h.Size += int64(len(entry))
	}
	var memory []byte
	err = b.backward(ctx, &memory, nil, func(line []byte) bool {
		if call, ok := b.decode(line); ok {
			h.add(&call)
		}
		return true
	})
	h.encode()
	return h, err
}
