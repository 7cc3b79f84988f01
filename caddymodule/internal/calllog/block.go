package calllog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/klauspost/compress/zstd"

	"github.com/fairwayhq/fairway/internal/stored"
	"github.com/fairwayhq/fairway/store"
)

// A block is a record of the store with calls of one node, in the order in which they have ended.
//
//   - Its key has the time of its first call and the node: calls/kept/<milliseconds>-<sequence>/<node>.
//   - Each entry of its log is a batch of calls as JSON lines, compressed with Zstandard. There is no index: 100,000 calls
//     are 6 MB, which a search decompresses and scans in about 50 ms.
//   - Its value is the version and a header as JSON.
//
// The value of version 1 is a table of columns. The entries are the same, so the table is ignored, and the header is
// computed from them when it is needed.
const (
	KeyPrefix     = "calls/kept/" // of the keys of blocks
	blockCalls    = 1000          // calls of a block
	blockAge      = time.Hour     // after which a node begins another block
	maxBatch      = 256 << 10     // bytes of a batch before compression, unless one call has more
	maxLines      = 4 << 20       // bytes of a batch that is read
	version       = 2             // first byte of a value
	columnVersion = 1
	timeDigits    = 12 // of the time in a key
	timeLength    = timeDigits + len("-0000")
)

// header describes the calls of a block.
type header struct {
	First int64   `json:"first"`          // number of the first call
	Last  int64   `json:"last"`           // number of the last call
	Calls int     `json:"calls"`          // number of calls
	Size  int64   `json:"size"`           // bytes of all entries
	Owner *string `json:"owner,omitzero"` // the user who has made at least half of the calls, nil if there is none

	users map[string]int // calls by user; nil if the header was read
}

// add adds a call.
func (h *header) add(call *Call) {
	if h.users == nil {
		h.users, h.First = make(map[string]int), call.Number
	}
	h.users[call.User]++
	h.Calls, h.First, h.Last = h.Calls+1, min(h.First, call.Number), max(h.Last, call.Number)
}

// encode returns the value of the block, and sets the owner.
func (h *header) encode() []byte {
	h.Owner = nil
	for user, calls := range h.users {
		if 2*calls >= h.Calls {
			h.Owner = &user
		}
	}
	value, err := json.Marshal(h, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		panic(err) // there is nothing in it that cannot be encoded
	}
	return append([]byte{version}, value...)
}

// block is a block of the store, or the calls that wait for the store.
type block struct {
	place
	header  // of version 1, only Last is set
	records store.Store
	stored  int    // bytes of the value in the store
	length  int64  // number of entries
	waiting []byte // lines of the calls that wait
	err     error  // why the block cannot be read
}

// readBlock reads the value of a block. If the block does not exist any more, or is unreadable, it has no calls.
func readBlock(ctx context.Context, records store.Store, p place) (*block, error) {
	record, err := records.Get(ctx, p.key)
	missing := errors.Is(err, store.ErrNotFound)
	if err != nil && !missing {
		return nil, err
	}
	b := &block{place: p, records: records, stored: len(record.Value), length: record.Length}
	switch {
	case missing:
	case len(record.Value) > 0 && record.Value[0] == columnVersion:
		b.Last = math.MaxInt64
	case len(record.Value) == 0 || record.Value[0] != version:
		b.err = stored.ErrUnreadable
	default:
		b.err = json.Unmarshal(record.Value[1:], &b.header, jsontext.AllowInvalidUTF8(true))
	}
	b.report(b.err)
	return b, nil //nolint:nilerr // a block that does not exist has no calls
}

// report reports that the block, or a part of it, cannot be read.
func (b *block) report(err error) { _ = stored.Unreadable("kept_calls", b.key, err) }

// backward calls visit with the JSON of each call, the newest first, until it returns false. It leaves out batches for which
// may returns false; nil takes all. The bytes are in memory, which is reused.
func (b *block) backward(ctx context.Context, memory *[]byte, may func(lines []byte) bool, visit func(line []byte) bool) error {
	if b.err != nil {
		return nil //nolint:nilerr // it was reported
	}
	entries, err := b.entries(ctx)
	if err != nil {
		return err
	}
	for _, entry := range slices.Backward(entries) {
		lines, err := decompressor().DecodeAll(entry, (*memory)[:0])
		if err != nil {
			b.report(err)
			continue
		}
		if *memory = lines; !backward(lines, may, visit) {
			return nil
		}
	}
	backward(b.waiting, may, visit)
	return nil
}

