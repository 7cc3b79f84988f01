package answer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"runtime/metrics"
	"strings"
	"time"

	"github.com/itchyny/gojq"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/internal/wire"
)

// Limits of a Query.
const (
	// MaxQuery is the maximum length of an expression, in bytes.
	MaxQuery = 16 << 10

	// MaxQueryTime is how long an expression may run on one response.
	MaxQueryTime = time.Second

	// maxQuerySteps is how many instructions an expression may run on one response. Each step
	// allocates at most a few values, so that the limit also bounds the memory of an expression
	// that collects values without end. On current machines it takes about a quarter of MaxQueryTime.
	maxQuerySteps = 5_000_000

	// timeCheckSteps is the number of steps between two checks of the time. It is small because a few steps
	// can double the size of a value many times.
	timeCheckSteps = 4

	// MaxQueryMemory is the maximum growth of the memory of the process while an expression runs. A single
	// step may exceed it, because the memory is checked between steps.
	MaxQueryMemory = 256 << 20

	// memoryCheckPause is the interval between two checks of the memory. Most expressions end before the
	// first check.
	memoryCheckPause = time.Millisecond

	// MaxQueryOutput is the maximum size of the encoded result, in bytes.
	MaxQueryOutput = 8 << 20

	// maxQueryValues is how many results an expression may yield.
	maxQueryValues = 100_000
)

// Errors of Query.Append.
var (
	// ErrNotJSON reports a body that is not one JSON value. The query was not run.
	ErrNotJSON = errors.New("the response is not JSON")

	errQueryTime   = fmt.Errorf("it takes longer than %s", MaxQueryTime)
	errQuerySteps  = fmt.Errorf("it takes more than %d steps", maxQuerySteps)
	errQueryMemory = fmt.Errorf("it needs more than %d bytes of memory", MaxQueryMemory)
	errQueryOutput = fmt.Errorf("its result is larger than %d bytes", MaxQueryOutput)
	errQueryValues = fmt.Errorf("it has more than %d results; collect or limit them", maxQueryValues)
)

// A Query is a compiled jq expression. It has no access to the environment, to files or to other
// inputs. It is safe for concurrent use.
type Query struct {
	source string
	code   *gojq.Code
	need   *need       // the parts of the input that the expression can reach
	fast   *projection // nil if the expression is not one
}

// Compile compiles a jq expression. The error says where in the expression the problem is.
func Compile(source string) (*Query, error) {
	if len(source) > MaxQuery {
		return nil, fmt.Errorf("the jq expression has %d bytes; the limit is %d", len(source), MaxQuery)
	}
	parsed, err := gojq.Parse(source)
	if err != nil {
		if parseError, ok := errors.AsType[*gojq.ParseError](err); ok {
			return nil, fmt.Errorf("jq: %w %s", err, position(source, parseError.Offset-len(parseError.Token)))
		}
		return nil, fmt.Errorf("jq: %w", err)
	}
	if len(parsed.Imports) > 0 {
		return nil, errors.New("jq: import and include are not available: write the functions into the expression")
	}
	code, err := gojq.Compile(parsed)
	if err != nil {
		return nil, fmt.Errorf("jq: %w%s", err, positionOfName(source, err.Error()))
	}
	return &Query{source: source, code: code, need: needsOf(parsed), fast: projectionOf(parsed)}, nil
}

// position describes a byte of the expression by line and column.
func position(source string, offset int) string {
	before := source[:min(max(offset, 0), len(source))]
	line := 1 + strings.Count(before, "\n")
	column := len([]rune(before[strings.LastIndexByte(before, '\n')+1:])) + 1
	if line == 1 {
		return fmt.Sprintf("at column %d", column)
	}
	return fmt.Sprintf("at line %d, column %d", line, column)
}

// positionOfName returns the position of the name that an error of the compiler ends with, such as
// "function not defined: foo/0". It returns "" if the name is not found: these errors have no
// position.
func positionOfName(source, message string) string {
	name := message[strings.LastIndexByte(message, ' ')+1:]
	name, _, _ = strings.Cut(name, "/")
	if at := strings.Index(source, name); name != "" && at >= 0 {
		return " " + position(source, at)
	}
	return ""
}

// String returns the expression.
func (q *Query) String() string { return q.source }

