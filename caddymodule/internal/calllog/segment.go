package calllog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/klauspost/compress/zstd"
)

// A segment is a record of the store with calls of one node, in the order in which they have ended.
//
//   - Its key has the time of its first call and the node: calls/kept/<milliseconds>-<sequence>/<node>.
//   - Its value is the columns: for each call what filters and statistics need, without other texts.
//   - Each entry of its log is a batch of calls as JSON lines.
//
// Value and entries are compressed with Zstandard.
const (
	KeyPrefix    = "calls/kept/" // of the keys of segments
	segmentCalls = 1000          // calls of a segment
	segmentAge   = time.Hour     // after which a node begins another segment
	maxBatch     = 256 << 10     // bytes of a batch before compression, unless one call has more
	maxColumns   = 4 << 20       // bytes of columns before compression
	maxDetails   = 4 << 20       // bytes of a batch that is read
	version      = 1             // first byte of a value
	timeDigits   = 12            // of the time in a key
	timeLength   = timeDigits + len("-0000")
)

// errDamaged is the error of a segment that cannot be decoded.
var errDamaged = errors.New("a segment of kept calls is damaged")

// A column has one text of each call.
type column int

const (
	columnSite column = iota
	columnProtocol
	columnToolset
	columnTool
	columnOutcome
	columnUser
	columnAgent
	columnCount
)

// row has the columns of one call.
type row struct {
	number     int64
	ended      int64 // microseconds since 1970
	took       int64 // microseconds
	status     int32
	sent, size int32
	names      [columnCount]uint16 // positions in columns.names
	trace      uint32              // fingerprint
	engagement uint32              // fingerprint
}

// columns are the columns of a segment.
type columns struct {
	names   []string // texts of rows
	batches []int    // number of calls of each entry of the log
	size    int64    // bytes of all entries of the log
	rows    []row

	encoded   []byte            // rows that are not yet decoded; nil for none
	positions map[string]uint16 // of names; nil if the columns were decoded
}

// add appends a call.
func (c *columns) add(call *Call) {
	added := row{
		number: call.Number, ended: call.Ended.UnixMicro(), took: int64(call.Took * 1000),
		status: clamp(call.Status), sent: clamp(call.Sent), size: clamp(call.Size),
		trace: fingerprint(call.Trace), engagement: fingerprint(call.Engagement),
	}
	for i, name := range [columnCount]string{call.Site, call.Protocol, call.Toolset, call.Tool, call.Outcome, call.User, call.Agent} {
		position, known := c.positions[name]
		if !known {
			if c.positions == nil {
				c.positions = make(map[string]uint16)
			}
			position = uint16(len(c.names)) // a segment has at most segmentCalls * columnCount names
			c.names, c.positions[name] = append(c.names, name), position
		}
		added.names[i] = position
	}
	c.rows = append(c.rows, added)
}

// clamp returns a number that is not negative and fits.
func clamp(n int) int32 { return int32(min(max(n, 0), math.MaxInt32)) }

// fingerprintLength is the number of bytes at the beginning of an id that its fingerprint covers. A filter with at
// least as many bytes can use the fingerprint.
const fingerprintLength = 8

// fingerprint returns a short hash of the beginning of an id, 0 for none.
func fingerprint(id string) uint32 {
	if id == "" {
		return 0
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(id[:min(len(id), fingerprintLength)]))
	return h.Sum32()
}

