package keyedhash

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairwayhq/fairway/store"
)

const (
	signingRecord = "signing/keys"      // the record of the store that has the keys
	signingPeriod = 90 * 24 * time.Hour // how long a key signs before another one replaces it
	signingWait   = 2 * time.Second     // to load the keys from the store
)

// SigningKeys provides the keys that the nodes of a shared store sign with. The first node creates a
// random key in the store. After signingPeriod, a new key replaces it. The store always has the latest
// key and the one before, so what a key signed stays valid for signingPeriod after the key was replaced.
type SigningKeys struct {
	open    func(context.Context) (store.Store, error)
	now     func() time.Time
	loading sync.Mutex
	current atomic.Pointer[SigningSet]
}

// A SigningSet has the keys at one time. The first one signs; all of them are accepted.
type SigningSet struct {
	Keys   [][]byte
	record []byte // since when there is a new key (8 bytes, in milliseconds since 1970), the key, and the one before
	loaded time.Time
}

// NewSigningKeys returns keys that are in the store that open returns.
func NewSigningKeys(open func(context.Context) (store.Store, error)) *SigningKeys {
	return &SigningKeys{open: open, now: time.Now}
}

// Current returns the current keys. It reads them from the store at most once a minute. While the store
// is not available, it returns the keys that it read last. If it has read none, it returns an error.
func (k *SigningKeys) Current(ctx context.Context) (*SigningSet, error) {
	if set := k.current.Load(); set != nil && k.now().Sub(set.loaded) < keyReload {
		return set, nil
	}
	k.loading.Lock()
	defer k.loading.Unlock()
	previous := k.current.Load()
	if previous != nil && k.now().Sub(previous.loaded) < keyReload {
		return previous, nil
	}
	record, err := k.load(ctx, previous)
	switch {
	case err != nil && previous == nil:
		return nil, err
	case err != nil:
		record = previous.record
	}
	set := &SigningSet{Keys: k.order(record), record: record, loaded: k.now()}
	k.current.Store(set)
	return set, nil
}

// load reads the record, and changes it if it is missing or its key has signed long enough.
func (k *SigningKeys) load(ctx context.Context, previous *SigningSet) (record []byte, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), signingWait)
	defer cancel()
	records, err := k.open(ctx)
	if err != nil {
		return nil, err
	}
	err = records.Update(ctx, signingRecord, func(old store.Record) (store.Change, error) {
		record = bytes.Clone(old.Value)
		switch valid := len(record) == 8+keySize || len(record) == 8+2*keySize; {
		case !valid && previous != nil:
			record = previous.record // a store that lost the keys gets those of this node back
		case !valid:
			record = k.renew(nil)
		case k.now().Sub(since(record)) >= signingPeriod:
			record = k.renew(record[8 : 8+keySize])
		}
		return store.Change{Value: record, TTL: keyLifetime}, nil
	})
	return record, err
}

// renew returns a record with a new key.
func (k *SigningKeys) renew(before []byte) []byte {
	record := make([]byte, 8+keySize, 8+2*keySize)
	binary.BigEndian.PutUint64(record, uint64(k.now().UnixMilli()))
	_, _ = rand.Read(record[8:]) // never fails
	return append(record, before...)
}

func since(record []byte) time.Time {
	return time.UnixMilli(int64(binary.BigEndian.Uint64(record)))
}

// order returns the keys of a record. A new key signs only after all nodes have read it.
func (k *SigningKeys) order(record []byte) [][]byte {
	latest, before := record[8:8+keySize], record[8+keySize:]
	switch {
	case len(before) == 0:
		return [][]byte{latest}
	case k.now().Sub(since(record)) < 2*keyReload:
		return [][]byte{before, latest}
	}
	return [][]byte{latest, before}
}
