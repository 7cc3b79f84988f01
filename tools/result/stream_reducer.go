package result

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/sse"
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
)

// NativeType is the media type of responses that are MCP results themselves (package mcpadapter).
const NativeType = "application/vnd.mcp.result+json"

// The errors that end a stream.
var (
	errTooLarge      = fmt.Errorf("the content of the stream exceeds the limit for results: %w", buffer.ErrTooLarge)
	errEventTooLarge = errors.New("an event of the stream exceeds the limit for one event")
	ErrTooManyEvents = errors.New("the stream has more events than it may have")
	ErrCutOff        = errors.New("the stream ended in the middle of an event, which an empty line has to end")
)

// StreamOptions set the listener and the limits of a Reducer.
type StreamOptions struct {
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
	stream  *sse.Parser
	options StreamOptions

	to      *buffer.Buffer // the result so far
	parts   int            // number of content events in the result
	isJSON  bool           // whether the last content event is JSON
	settled string         // media type of the result event; "" if none has arrived

	events int  // number of events that added nothing to the result
	steps  int  // number of steps counted as progress
	counts bool // the stream sends its own progress numbers
	err    error
}

// NewReducer returns a Reducer that collects the result in to, which must be empty.
// The caller must call Finish or Release when it is done with the Reducer.
func NewReducer(format Format, to *buffer.Buffer, o StreamOptions) *Reducer {
	o.MaxContent = cmp.Or(max(o.MaxContent, 0), defaultMaxContent)
	o.MaxEvent = cmp.Or(max(o.MaxEvent, 0), DefaultMaxEvent)
	o.MaxEvents = cmp.Or(max(o.MaxEvents, 0), defaultMaxEvents)
	r := &Reducer{options: o, to: to}
	longest := int(max(o.MaxContent, int64(o.MaxEvent))) // any event, in bytes
	if format == jsonLines {
		r.stream = sse.NewLineParser(longest, r.line)
	} else {
		r.stream = sse.NewParser(longest, r.named)
	}
	return r
}

// Write parses the next bytes of the stream. It returns after the listener has
// received every event that p completes. An error is one of this package's errors
// and ends the stream.
func (r *Reducer) Write(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	n, err := r.stream.Write(p)
	r.err = readError(err)
	return n, r.err
}

// readError returns the error for one of the parser.
func readError(err error) error {
	if err == sse.ErrTooLarge { //nolint:errorlint // not one that wraps it
		return errTooLarge
	}
	return err
}

// line handles one line of NDJSON.
func (r *Reducer) line(e sse.Event) error {
	data := bytes.TrimSpace(e.Data)
	if len(data) == 0 {
		return nil
	}
	return r.event(unnamed, data)
}

// named handles one event of an event stream.
func (r *Reducer) named(e sse.Event) error { return r.event(eventName(e.Name), e.Data) }

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
	if r.err == nil {
		incomplete, err := r.stream.Finish()
		r.err = readError(err)
		if err == nil && incomplete && !r.Settled() {
			r.err = ErrCutOff
		}
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
	if r.stream != nil {
		r.stream.Release()
	}
	r.stream, r.to = nil, nil
	if r.err == nil {
		r.err = errors.New("the stream has ended")
	}
}

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
func eventText(data []byte) []byte {
	if utf8.Valid(data) {
		return data
	}
	return bytes.ToValidUTF8(data, []byte("\ufffd"))
}