// Append runs the query on a JSON body and appends the result, as compact JSON, to dst. If the
// expression yields several results, they become an array. If it yields none, the result is null.
//
//   - Members of objects are in the order of their names, as jq sorts them.
//   - Numbers that the expression does not calculate with keep all their digits. Calculations are
//     exact for integers and use 64-bit floating point for other numbers.
//   - If an object of the body has a name twice, the last one counts.
//
// Append returns ErrNotJSON if the body is not JSON. Its other errors describe why the expression
// failed. They may quote the body. On an error dst is unchanged.
func (q *Query) Append(ctx context.Context, dst, body []byte) ([]byte, error) {
	if !wire.Valid(body) {
		return dst, ErrNotJSON
	}
	now := time.Now()
	budget := &queryBudget{Context: ctx, end: now.Add(MaxQueryTime), looked: now}
	if q.fast != nil {
		if projected, ok := q.fast.project(dst, body, budget); ok {
			return projected, nil
		}
	}
	results := q.code.RunWithContext(budget, decode(body, q.need))
	start, count := len(dst), 0
	for {
		result, ok := results.Next()
		if !ok {
			break
		}
		if err, failed := result.(error); failed {
			return dst[:start], queryError(err)
		}
		if count++; count > maxQueryValues {
			return dst[:start], errQueryValues
		}
		if count > 1 {
			dst = append(dst, ',')
		}
		if dst = appendValue(dst, result, start+MaxQueryOutput); len(dst) > start+MaxQueryOutput {
			return dst[:start], errQueryOutput
		}
	}
	switch count {
	case 0:
		dst = append(dst, "null"...)
	case 1:
	default:
		dst = append(append(dst, ' '), ']')
		copy(dst[start+1:], dst[start:len(dst)-2])
		dst[start] = '['
		dst[len(dst)-1] = ']'
	}
	return dst, nil
}

// queryError returns the error of an expression that failed.
func queryError(err error) error {
	var halted *gojq.HaltError
	switch {
	case errors.As(err, &halted):
		return errors.New("it ended with halt")
	case errors.Is(err, errQueryTime), errors.Is(err, errQuerySteps), errors.Is(err, errQueryMemory),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return errors.New(text.Cut(err.Error(), maxQueryError))
}

// maxQueryError is the maximum length of an error of an expression, in bytes.
const maxQueryError = 500

// ShortReason returns the reason of an error of Append without content of the body.
func ShortReason(err error) string {
	switch {
	case errors.Is(err, errQueryTime), errors.Is(err, errQuerySteps):
		return "it takes too long on this response"
	case errors.Is(err, errQueryMemory):
		return "it needs too much memory on this response"
	case errors.Is(err, errQueryOutput), errors.Is(err, errQueryValues):
		return "its result is too large"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "the call ended before it was finished"
	}
	return "the response is not as the expression expects it"
}

// queryBudget is the context of a run. The interpreter calls Done before each instruction, so that
// Done can count them without a timer.
type queryBudget struct {
	context.Context
	end   time.Time
	steps int
	err   error

	looked time.Time // time of the last check of the memory
	memory uint64    // result of the first check; 0 before it
}

// ended is the channel of a run that must end.
var ended = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Done returns a closed channel if the run has exceeded its limits or its parent has ended.
func (b *queryBudget) Done() <-chan struct{} {
	b.steps++
	if b.steps%timeCheckSteps != 0 && b.err == nil {
		return nil
	}
	now := time.Now()
	switch {
	case b.err != nil:
	case b.steps > maxQuerySteps:
		b.err = errQuerySteps
	case now.Sub(b.looked) > memoryCheckPause && b.exceedsMemory():
		b.err = errQueryMemory
	case now.After(b.end):
		b.err = errQueryTime
	default:
		b.err = b.Context.Err()
	}
	if b.err != nil {
		return ended
	}
	return nil
}

// exceedsMemory reports whether the memory of the process has grown by more than MaxQueryMemory since
// the first check. It runs the garbage collector before it decides, so that garbage of other goroutines
// does not count.
func (b *queryBudget) exceedsMemory() bool {
	defer func() { b.looked = time.Now() }()
	used := usedMemory()
	if b.memory == 0 {
		b.memory = used
	}
	if used < b.memory+MaxQueryMemory {
		return false
	}
	runtime.GC()
	return usedMemory() >= b.memory+MaxQueryMemory
}

// usedMemory returns the bytes of all values on the heap, including garbage.
func usedMemory() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// Err returns why the run must end.
func (b *queryBudget) Err() error { return b.err }

// appendValue appends a result as compact JSON. It stops when it has appended more than limit bytes:
// because values may share parts, a small value can have a very large encoding.
func appendValue(dst []byte, value any, limit int) []byte {
	if len(dst) > limit {
		return dst
	}
	switch v := value.(type) {
	case nil:
		return append(dst, "null"...)
	case string:
		return wire.AppendString(dst, v)
	case json.Number:
		return append(dst, v...)
	case []any:
		dst = append(dst, '[')
		for i, item := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst = appendValue(dst, item, limit); len(dst) > limit {
				return dst
			}
		}
		return append(dst, ']')
	case map[string]any:
		return appendObject(dst, v, limit)
	}
	return appendScalar(dst, value)
}
