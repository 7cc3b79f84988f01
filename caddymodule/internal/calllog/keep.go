package calllog

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/store"
)

// Times of the keeper.
const (
	writeInterval = time.Second      // between two writes; a crash loses the calls of this time
	trimInterval  = time.Minute      // between two checks of Config.MaxSize
	storeTimeout  = 10 * time.Second // for the requests of one step
)

// keeper writes the calls of a node to the store, and deletes the oldest blocks beyond Config.MaxSize.
type keeper struct {
	recorder *Recorder
	open     func(context.Context) (store.Store, error)

	mu   sync.Mutex
	stop chan struct{} // nil until start
	done chan struct{}

	// Only the goroutine uses these.
	key     string // of the block that is written; "" if there is none
	block   header
	length  int64              // entries of the block in the store
	value   []byte             // of the block in the store; nil if there is none
	begun   uint16             // number of blocks that were begun
	began   time.Time          // of the block
	lines   []byte             // memory for the lines of a batch
	failing bool               // the last write has failed
	known   map[string]*header // by key, blocks that no longer grow
	trimmed time.Time
	lost    int64 // of Recorder.dropped, that Options.Dropped has got
}

func newKeeper(recorder *Recorder, open func(context.Context) (store.Store, error)) *keeper {
	k := &keeper{recorder: recorder, open: open, known: make(map[string]*header)}
	recorder.options.Store(&Options{Config: Config{Keep: caddy.Duration(defaultKeep), MaxSize: defaultMaxSize}})
	return k
}

// start begins the work, unless it has begun.
func (k *keeper) start() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stop != nil {
		return
	}
	stop, done := make(chan struct{}), make(chan struct{})
	k.stop, k.done = stop, done
	go func() {
		defer close(done)
		ticker := time.NewTicker(writeInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				k.step()
			case <-k.recorder.wake:
				k.step()
			case <-stop:
				k.step()
				return
			}
		}
	}()
}

// close writes the calls that wait, and ends the work.
func (k *keeper) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stop != nil {
		close(k.stop)
		<-k.done
		k.stop = nil
	}
}

// step writes the calls that have ended.
func (k *keeper) step() {
	options := k.recorder.options.Load()
	if lost := k.recorder.dropped.Load(); lost > k.lost && options.Dropped != nil {
		options.Dropped(lost - k.lost)
		k.lost = lost
	}
	calls := k.recorder.take()
	if len(calls) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	records, err := k.open(ctx)
	for err == nil && len(calls) > 0 {
		var n int
		if n, err = k.write(ctx, records, calls, options); err == nil {
			k.recorder.written(n)
			calls = calls[n:]
		}
	}
	if err == nil && time.Since(k.trimmed) >= trimInterval {
		k.trimmed = time.Now()
		err = k.trim(ctx, records, options)
	}
	if err != nil && !k.failing && options.Failed != nil {
		options.Failed(err)
	}
	k.failing = err != nil
}

// errReplaced means that the block in the store is not the one that the keeper has written: Erase has replaced
// it, or the store has evicted it.
var errReplaced = errors.New("another process has changed the block")

// write writes the first of the calls, and returns how many these are.
func (k *keeper) write(ctx context.Context, records store.Store, calls []Call, options *Options) (int, error) {
	if k.key == "" || k.block.Calls >= blockCalls || time.Since(k.began) >= blockAge {
		k.begun++
		k.key, k.block, k.length, k.value, k.began = blockKey(&calls[0], k.begun), header{}, 0, nil, time.Now()
	}
	lines, n, err := appendLines(k.lines[:0], calls[:min(len(calls), blockCalls-k.block.Calls)], maxBatch)
	if err != nil {
		return 0, err
	}
	k.lines = lines
	entry := compressor().EncodeAll(lines, nil)
	for i := range n {
		k.block.add(&calls[i])
	}
	k.block.Size += int64(len(entry))
	value := k.block.encode()
	err = records.Update(ctx, k.key, func(old store.Record) (store.Change, error) {
		if old.Length != k.length || !bytes.Equal(old.Value, k.value) {
			return store.Change{}, errReplaced
		}
		return store.Change{Value: value, Entries: [][]byte{entry}, TTL: time.Duration(options.Keep), Evictable: true, Async: true}, nil
	})
	if err != nil {
		k.key = "" // it is unknown what the store has: begin another block
		if errors.Is(err, errReplaced) {
			return 0, nil
		}
		return 0, err
	}
	k.length, k.value = k.length+1, value
	return n, nil
}
