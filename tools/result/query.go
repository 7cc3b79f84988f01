package result

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/itchyny/gojq"

	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
)

// Limits of a Query.
const (
	// maxQuery is the maximum length of an expression, in bytes.
	maxQuery = 16 << 10

	// maxQueryTime is how long an expression may run on one response.
	maxQueryTime = time.Second

	// maxQuerySteps is how many instructions an expression may run on one response. On current machines
	// simple instructions take about a quarter of maxQueryTime. For instructions that call a function see
	// costs.
	maxQuerySteps = 5_000_000

	// minCheckSteps and maxCheckSteps are the number of steps between two checks of the limits: few while the
	// steps are slow, because a few steps can double the size of a value many times.
	minCheckSteps, maxCheckSteps = 4, 64

	// quickStep is the time that a step takes at most on average, so that the next check is after twice as
	// many steps.
	quickStep = 500 * time.Nanosecond

	// maxQueryMemory is the maximum memory of the values of all expressions that run at a time, in bytes. See
	// Memory. One caller can use three quarters of it.
	maxQueryMemory = 256 << 20

	// memoryCheckPause is the interval between two checks of the memory. Most expressions end before the
	// first check.
	memoryCheckPause = time.Millisecond

	// maxQueryOutput is the maximum size of the encoded result, in bytes.
	maxQueryOutput = 8 << 20

	// maxQueryValues is how many results an expression may yield.
	maxQueryValues = 100_000
)

// Errors of Query.Append.
var (
	// ErrNotJSON reports a body that is not one JSON value. The query was not run.
	ErrNotJSON = errors.New("the response is not JSON")

	errQueryTime   = fmt.Errorf("it takes longer than %s", maxQueryTime)
	errQuerySteps  = fmt.Errorf("it takes more than %d steps", maxQuerySteps)
	errQueryStep   = errors.New("one of its functions takes too long on values of this size")
	errQueryMemory = fmt.Errorf("it needs more memory than it may use of the %d bytes for all expressions", maxQueryMemory)
	errQueryOutput = fmt.Errorf("its result is larger than %d bytes", maxQueryOutput)
	errQueryValues = fmt.Errorf("it has more than %d results; collect or limit them", maxQueryValues)
)

// A Query is a compiled jq expression. It has no access to the environment, to files or to other
// inputs. It is safe for concurrent use.
type Query struct {
	source   string
	programs sync.Pool // of *program, one for each run at a time
}

// CompileQuery compiles a jq expression. The error says where in the expression the problem is.
func CompileQuery(source string) (*Query, error) {
	if len(source) > maxQuery {
		return nil, fmt.Errorf("the jq expression has %d bytes; the limit is %d", len(source), maxQuery)
	}
	p, err := compileProgram(source)
	if err != nil {
		if parseError, ok := errors.AsType[*gojq.ParseError](err); ok {
			return nil, fmt.Errorf("jq: %w %s", err, lineAndColumn(source, parseError.Offset-len(parseError.Token)))
		}
		return nil, fmt.Errorf("jq: %w%s", err, positionOfName(source, err.Error()))
	}
	q := &Query{source: source}
	q.programs.Put(p)
	return q, nil
}

// lineAndColumn describes a byte of the expression by line and column.
func lineAndColumn(source string, offset int) string {
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
		return " " + lineAndColumn(source, at)
	}
	return ""
}

// String returns the expression.
func (q *Query) String() string { return q.source }

// A Limit is what the runs of all queries share, and whose share of it one run uses.
type Limit struct {
	Memory *Memory
	Owner  share.Owner
}

