package stream

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/fairwayhq/fairway/internal/buffer"
)

// Defaults of the limits.
const (
	DefaultMaxContent = 1 << 20   // bytes of the result
	DefaultMaxEvent   = 256 << 10 // bytes of one event that is not part of the result
	DefaultMaxTold    = 100_000   // events that are not part of the result
)

// The media types of a result.
const (
	mediaJSON = "application/json"
	mediaText = "text/plain; charset=utf-8"
	mediaMCP  = "application/vnd.mcp.result+json"
)

// Why a stream is given up.
var (
	ErrTooLarge      = fmt.Errorf("the stream has more content than a result may have: %w", buffer.ErrTooLarge)
	ErrEventTooLarge = errors.New("an event of the stream is larger than one may be")
	ErrTooManyEvents = errors.New("the stream has more events than it may have")
	ErrCutOff        = errors.New("the stream ended in the middle of an event, which an empty line has to end")
)

// Options say whom a stream is told to and what bounds it.
type Options struct {
	// Listener is called with each event before the next byte is read; nil tells
	// nobody.
	Listener func(Event)

	// MaxContent bounds the result, in bytes. 0 means DefaultMaxContent.
	MaxContent int64

	// MaxEvent bounds an event of progress or of a log, in bytes. 0 means
	// DefaultMaxEvent. What is content or a result may be as large as the result
	// may be.
	MaxEvent int

	// MaxTold bounds the number of events that leave nothing in the result, so
	// that a stream that goes on for ever with them has an end. 0 means
	// DefaultMaxTold.
	MaxTold int
}

// A Reducer reads one stream, of which it keeps the result. It is not safe for
// concurrent use.
type Reducer struct {
	format  Format
	options Options
	longest int // bytes of one event, whatever it is

	to      *buffer.Buffer // the result so far
	parts   int            // of content in the result
	isJSON  bool           // the last part is JSON
	settled string         // media type of a result event; "" before one

	line    *buffer.Buffer // that has not ended yet
	started bool           // the first line is over
	afterCR bool           // a line feed would be of the line ending before it

	data    *buffer.Buffer // of an event that has not ended yet
	hasData bool
	name    name // of that event

	told   int  // events that left nothing in the result
	steps  int  // that count as progress
	counts bool // the stream says numbers of its own
	err    error
}

// NewReducer returns a Reducer that keeps the result in to, which is empty. Call
// Finish or Release when done with it.
func NewReducer(format Format, to *buffer.Buffer, o Options) *Reducer {
	if o.MaxContent <= 0 {
		o.MaxContent = DefaultMaxContent
	}
	if o.MaxEvent <= 0 {
		o.MaxEvent = DefaultMaxEvent
	}
	if o.MaxTold <= 0 {
		o.MaxTold = DefaultMaxTold
	}
	return &Reducer{
		format:  format,
		options: o,
		longest: int(max(o.MaxContent, int64(o.MaxEvent))),
		to:      to,
		line:    buffer.Get(),
		data:    buffer.Get(),
	}
}

// Write reads on. It returns after the listener has heard of every event that p
// completes. An error is one of this package and ends the stream.
func (r *Reducer) Write(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	rest := p
	for len(rest) > 0 {
		if r.afterCR {
			r.afterCR = false
			if rest[0] == '\n' {
				rest = rest[1:]
				continue
			}
		}
		end := r.lineEnd(rest)
		if end < 0 {
			r.err = r.extend(rest)
			break
		}
		line := rest[:end]
		r.afterCR = rest[end] == '\r'
		rest = rest[end+1:]
		if r.err = r.complete(line); r.err != nil {
			break
		}
	}
	if r.err != nil {
		return len(p) - len(rest), r.err
	}
	return len(p), nil
}

// lineEnd returns where the line ends that p begins with, -1 if it does not.
// Carriage returns are line endings of event streams only: in JSON they are space.
func (r *Reducer) lineEnd(p []byte) int {
	if r.format == EventStream {
		return bytes.IndexAny(p, "\r\n")
	}
	return bytes.IndexByte(p, '\n')
}

// fits reports whether a line may go on with p.
func (r *Reducer) fits(p []byte) bool {
	const field = len("data: ") // beside the data
	return len(r.line.B)+len(p) <= r.longest+field
}

// extend keeps the beginning of a line.
func (r *Reducer) extend(p []byte) error {
	if !r.fits(p) {
		return ErrTooLarge
	}
	r.line.B = append(r.line.B, p...)
	return nil
}

