package chat

import (
	"bytes"
	"errors"
	"slices"

	"github.com/fairwayhq/fairway/internal/wire"
)

// event is one server-sent event of a stream (WHATWG HTML, 9.2).
type event struct {
	name []byte // "" for none
	data []byte // JSON, or the end mark
}

// endMark is the data of the last event of an OpenAI stream.
var endMark = []byte("[DONE]")

const maxEventName = 64 // bytes

var (
	errEventName = errors.New("an event has an invalid name")
	errEventData = errors.New("an event is not valid JSON")
	errEventNone = errors.New("it has no events")
)

func (e *event) isEnd() bool { return bytes.Equal(e.data, endMark) }

// append appends the encoded event.
func (e *event) append(dst []byte) []byte {
	if len(e.name) > 0 {
		dst = append(append(append(dst, "event: "...), e.name...), '\n')
	}
	for line := range bytes.SplitSeq(e.data, []byte{'\n'}) {
		dst = append(append(append(dst, "data: "...), line...), '\n')
	}
	return append(dst, '\n')
}

// readEvents parses a complete stream. The last event may lack its terminating empty line.
func readEvents(body []byte) ([]event, error) {
	body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
	var events []event
	var e event
	dispatch := func() error {
		defer func() { e = event{} }()
		if e.data == nil {
			return nil
		}
		if err := e.check(); err != nil {
			return err
		}
		events = append(events, e)
		return nil
	}
	for len(body) > 0 {
		var line []byte
		line, body = cutLine(body)
		if len(line) == 0 {
			if err := dispatch(); err != nil {
				return nil, err
			}
			continue
		}
		name, value, _ := bytes.Cut(line, []byte{':'})
		value = bytes.TrimPrefix(value, []byte{' '})
		switch string(name) {
		case "event":
			e.name = value
		case "data":
			e.addLine(value)
		}
	}
	if err := dispatch(); err != nil {
		return nil, err
	}
	if len(events) == 0 {
		return nil, errEventNone
	}
	return events, nil
}

func (e *event) addLine(line []byte) {
	if e.data == nil {
		e.data = slices.Clip(line)
		return
	}
	e.data = append(append(e.data, '\n'), line...)
}

func (e *event) check() error {
	if len(e.name) > maxEventName {
		return errEventName
	}
	for _, c := range e.name {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '.' && c != '_' {
			return errEventName
		}
	}
	if e.data = bytes.TrimSpace(e.data); e.isEnd() {
		return nil
	}
	if wire.Check(e.data) != nil || e.data[0] != '{' {
		return errEventData
	}
	return nil
}

// cutLine splits off the first line, which ends with CR, LF or CRLF.
func cutLine(body []byte) (line, rest []byte) {
	i := bytes.IndexAny(body, "\r\n")
	if i < 0 {
		return body, nil
	}
	line, rest = body[:i], body[i+1:]
	if body[i] == '\r' && len(rest) > 0 && rest[0] == '\n' {
		rest = rest[1:]
	}
	return line, rest
}