// encode returns the value of a segment.
func (c *columns) encode() []byte {
	b := binary.AppendUvarint(make([]byte, 0, 64+24*len(c.rows)), uint64(len(c.names)))
	for _, name := range c.names {
		b = append(binary.AppendUvarint(b, uint64(len(name))), name...)
	}
	b = binary.AppendUvarint(b, uint64(len(c.batches)))
	for _, calls := range c.batches {
		b = binary.AppendUvarint(b, uint64(calls))
	}
	b = binary.AppendUvarint(b, uint64(c.size))
	b = binary.AppendUvarint(b, uint64(len(c.rows)))
	var last row
	for i := range c.rows {
		r := &c.rows[i]
		b = binary.AppendVarint(b, r.number-last.number)
		b = binary.AppendVarint(b, r.ended-last.ended)
		for _, value := range [...]int64{r.took, int64(r.status), int64(r.sent), int64(r.size)} {
			b = binary.AppendUvarint(b, uint64(max(value, 0)))
		}
		for _, position := range r.names {
			b = binary.AppendUvarint(b, uint64(position))
		}
		b = binary.LittleEndian.AppendUint32(b, r.trace)
		b = binary.LittleEndian.AppendUint32(b, r.engagement)
		last = *r
	}
	return coders().EncodeAll(b, []byte{version})
}

// decodeColumns returns the columns of a value.
func decodeColumns(value []byte) (*columns, error) {
	if len(value) == 0 || value[0] != version {
		return nil, errDamaged
	}
	b, err := coders().DecodeAll(value[1:], nil)
	if err != nil || len(b) > maxColumns {
		return nil, errDamaged
	}
	d := &decoder{rest: b}
	c := &columns{names: d.names()}
	c.batches = make([]int, d.count(1))
	for i := range c.batches {
		c.batches[i] = int(d.unsigned())
	}
	c.size = int64(d.unsigned())
	if d.failed {
		return nil, errDamaged
	}
	c.encoded = d.rest
	return c, nil
}

// decodeRows decodes the rows, unless they are. Filters often need only the names.
func (c *columns) decodeRows() error {
	if c.encoded == nil {
		return nil
	}
	d := &decoder{rest: c.encoded}
	c.encoded = nil
	rows := make([]row, d.count(6+int(columnCount)+8))
	var last row
	for i := range rows {
		r := &rows[i]
		r.number, r.ended, r.took = last.number+d.signed(), last.ended+d.signed(), int64(d.unsigned())
		r.status, r.sent, r.size = d.small(), d.small(), d.small()
		for n := range r.names {
			position := d.small()
			if int(position) >= len(c.names) {
				return errDamaged
			}
			r.names[n] = uint16(position)
		}
		if ids := d.bytes(8); ids != nil {
			r.trace, r.engagement = binary.LittleEndian.Uint32(ids), binary.LittleEndian.Uint32(ids[4:])
		}
		last = *r
	}
	if d.failed {
		return errDamaged
	}
	c.rows = rows
	return nil
}

// decoder reads numbers and texts. After an error it returns zero values.
type decoder struct {
	rest   []byte
	failed bool
}

// unsigned returns the next number, at most math.MaxInt64.
func (d *decoder) unsigned() uint64 {
	if len(d.rest) > 0 && d.rest[0] < 0x80 { // most numbers are small
		value := uint64(d.rest[0])
		d.rest = d.rest[1:]
		return value
	}
	value, n := binary.Uvarint(d.rest)
	if n <= 0 || value > math.MaxInt64 {
		d.rest, d.failed = nil, true
		return 0
	}
	d.rest = d.rest[n:]
	return value
}

// small returns the next number, which must fit.
func (d *decoder) small() int32 {
	value := d.unsigned()
	if value > math.MaxInt32 {
		d.rest, d.failed = nil, true
		return 0
	}
	return int32(value)
}

// names returns a list of texts. They share their memory.
func (d *decoder) names() []string {
	list := make([]string, min(d.count(1), math.MaxUint16))
	start, lengths := d.rest, make([][2]int, len(list))
	for i := range list {
		n := d.count(1)
		lengths[i] = [2]int{len(start) - len(d.rest), n}
		d.bytes(n)
	}
	if d.failed {
		return nil
	}
	all := string(start[:len(start)-len(d.rest)])
	for i, at := range lengths {
		list[i] = all[at[0] : at[0]+at[1]]
	}
	return list
}

func (d *decoder) signed() int64 {
	value, n := binary.Varint(d.rest)
	if n <= 0 {
		d.rest, d.failed = nil, true
		return 0
	}
	d.rest = d.rest[n:]
	return value
}

