package sse

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"time"

	"github.com/fairwayhq/fairway/internal/buffer"
)

// ErrTooLarge means that an event, or a line, exceeds the limit. It wraps buffer.ErrTooLarge.
var ErrTooLarge = fmt.Errorf("an event of the stream is too large: %w", buffer.ErrTooLarge)

// Event is an event of a stream. Its bytes are valid until the function that gets it returns.
type Event struct {
	Name []byte // the field event; empty for none
	Data []byte // the values of the fields data, joined with line feeds
}

// Parser splits a stream into events. It is not safe for concurrent use.
type Parser struct {
	handle   func(Event) error
	limit    int
	newlines string // characters that end a line
	read     func(line []byte) error

	line    *buffer.Buffer // the current, incomplete line
	started bool           // the first line has been read
	afterCR bool           // the last line ended with a carriage return: skip a line feed that follows

	name    []byte         // of the current event
	data    *buffer.Buffer // of the current event
	hasData bool
	id      []byte // the last one
	lastID  []byte // of events that have ended
	retry   time.Duration
	err     error
}

// NewParser returns a Parser that calls handle with each event. limit is the maximum size of the data of an event, and
// of each of its lines, in bytes. Release returns the memory of the Parser to the pool.
func NewParser(limit int, handle func(Event) error) *Parser {
	p := &Parser{handle: handle, limit: limit, newlines: "\r\n", line: buffer.Get(), data: buffer.Get()}
	p.read = p.field
	return p
}

// NewLineParser returns a Parser for a stream in which each line is an event, such as NDJSON. Its events have no name.
// In JSON, a carriage return is white space and ends no line.
func NewLineParser(limit int, handle func(Event) error) *Parser {
	p := &Parser{handle: handle, limit: limit, newlines: "\n", line: buffer.Get()}
	p.read = func(line []byte) error { return handle(Event{Data: line}) }
	return p
}

// Write parses the next bytes of the stream. It returns after handle has returned for each event that they complete.
// The error is ErrTooLarge or that of handle. It ends the stream: later calls return it too.
func (p *Parser) Write(piece []byte) (int, error) {
	rest := piece
	for p.err == nil && len(rest) > 0 {
		if p.afterCR {
			p.afterCR = false
			if rest[0] == '\n' {
				rest = rest[1:]
				continue
			}
		}
		end := bytes.IndexAny(rest, p.newlines)
		if end < 0 {
			if p.err = p.fit(rest); p.err != nil {
				break
			}
			p.line.B = append(p.line.B, rest...)
			return len(piece), nil
		}
		line := rest[:end]
		p.afterCR = rest[end] == '\r'
		rest = rest[end+1:]
		p.err = p.complete(line)
	}
	return len(piece) - len(rest), p.err
}

// Finish parses the last line if it has no line ending. It reports whether the stream ended within an event: such an
// event is incomplete, and handle does not get it.
func (p *Parser) Finish() (incomplete bool, err error) {
	if p.err == nil && len(p.line.B) > 0 {
		p.err = p.complete(nil)
	}
	return p.hasData, p.err
}

// Release returns the memory of the Parser to the pool. The Parser cannot be used afterwards.
func (p *Parser) Release() {
	buffer.Put(p.line)
	buffer.Put(p.data)
	p.line, p.data = nil, nil
}

// fit returns ErrTooLarge if the current line exceeds the limit with piece.
func (p *Parser) fit(piece []byte) error {
	if len(p.line.B)+len(piece) > p.limit+len("data: ") {
		return ErrTooLarge
	}
	return nil
}

// complete reads the current line, which ends with piece. The first line may begin with a byte order mark.
func (p *Parser) complete(piece []byte) error {
	if err := p.fit(piece); err != nil {
		return err
	}
	line := piece
	if len(p.line.B) > 0 {
		p.line.B = append(p.line.B, piece...)
		line = p.line.B
	}
	if !p.started {
		p.started = true
		line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
	}
	err := p.read(line)
	p.line.B = p.line.B[:0]
	return err
}

// field reads one line of an event stream.
func (p *Parser) field(line []byte) error {
	if len(line) == 0 {
		return p.dispatch()
	}
	field, value, _ := bytes.Cut(line, []byte{':'})
	value = bytes.TrimPrefix(value, []byte{' '})
	switch string(field) {
	case "event":
		p.name = append(p.name[:0], value...)
	case "data":
		if len(p.data.B)+len(value) > p.limit {
			return ErrTooLarge
		}
		if p.hasData {
			p.data.B = append(p.data.B, '\n')
		}
		p.data.B = append(p.data.B, value...)
		p.hasData = true
	case "id":
		if !bytes.ContainsRune(value, 0) {
			p.id = append(p.id[:0], value...)
		}
	case "retry":
		if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
			p.retry = time.Duration(ms) * time.Millisecond
		}
	}
	return nil
}

// LastID returns the latest id of an event, "" if there was none. A client repeats it to continue the stream.
func (p *Parser) LastID() string { return string(p.lastID) }

// Retry returns how long a client should wait before it continues the stream, 0 if the stream does not say.
func (p *Parser) Retry() time.Duration { return p.retry }

// dispatch passes on the event that an empty line ends. An event without data is ignored.
func (p *Parser) dispatch() (err error) {
	p.lastID = append(p.lastID[:0], p.id...)
	if p.hasData {
		err = p.handle(Event{p.name, p.data.B})
		p.data.B = p.data.B[:0]
	}
	p.name, p.hasData = p.name[:0], false
	return err
}

// errStopped ends a stream whose reader needs no more events.
var errStopped = errors.New("the reader of the stream has stopped")

// Events returns the events of a stream until its end. The last pair has the error if reading fails or an event has
// more than limit bytes. An event without the empty line that ends it is ignored.
func Events(r io.Reader, limit int) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		p := NewParser(limit, func(e Event) error {
			if !yield(e, nil) {
				return errStopped
			}
			return nil
		})
		defer p.Release()
		if _, err := io.Copy(p, r); err != nil && !errors.Is(err, errStopped) {
			yield(Event{}, err)
		}
	}
}
