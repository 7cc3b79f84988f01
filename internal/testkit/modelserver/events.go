package modelserver

import (
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/fairwayhq/fairway/internal/sse"
)

// paddingPiece is the length of one piece of padding, in bytes.
const paddingPiece = 64 << 10

// eventWriter writes a stream of events.
type eventWriter struct {
	w       io.Writer
	flusher *http.ResponseController
	ctx     context.Context
	err     error
}

// event writes an event. name is "" for none. value is encoded as JSON.
func (e *eventWriter) event(name string, value any) {
	e.raw(string(sse.AppendEvent(nil, name, "", []byte(encode(value)))))
}

func (e *eventWriter) raw(text string) {
	if e.err == nil {
		_, e.err = io.WriteString(e.w, text)
	}
	if e.err == nil {
		e.err = e.flusher.Flush()
	}
}

// texts calls write with the pieces of the text of a step and its padding.
func (e *eventWriter) texts(step *Step, write func(piece string)) {
	if step.Text != "" {
		for _, piece := range pieces(step.Text, step.Pieces) {
			write(piece)
		}
	}
	for left := step.Padding; left > 0 && e.err == nil; left -= paddingPiece {
		write(strings.Repeat("x", min(left, paddingPiece)))
	}
}

// paddingMark stands for the padding in a document, until writePadded writes it.
const paddingMark = "[padding]"

// writePadded writes a document, with padding of this length in place of the mark.
func writePadded(w io.Writer, document string, length int) {
	before, after, _ := strings.Cut(document, paddingMark)
	_, err := io.WriteString(w, before)
	for left := length; left > 0 && err == nil; left -= paddingPiece {
		_, err = io.WriteString(w, strings.Repeat("x", min(left, paddingPiece)))
	}
	if err == nil {
		_, _ = io.WriteString(w, after)
	}
}

// encode returns the JSON of a value of this package.
func encode(value any) string {
	encoded, err := json.Marshal(value, json.Deterministic(true))
	if err != nil {
		panic(err) // a mistake in a test
	}
	return string(encoded)
}