// count returns the next number, which counts things of at least size bytes that follow.
func (d *decoder) count(size int) int {
	n := d.unsigned()
	if n > uint64(len(d.rest)/size) {
		d.rest, d.failed = nil, true
		return 0
	}
	return int(n)
}

func (d *decoder) bytes(n int) []byte {
	if n > len(d.rest) {
		d.rest, d.failed = nil, true
		return nil
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

// calls returns the number of calls.
func (c *columns) calls() (n int) {
	for _, calls := range c.batches {
		n += calls
	}
	return n
}

// batchOf returns the entry of the log that has the details of a row, and the position of the row in it.
func (c *columns) batchOf(row int) (batch, position int) {
	for batch, calls := range c.batches {
		if row < calls {
			return batch, row
		}
		row -= calls
	}
	return len(c.batches), 0
}

// appendBatch appends the JSON lines of the first of the calls to b, and returns how many calls these are.
func appendBatch(b []byte, calls []Call) (lines []byte, n int) {
	lines = b
	for n < len(calls) && n < segmentCalls && len(lines)-len(b) < maxBatch {
		lines = append(calls[n].appendJSON(lines), '\n')
		n++
	}
	return lines, n
}

// encodeLines returns the entry of the log with the lines of a batch.
func encodeLines(lines []byte) []byte { return coders().EncodeAll(lines, nil) }

// decodeBatch returns the JSON of each call of an entry.
func decodeBatch(entry []byte) ([][]byte, error) {
	lines, err := coders().DecodeAll(entry, nil)
	if err != nil || len(lines) > maxDetails {
		return nil, errDamaged
	}
	return bytes.Split(bytes.TrimSuffix(lines, []byte("\n")), []byte("\n")), nil
}

// decodeCall decodes one call of a batch.
func decodeCall(line []byte) (call Call, err error) {
	if err = json.Unmarshal(line, &call, jsontext.AllowInvalidUTF8(true)); err != nil {
		return call, errDamaged
	}
	return call, nil
}

// coders compresses and decompresses. Its functions EncodeAll and DecodeAll are safe for concurrent use.
var coders = sync.OnceValue(func() struct {
	*zstd.Encoder
	*decompressor
} {
	// The window is that of a batch. It bounds the memory of the encoder.
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(maxBatch))
	if err != nil {
		panic(err) // the options are constants
	}
	reader, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(max(maxColumns, maxDetails)))
	if err != nil {
		panic(err) // the options are constants
	}
	return struct {
		*zstd.Encoder
		*decompressor
	}{encoder, &decompressor{reader}}
})

// decompressor has only the function of a decoder that is used.
type decompressor struct{ reader *zstd.Decoder }

// DecodeAll returns the decompressed data.
func (d *decompressor) DecodeAll(input, dst []byte) ([]byte, error) {
	return d.reader.DecodeAll(input, dst)
}

// segmentKey returns the key of a segment. Sequence distinguishes the segments that a node begins in a millisecond.
func segmentKey(first *Call, sequence uint16) string {
	return fmt.Sprintf("%s%s-%04x/%s", KeyPrefix, timeKey(first.Ended), sequence, first.Node)
}

// timeKey returns the time in a key. Keys sort by it.
func timeKey(at time.Time) string {
	return fmt.Sprintf("%0*x", timeDigits, max(at.UnixMilli(), 0))
}

// place is the part of the time line that the calls of a segment are in.
type place struct {
	key, node    string
	start, until int64 // microseconds since 1970; no call has ended at until or later
}

// placeOf returns the place of a segment, without its end.
func placeOf(key string) (p place, ok bool) {
	rest, ok := strings.CutPrefix(key, KeyPrefix)
	if !ok || len(rest) < timeLength+2 || rest[timeLength] != '/' {
		return p, false
	}
	milliseconds, err := strconv.ParseInt(rest[:timeDigits], 16, 64)
	return place{key: key, node: rest[timeLength+1:], start: milliseconds * 1000}, err == nil
}