// complete takes the end of a line.
func (r *Reducer) complete(end []byte) error {
	if !r.fits(end) {
		return ErrTooLarge
	}
	line := end
	if len(r.line.B) > 0 {
		r.line.B = append(r.line.B, end...)
		line = r.line.B
	}
	if !r.started {
		r.started = true
		line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf")) // a byte order mark
	}
	err := r.read(line)
	r.line.B = r.line.B[:0]
	return err
}

func (r *Reducer) read(line []byte) error {
	if r.format == EventStream {
		return r.field(line)
	}
	if len(line) > r.longest {
		return ErrTooLarge
	}
	if line = bytes.TrimSpace(line); len(line) == 0 {
		return nil
	}
	return r.event(unnamed, line)
}

// field reads one line of an event stream (WHATWG HTML, section 9.2.6). Of its
// fields, id and retry are about reconnecting, which a tool call does not do.
func (r *Reducer) field(line []byte) error {
	if len(line) == 0 {
		return r.dispatch()
	}
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(field) {
	case "event":
		r.name = nameOf(value)
	case "data":
		if len(r.data.B)+len("\n")+len(value) > r.longest+len("\n") {
			return ErrTooLarge
		}
		if r.hasData {
			r.data.B = append(r.data.B, '\n')
		}
		r.data.B = append(r.data.B, value...)
		r.hasData = true
	}
	return nil
}

// dispatch takes the event that an empty line has ended. One without data is
// none.
func (r *Reducer) dispatch() error {
	name, hasData := r.name, r.hasData
	r.name, r.hasData = unnamed, false
	if !hasData {
		return nil
	}
	err := r.event(name, r.data.B)
	r.data.B = r.data.B[:0]
	return err
}

// Settled reports whether the stream has said its result, so that no other end
// of it can change what the result is.
func (r *Reducer) Settled() bool {
	return r.settled != ""
}

// Err returns the error that ended the stream, nil if none has.
func (r *Reducer) Err() error {
	return r.err
}

// Finish ends the stream and returns the media type of the result, with its
// charset where it is text; "" if there is no result. Lines of JSON may end
// without a line ending; an event that is cut off is ErrCutOff.
func (r *Reducer) Finish() (contentType string, err error) {
	defer r.Release()
	if r.err == nil && len(r.line.B) > 0 {
		r.err = r.complete(nil)
	}
	if r.err == nil && r.hasData && !r.Settled() {
		r.err = ErrCutOff
	}
	switch {
	case r.err != nil:
		return "", r.err
	case len(r.to.B) == 0:
		return "", nil
	case r.Settled():
		return r.settled, nil
	case r.parts == 1 && r.isJSON:
		return mediaJSON, nil
	}
	return mediaText, nil
}

// Release gives back what the Reducer has taken from the pool. The result stays.
func (r *Reducer) Release() {
	buffer.Put(r.line)
	buffer.Put(r.data)
	r.line, r.data, r.to = nil, nil, nil
	if r.err == nil {
		r.err = errReleased
	}
}

var errReleased = errors.New("the stream has ended")

// keep adds a part of content to the result, unless the stream has said its own.
func (r *Reducer) keep(data []byte, isJSON bool) error {
	if r.Settled() {
		return r.tell(0)
	}
	separator := min(r.parts, 1)
	if int64(len(r.to.B)+separator+len(data)) > r.options.MaxContent {
		return ErrTooLarge
	}
	if separator > 0 {
		r.to.B = append(r.to.B, '\n')
	}
	r.to.B = append(r.to.B, data...)
	r.parts++
	r.isJSON = isJSON
	return nil
}

// settle makes data the result. Of several results the last one is it.
func (r *Reducer) settle(data []byte, contentType string) error {
	if int64(len(data)) > r.options.MaxContent {
		return ErrTooLarge
	}
	if r.Settled() {
		if err := r.tell(0); err != nil {
			return err
		}
	}
	r.to.B = append(r.to.B[:0], data...)
	r.settled = contentType
	return nil
}

// tell counts an event of that size which leaves nothing in the result.
func (r *Reducer) tell(size int) error {
	if size > r.options.MaxEvent {
		return ErrEventTooLarge
	}
	if r.told++; r.told > r.options.MaxTold {
		return ErrTooManyEvents
	}
	return nil
}

// text returns data as valid UTF-8.
func text(data []byte) []byte {
	if utf8.Valid(data) {
		return data
	}
	return bytes.ToValidUTF8(data, []byte("\ufffd"))
}
