package chat

import (
	"bytes"
	"errors"
	"mime"
	"net/http"
	"strings"

	"github.com/fairwayhq/fairway/internal/strictjson"
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
		return nil, unreadable("the model's response uses a character set other than UTF-8, so it is withheld")
	}
	t := newTexts(o.AllowMedia)
	t.responses, t.document = f == Responses, kind == "application/json"
	answer := &Answer{Body: body}
	gather := func(data []byte) error {
		if err := t.gather(data, ""); err != nil {
			return unchecked(err)
		}
		return nil
	}
	switch kind {
	case "text/event-stream":
		var err error
		if answer.Body, err = readStream(body, gather); err != nil {
			return nil, err
		}
	case "application/json":
		if err := strictjson.Check(body); err != nil {
			return nil, unreadable("the model's response is not valid JSON, so it is withheld: " + describeSyntax(err))
		}
		if err := gather(bytes.TrimSpace(body)); err != nil {
			return nil, err
		}
	default:
		return nil, unreadable("the model's response is neither JSON nor a stream of events, so it is withheld")
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
		return unreadable("the model's response cannot be checked: " + err.Error())
	}
	return &Fault{Status: http.StatusForbidden, Code: CodeUnchecked, Message: "the guardrail cannot check the model's response: " + err.Error()}
}
