// Package events keeps what the webhooks of an API report, in order, for those that read it later. It knows neither HTTP nor
// MCP, and verifies nothing: package signature does that before an event becomes one.
package events

import (
	"bytes"
	"errors"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/stored"
)

// MaxSize is the limit of an event with its ID and name, in bytes.
const MaxSize = 256 << 10

// ErrTooLarge reports an event beyond MaxSize.
var ErrTooLarge = errors.New("the event is too large")

// An Event is what an API has reported once.
type Event struct {
	ID       string // the same if the API sends the event again; events with other names may have it, too
	Name     string // of its Type
	Received time.Time
	Body     jsontext.Value // the verified body, byte by byte
	Next     Cursor         // the position after the event; Read sets it
}

// A Type is a kind of event.
type Type struct {
	Name        string
	Description string
	Payload     jsontext.Value // the JSON Schema of Event.Body; nil if it is not known
}

// header is the first line of an entry of the log, in JSON. The rest is the body.
type header struct {
	ID       string    `json:"id"`
	Name     string    `json:"name"`
	Received time.Time `json:"received"`
}

func (e *Event) encode() ([]byte, error) {
	entry, err := json.Marshal(header{e.ID, e.Name, e.Received.UTC()})
	if len(entry)+len(e.Body) >= MaxSize {
		return nil, ErrTooLarge
	}
	return append(append(entry, '\n'), e.Body...), err
}

func decode(key string, entry []byte) (e Event, err error) {
	first, body, _ := bytes.Cut(entry, []byte("\n"))
	var h header
	err = stored.Decode("events", key, first, &h)
	return Event{ID: h.ID, Name: h.Name, Received: h.Received, Body: body}, err
}
