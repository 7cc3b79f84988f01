package chat

import (
	"bytes"
	"errors"
	"mime"
	"net/http"
	"strings"

	"github.com/fairwayhq/fairway/internal/wire"
)

// Answer is the response of a model.
type Answer struct {
	Text string // all text, including tool calls and reasoning; "" if there is none
	Body []byte // the response to send to the client if Text passes the guardrail
}

// ReadAnswer parses a complete response with a 2xx status. For a stream, Body contains only
// the events that were parsed; comments and unused fields are removed, so no unchecked text
// reaches the client. The error is a *Fault.
func (f Format) ReadAnswer(contentType string, body []byte, o ReadOptions) (*Answer, error) {
	kind, parameters, _ := mime.ParseMediaType(contentType)
	if !isUTF8(parameters["charset"]) {
		return nil, unreadable("the answer of the model is in another character set than UTF-8, so nothing of it is given")
	}
	t := newTexts(o.AllowMedia)
	t.responses, t.document = f == Responses, kind == "application/json"
	answer := &Answer{Body: body}
	switch kind {
	case "text/event-stream":
		events, err := readEvents(body)
		if err != nil {
			return nil, unreadable("the stream of the model cannot be read, so nothing of it is given: " + err.Error())
		}
		answer.Body = make([]byte, 0, len(body))
		for _, e := range events {
			answer.Body = e.append(answer.Body)
			if e.isEnd() {
				continue
			}
			if err := t.gather(e.data); err != nil {
				return nil, unchecked(err)
			}
		}
	case "application/json":
		if err := wire.Check(body); err != nil {
			return nil, unreadable("the answer of the model is not good JSON, so nothing of it is given: " + tellSyntax(err))
		}
		if err := t.gather(bytes.TrimSpace(body)); err != nil {
			return nil, unchecked(err)
		}
	default:
		return nil, unreadable("the answer of the model is neither JSON nor a stream of events, so nothing of it is given")
	}
	answer.Text = t.join()
	return answer, nil
}

// isUTF8 reports whether valid UTF-8 means the same in a character set.
func isUTF8(charset string) bool {
	switch strings.ToLower(charset) {
	case "", "utf-8", "utf8", "us-ascii":
		return true
	}
	return false
}

func unchecked(err error) *Fault {
	if errors.Is(err, errTooMany) {
		return unreadable("the answer of the model cannot be looked at: " + err.Error())
	}
	return &Fault{Status: http.StatusForbidden, Code: CodeUnchecked, Message: "the answer of the model cannot be looked at by the guardrail: " + err.Error()}
}
