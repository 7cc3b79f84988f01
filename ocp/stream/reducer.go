package stream

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/fairwayhq/fairway/internal/buffer"
)

// Default limits.
const (
	defaultMaxContent = 1 << 20   // bytes of the result
	DefaultMaxEvent   = 256 << 10 // bytes of one event that is not part of the result
	defaultMaxEvents  = 100_000   // events that are not part of the result
)

// The media types of a result.
const (
	mediaJSON = "application/json"
	mediaText = "text/plain; charset=utf-8"
	mediaMCP  = "application/vnd.mcp.result+json"
)

// The errors that end a stream.
var (
	errTooLarge      = fmt.Errorf("the content of the stream exceeds the limit for results: %w", buffer.ErrTooLarge)
	errEventTooLarge = errors.New("an event of the stream exceeds the limit for one event")
	ErrTooManyEvents = errors.New("the stream has more events than it may have")
	ErrCutOff        = errors.New("the stream ended in the middle of an event, which an empty line has to end")
)

// Options set the listener and the limits of a Reducer.
type Options struct {
	// Listener is called with each event before the next byte is read. If it is nil,
	// events are not reported.
	Listener func(Event)

	// MaxContent bounds the result, in bytes. 0 means 1 MiB.
	MaxContent int64

	// MaxEvent bounds a progress or log event, in bytes. 0 means DefaultMaxEvent.
	// Content and result events are bounded by MaxContent instead.
	MaxEvent int

	// MaxEvents bounds the number of events that add nothing to the result, so that
	// an endless stream of them is stopped. 0 means 100,000.
	MaxEvents int
}

// A Reducer reads one stream, reports its events and collects its result. It is not
// safe for concurrent use.
type Reducer struct {
	format  Format
	options Options
	longest int // maximum size in bytes of any event

	to      *buffer.Buffer // the result so far
	parts   int            // number of content events in the result
	isJSON  bool           // whether the last content event is JSON
	settled string         // media type of the result event; "" if none has arrived

	line    *buffer.Buffer // the current, incomplete line
	started bool           // whether the first line has been read
	afterCR bool           // the last line ended in a carriage return: skip a line feed that follows

	data    *buffer.Buffer // the data of the current, incomplete event
	hasData bool
	name    name // the name of the current event

	events int  // number of events that added nothing to the result
	steps  int  // number of steps counted as progress
	counts bool // the stream sends its own progress numbers
	err    error
}

// NewReducer returns a Reducer that collects the result in to, which must be empty.
// The caller must call Finish or Release when it is done with the Reducer.
func NewReducer(format Format, to *buffer.Buffer, o Options) *Reducer {
	if o.MaxContent <= 0 {
		o.MaxContent = defaultMaxContent
	}
	if o.MaxEvent <= 0 {
		o.MaxEvent = DefaultMaxEvent
	}
	if o.MaxEvents <= 0 {
		o.MaxEvents = defaultMaxEvents
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

// Write parses the next bytes of the stream. It returns after the listener has
// received every event that p completes. An error is one of this package's errors
// and ends the stream.
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

// lineEnd returns the index of the first line ending in p, or -1. A carriage return
// ends a line only in event streams: in JSON it is white space.
func (r *Reducer) lineEnd(p []byte) int {
	if r.format == eventStream {
		return bytes.IndexAny(p, "\r\n")
	}
	return bytes.IndexByte(p, '\n')
}

// fits reports whether the current line stays within the limit if p is added.
func (r *Reducer) fits(p []byte) bool {
	const field = len("data: ") // the longest field name that precedes data
	return len(r.line.B)+len(p) <= r.longest+field
}

// extend appends p to the current line, which does not end in p.
func (r *Reducer) extend(p []byte) error {
	if !r.fits(p) {
		return errTooLarge
	}
	r.line.B = append(r.line.B, p...)
	return nil
}

// complete appends the last bytes of the current line and processes the line.
func (r *Reducer) complete(end []byte) error {
	if !r.fits(end) {
		return errTooLarge
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
	if r.format == eventStream {
		return r.field(line)
	}
	if len(line) > r.longest {
		return errTooLarge
	}
	if line = bytes.TrimSpace(line); len(line) == 0 {
		return nil
	}
	return r.event(unnamed, line)
}

// field processes one line of an event stream (WHATWG HTML, section 9.2.6). It
// ignores the fields id and retry, which are for reconnecting: a tool call does not
// reconnect.
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
			return errTooLarge
		}
		if r.hasData {
			r.data.B = append(r.data.B, '\n')
		}
		r.data.B = append(r.data.B, value...)
		r.hasData = true
	}
	return nil
}

// dispatch handles the event that an empty line completes. Events without a data
// field are ignored, as the specification requires.
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

// Settled reports whether the stream has sent a result event. From then on, an
// abrupt end of the stream does not change the result.
func (r *Reducer) Settled() bool {
	return r.settled != ""
}

// Err returns the error that ended the stream, or nil.
func (r *Reducer) Err() error {
	return r.err
}

// Finish ends the stream and returns the media type of the result, with a charset
// if the result is text. The media type is "" if there is no result. The last line
// of NDJSON needs no line ending. An incomplete event of an event stream is
// reported as ErrCutOff, unless the stream has already sent its result.
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

// Release returns the Reducer's buffers to the pool. The result buffer is kept.
func (r *Reducer) Release() {
	buffer.Put(r.line)
	buffer.Put(r.data)
	r.line, r.data, r.to = nil, nil, nil
	if r.err == nil {
		r.err = errReleased
	}
}

var errReleased = errors.New("the stream has ended")

// keep appends a content event to the result, unless a result event has arrived.
func (r *Reducer) keep(data []byte, isJSON bool) error {
	if r.Settled() {
		return r.tell(0)
	}
	separator := min(r.parts, 1)
	if int64(len(r.to.B)+separator+len(data)) > r.options.MaxContent {
		return errTooLarge
	}
	if separator > 0 {
		r.to.B = append(r.to.B, '\n')
	}
	r.to.B = append(r.to.B, data...)
	r.parts++
	r.isJSON = isJSON
	return nil
}

// settle makes data the result. If a stream sends several results, the last one
// replaces the others.
func (r *Reducer) settle(data []byte, contentType string) error {
	if int64(len(data)) > r.options.MaxContent {
		return errTooLarge
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

// tell counts an event of size bytes that adds nothing to the result, and enforces
// the limits on such events.
func (r *Reducer) tell(size int) error {
	if size > r.options.MaxEvent {
		return errEventTooLarge
	}
	if r.events++; r.events > r.options.MaxEvents {
		return ErrTooManyEvents
	}
	return nil
}

// text returns data as valid UTF-8. Invalid bytes are replaced by U+FFFD.
func text(data []byte) []byte {
	if utf8.Valid(data) {
		return data
	}
	return bytes.ToValidUTF8(data, []byte("\ufffd"))
}
