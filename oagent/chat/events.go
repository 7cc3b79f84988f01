package chat

import (
	"bytes"
	"errors"
	"regexp"

	"github.com/fairwayhq/fairway/internal/sse"
	"github.com/fairwayhq/fairway/internal/strictjson"
)

// endMark is the data of the last event of an OpenAI stream.
var endMark = []byte("[DONE]")

// eventNames are the names that an event of a model's API may have.
var eventNames = regexp.MustCompile(`^[a-z0-9._]{0,64}$`)

// readStream calls read with the data of each event of a complete stream, but the end mark, and returns the events encoded
// anew. The last event may lack its terminating empty line.
func readStream(body []byte, read func(data []byte) error) ([]byte, error) {
	encoded := make([]byte, 0, len(body))
	events := sse.NewParser(len(body), func(e sse.Event) error {
		data := bytes.TrimSpace(e.Data)
		isEnd := bytes.Equal(data, endMark)
		switch {
		case !eventNames.Match(e.Name):
			return unreadableStream(errors.New("an event has an invalid name"))
		case !isEnd && (strictjson.Check(data) != nil || data[0] != '{'):
			return unreadableStream(errors.New("an event is not valid JSON"))
		}
		encoded = sse.AppendEvent(encoded, string(e.Name), "", data)
		if isEnd {
			return nil
		}
		return read(bytes.Clone(data))
	})
	defer events.Release()
	for _, piece := range [][]byte{body, []byte("\n\n")} {
		if _, err := events.Write(piece); err != nil {
			return nil, err
		}
	}
	if len(encoded) == 0 {
		return nil, unreadableStream(errors.New("it has no events"))
	}
	return encoded, nil
}

func unreadableStream(err error) *Fault {
	return unreadable("the model's stream is invalid, so it is withheld: " + err.Error())
}