// Append runs the query on a JSON body and appends the result, as compact JSON, to dst. If the
// expression yields several results, they become an array. If it yields none, the result is null.
//
//   - Members of objects are in the order of their names, as jq sorts them.
//   - Numbers that the expression does not calculate with keep all their digits. Calculations are
//     exact for integers and use 64-bit floating point for other numbers.
//   - If an object of the body has a name twice, the last one counts.
//
// If the memory of the limit is in use, Append waits for at most maxQueryTime.
//
// Append returns ErrNotJSON if the body is not JSON. Its other errors describe why the expression
// failed. They may quote the body. On an error dst is unchanged. The body must not change while Append runs.
func (q *Query) Append(ctx context.Context, limit Limit, dst, body []byte) ([]byte, error) {
	if !strictjson.Valid(body) {
		return dst, ErrNotJSON
	}
	p, _ := q.programs.Get().(*program)
	if p == nil {
		var err error
		if p, err = compileProgram(q.source); err != nil {
			return dst, err
		}
	}
	r := &run{Context: ctx, end: time.Now().Add(maxQueryTime)}
	if err := r.reserve(limit, body); err != nil {
		q.programs.Put(p)
		return dst, err
	}
	defer r.release()
	p.run, r.input = r, p.build(body)
	r.end, r.sampled = time.Now().Add(maxQueryTime), time.Now()
	r.results = p.code.RunWithContext(r, r.input)
	dst, err := r.append(dst)
	p.run = nil
	p.release()
	q.programs.Put(p)
	return dst, err
}

// append appends the results.
func (r *run) append(dst []byte) ([]byte, error) {
	e, start, count := encoder{dst: dst, limit: len(dst) + maxQueryOutput}, len(dst), 0
	for {
		result, ok := r.results.Next()
		if !ok {
			break
		}
		if err, failed := result.(error); failed {
			return dst, r.queryError(err)
		}
		if count++; count > maxQueryValues {
			return dst, errQueryValues
		}
		if count > 1 {
			e.dst = append(e.dst, ',')
		}
		if !e.value(result, maxNesting) {
			return dst, errQueryOutput
		}
	}
	switch count {
	case 0:
		e.dst = append(e.dst, "null"...)
	case 1:
	default:
		e.dst = append(slices.Insert(e.dst, start, '['), ']')
	}
	return e.dst, nil
}

// queryError returns the error of an expression that failed.
func (r *run) queryError(err error) error {
	if r.err != nil {
		return r.err
	}
	switch value := err.(type) { //nolint:errorlint // as the interpreter returns it
	case *gojq.HaltError:
		return errors.New("it ended with halt")
	case gojq.ValueError:
		if sizeOf(value.Value(), maxNesting) > maxCallWork {
			return errors.New("it ended with a large error")
		}
	}
	return errors.New(strings.Clone(text.Cut(err.Error(), maxQueryError))) // it may share memory with the body
}

// maxQueryError is the maximum length of an error of an expression, in bytes.
const maxQueryError = 500

// ShortReason returns the reason of an error of Append without content of the body.
func ShortReason(err error) string {
	switch {
	case errors.Is(err, errQueryTime), errors.Is(err, errQuerySteps), errors.Is(err, errQueryStep):
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

// A run is one run of an expression, and the context of the interpreter. The interpreter calls Done before
// each instruction, so that Done can count them without a timer.
type run struct {
	context.Context
	end     time.Time
	steps   int
	err     error     // why the run must end
	sampled time.Time // when the memory was checked

	checkAt  int       // the step at which the limits are checked next
	interval int       // steps between the previous check and that one
	checked  time.Time // when the limits were checked

	input   any
	results gojq.Iter
	memory  reservation
}

// ended is the channel of a run that must end.
var ended = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Done returns a closed channel if the run has exceeded its limits or its parent has ended.
func (r *run) Done() <-chan struct{} {
	if r.steps++; r.steps < r.checkAt && r.err == nil {
		return nil
	}
	before := r.checked
	if r.check() != nil {
		return ended
	}
	if r.checked.Sub(before) <= time.Duration(r.interval)*quickStep {
		r.interval = min(2*r.interval, maxCheckSteps)
	} else {
		r.interval = minCheckSteps
	}
	r.checkAt = r.steps + r.interval
	return nil
}

// check sets the error of the run if a limit is exceeded, and returns it.
func (r *run) check() error {
	now := time.Now()
	switch {
	case r.err != nil:
	case r.steps > maxQuerySteps:
		r.err = errQuerySteps
	case now.After(r.end):
		r.err = errQueryTime
	case r.Context.Err() != nil:
		r.err = r.Context.Err()
	case now.Sub(r.sampled) > memoryCheckPause:
		r.err = r.ensure(0)
		r.sampled = time.Now()
	}
	r.checked = now
	return r.err
}

// Err returns why the run must end.
func (r *run) Err() error { return r.err }
