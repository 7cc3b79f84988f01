package result

import (
	"context"
	"fmt"
	"reflect"
	"runtime/metrics"
	"sync"
	"time"
	"unsafe"

	"github.com/itchyny/gojq"

	"github.com/fairwayhq/fairway/internal/share"
)

// Memory limits the memory of all expressions that run at a time. Each caller has a share of it. It is
// safe for concurrent use.
//
// A run reserves memory for its values. Go does not count the allocations of a goroutine, but it counts
// those of the process: as long as the process has allocated less than the run has reserved, the run is
// within its reservation. Only otherwise the values that the run can reach are measured.
type Memory struct {
	bound *share.Bound

	mu    sync.Mutex
	freed chan struct{} // closed when a reservation is returned
}

// NewMemory returns a Memory of maxQueryMemory bytes. Warn may be nil, see share.Options.
func NewMemory(warn func(share.Usage)) *Memory {
	return &Memory{
		bound: share.NewBound(share.Options{Name: "memory of select", Limit: maxQueryMemory, Warn: warn}),
		freed: make(chan struct{}),
	}
}

// take reserves n bytes. If other runs use the memory, it waits for them, at most until the end.
func (m *Memory) take(ctx context.Context, o share.Owner, n int64, end time.Time) error {
	timeout := time.After(time.Until(end))
	for {
		m.mu.Lock()
		freed := m.freed
		m.mu.Unlock()
		err := m.bound.Take(o, n)
		if err == nil {
			return nil
		}
		if n > maxQueryMemory {
			return errQueryMemory
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return ctx.Err()
		case <-timeout:
			return fmt.Errorf("%w: %w", errQueryMemory, err)
		}
	}
}

// give returns n bytes.
func (m *Memory) give(o share.Owner, n int64) {
	m.bound.Give(o, n)
	m.mu.Lock()
	close(m.freed)
	m.freed = make(chan struct{})
	m.mu.Unlock()
}

// A reservation is the memory that one run has reserved.
type reservation struct {
	Limit
	bytes   int64
	live    int64  // bytes of the run's values when they were last measured
	counted uint64 // allocations of the process at that time
}

// spareMemory is how much a run reserves in addition to what it needs now.
const spareMemory = 4 << 20

// reserve reserves the memory for decoding a body, and starts to count.
func (r *run) reserve(limit Limit, body []byte) error {
	needed := decodedMemory(body)
	if err := limit.Memory.take(r.Context, limit.Owner, needed+spareMemory, r.end); err != nil {
		return err
	}
	r.memory = reservation{Limit: limit, bytes: needed + spareMemory, live: needed, counted: allocated()}
	return nil
}

// release returns the reservation.
func (r *run) release() { r.memory.Memory.give(r.memory.Owner, r.memory.bytes) }

// ensure returns an error if the run may not allocate n more bytes.
func (r *run) ensure(n int64) error {
	m := &r.memory
	now := allocated()
	if m.live+int64(now-m.counted)+n <= m.bytes { //nolint:gosec // a difference
		return nil
	}
	live, ok := r.measure()
	if !ok {
		return errQueryMemory
	}
	m.live, m.counted = live, now
	for _, spare := range [...]int64{max(spareMemory, live), spareMemory} {
		more := live + n + spare - m.bytes
		if more <= 0 {
			return nil
		}
		if more <= maxQueryMemory && m.Memory.bound.Take(m.Owner, more) == nil {
			m.bytes += more
			return nil
		}
	}
	return errQueryMemory
}

// allocated returns how many bytes the process has allocated since it started.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// measure returns the bytes of all values that the interpreter holds: its stacks and variables, and what
// they refer to. It returns false if this is more than the limit.
func (r *run) measure() (bytes int64, ok bool) {
	m := measurement{seen: make(map[unsafe.Pointer]int), left: maxQueryMemory}
	m.add(reflect.ValueOf(r.input), maxNesting)
	m.add(reflect.ValueOf(r.results), maxNesting)
	return maxQueryMemory - m.left, m.left >= 0
}

// A measurement adds up the memory that values refer to. Parts that several values share count once.
type measurement struct {
	seen map[unsafe.Pointer]int // lengths of what was counted, by its address
	left int64
}

// first counts memory at an address. It returns false if it has been counted, or if the limit is reached.
func (m *measurement) first(at unsafe.Pointer, length int, bytes int64) bool {
	if counted, seen := m.seen[at]; seen && counted >= length || m.left < 0 {
		return false
	}
	m.seen[at] = length
	m.left -= bytes
	return m.left >= 0
}

// add adds what a value refers to. Of pointers, it follows those to values of the interpreter only.
func (m *measurement) add(v reflect.Value, nesting int) {
	if nesting == 0 {
		m.left = -1
	}
	if m.left < 0 {
		return
	}
	switch v.Kind() {
	case reflect.String:
		if s := v.String(); len(s) <= smallText {
			m.left -= int64(len(s))
		} else {
			m.first(unsafe.Pointer(unsafe.StringData(s)), len(s), int64(len(s))) //nolint:gosec // an address to compare
		}
	case reflect.Interface:
		if !v.IsNil() {
			m.left -= int64(v.Elem().Type().Size()) //nolint:gosec // a size
			m.add(v.Elem(), nesting)
		}
	case reflect.Slice:
		if v.Len() > 0 && m.first(v.UnsafePointer(), v.Len(), int64(v.Cap())*int64(v.Type().Elem().Size())) && refers(v.Type().Elem()) { //nolint:gosec // a size
			for i := range v.Len() {
				m.add(v.Index(i), nesting-1)
			}
		}
	case reflect.Map:
		if m.first(v.UnsafePointer(), v.Len(), mapMemory(v.Len())) && refers(v.Type().Elem()) {
			for members := v.MapRange(); members.Next(); {
				m.add(members.Key(), nesting-1)
				m.add(members.Value(), nesting-1)
			}
		}
	case reflect.Array:
		for i := range v.Len() {
			m.add(v.Index(i), nesting)
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			m.add(field, nesting)
		}
	case reflect.Pointer:
		of := v.Type().Elem().PkgPath()
		if !v.IsNil() && (of == interpreter || of == "math/big") && m.first(v.UnsafePointer(), 0, 0) {
			m.add(v.Elem(), nesting)
		}
	}
}

// interpreter is the package of gojq.
var interpreter = reflect.TypeFor[gojq.Code]().PkgPath()

// refers reports whether values of a type can refer to memory.
func refers(t reflect.Type) bool {
	if t.Kind() != reflect.Struct {
		return t.Kind() > reflect.Complex128
	}
	for field := range t.Fields() {
		if refers(field.Type) {
			return true
		}
	}
	return false
}

// mapMemory returns the memory of a map. Up to eight members are in one group.
func mapMemory(members int) int64 {
	const empty, group, each = 48, 264, 72
	switch {
	case members == 0:
		return empty
	case members <= 8:
		return empty + group
	}
	return int64(empty + each*members)
}

// smallText is the length up to which equal addresses of texts are not looked up.
const smallText = 256