// backward returns false if visit has.
func backward(lines []byte, may, visit func([]byte) bool) bool {
	if may != nil && !may(lines) {
		return true
	}
	for len(lines) > 0 {
		lines = bytes.TrimSuffix(lines, []byte("\n"))
		begin := bytes.LastIndexByte(lines, '\n') + 1
		if !visit(lines[begin:]) {
			return false
		}
		lines = lines[:begin]
	}
	return true
}

// entries reads the compressed batches.
func (b *block) entries(ctx context.Context) (entries [][]byte, err error) {
	for int64(len(entries)) < b.length {
		more, err := b.records.Read(ctx, b.key, int64(len(entries)), store.MaxRead)
		if err != nil || len(more) == 0 { // the block was deleted meanwhile
			return entries, err
		}
		entries = append(entries, more...)
	}
	return entries, nil
}

// decode decodes the JSON of a call. It reports a call that is damaged.
func (b *block) decode(line []byte) (call Call, ok bool) {
	err := json.Unmarshal(line, &call, jsontext.AllowInvalidUTF8(true))
	b.report(err)
	if call.ID == "" {
		call.ID = call.Node + "." + strconv.FormatInt(call.Number, 10)
	}
	return call, err == nil
}

// appendLines appends the JSON lines of the first of the calls to b, and returns how many calls these are.
func appendLines(b []byte, calls []Call, limit int) (lines []byte, n int, err error) {
	buf := bytes.NewBuffer(b)
	encoder := jsontext.NewEncoder(buf, jsontext.AllowInvalidUTF8(true))
	for n < len(calls) && buf.Len() < limit && err == nil {
		err = json.MarshalEncode(encoder, &calls[n])
		n++
	}
	return buf.Bytes(), n, err
}

// The functions EncodeAll and DecodeAll of these are safe for concurrent use. Their options are constants that have no error.
var (
	// The window is that of a batch. It bounds the memory of the encoder.
	compressor = sync.OnceValue(func() *zstd.Encoder {
		e, _ := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(maxBatch))
		return e
	})
	decompressor = sync.OnceValue(func() *zstd.Decoder {
		d, _ := zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(maxLines))
		return d
	})
)

// blockKey returns the key of a block. Sequence distinguishes the blocks that a node begins in a millisecond.
func blockKey(first *Call, sequence uint16) string {
	return fmt.Sprintf("%s%s-%04x/%s", KeyPrefix, timeKey(first.Ended), sequence, first.Node)
}

// timeKey returns the time in a key. Keys sort by it.
func timeKey(at time.Time) string {
	return fmt.Sprintf("%0*x", timeDigits, max(at.UnixMilli(), 0))
}

// place is the part of the time line that the calls of a block are in.
type place struct {
	key, node    string
	start, until int64 // microseconds since 1970; no call has ended at until or later
}

// placeOf returns the place of a block, without its end.
func placeOf(key string) (p place, ok bool) {
	rest, ok := strings.CutPrefix(key, KeyPrefix)
	if !ok || len(rest) < timeLength+2 || rest[timeLength] != '/' {
		return p, false
	}
	milliseconds, err := strconv.ParseInt(rest[:timeDigits], 16, 64)
	return place{key: key, node: rest[timeLength+1:], start: milliseconds * 1000}, err == nil
}

// placesIn returns the places of the blocks that may have calls since a time, in the order of their keys.
func placesIn(ctx context.Context, records store.Store, from time.Time) ([]place, error) {
	after := KeyPrefix
	if !from.IsZero() {
		after += timeKey(from.Add(-2 * blockAge)) // a block has no calls after its age, and the next begins later
	}
	var places []place
	for {
		keys, err := records.Keys(ctx, KeyPrefix, after, store.MaxRead)
		if err != nil {
			return nil, err
		}
		for _, key := range keys {
			if p, ok := placeOf(key); ok {
				places = append(places, p)
			} else {
				_ = stored.Unreadable("kept_calls", key, stored.ErrUnreadable)
			}
		}
		if len(keys) < store.MaxRead {
			break
		}
		after = keys[len(keys)-1]
	}
	next := make(map[string]int64) // by node: start of its next block
	for i := range slices.Backward(places) {
		p := &places[i]
		p.until = p.start + 2*blockAge.Microseconds()
		if next[p.node] > 0 {
			p.until = min(p.until, next[p.node]+time.Millisecond.Microseconds())
		}
		next[p.node] = p.start
	}
	return places, nil
}
