package chat

import (
	"errors"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
)

// A Fault is what an API's client is told instead of an answer.
type Fault struct {
	Status  int    // of HTTP
	Code    string // what it is about, for programs: "guardrail"
	Message string // what was wrong and what to do

	// Said is what the model's API says in Message, as far as the model may have
	// written it; "" if it has not.
	Said string
}

// Error returns the message.
func (f *Fault) Error() string { return f.Message }

// Codes of faults that this package finds.
const (
	CodeMalformed  = "malformed_request"
	CodeUnchecked  = "unchecked_content"
	CodeUnreadable = "unreadable_answer"
)

func malformed(message string) *Fault {
	return &Fault{Status: http.StatusBadRequest, Code: CodeMalformed, Message: message}
}

func unreadable(message string) *Fault {
	return &Fault{Status: http.StatusBadGateway, Code: CodeUnreadable, Message: message}
}

// AppendError appends a fault as the API's own errors are.
func (f Format) AppendError(dst []byte, fault *Fault) []byte {
	if f == Messages {
		dst = append(dst, `{"type":"error","error":{"type":`...)
		dst = wire.AppendString(dst, messagesType(fault.Status))
		dst = append(dst, `,"code":`...)
		dst = wire.AppendString(dst, fault.Code)
		dst = append(dst, `,"message":`...)
		return append(wire.AppendString(dst, fault.Message), `}}`...)
	}
	dst = append(dst, `{"error":{"message":`...)
	dst = wire.AppendString(dst, fault.Message)
	dst = append(dst, `,"type":`...)
	dst = wire.AppendString(dst, openaiType(fault.Status))
	dst = append(dst, `,"param":null,"code":`...)
	return append(wire.AppendString(dst, fault.Code), `}}`...)
}

// AppendErrorEvent appends a fault as the last event of a stream that has begun.
func (f Format) AppendErrorEvent(dst []byte, fault *Fault) []byte {
	switch f {
	case Messages:
		dst = append(dst, "event: error\ndata: "...)
		dst = f.AppendError(dst, fault)
	case Responses:
		dst = append(dst, "event: error\ndata: "...)
		dst = append(dst, `{"type":"error","code":`...)
		dst = wire.AppendString(dst, fault.Code)
		dst = append(dst, `,"message":`...)
		dst = append(wire.AppendString(dst, fault.Message), `,"param":null}`...)
	default:
		dst = append(dst, "data: "...)
		dst = f.AppendError(dst, fault)
	}
	return append(dst, "\n\n"...)
}

func messagesType(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	}
	if status >= http.StatusInternalServerError {
		return "api_error"
	}
	return "invalid_request_error"
}

func openaiType(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	}
	if status >= http.StatusInternalServerError {
		return "server_error"
	}
	return "invalid_request_error"
}

// maxErrorText is how much of each text of an upstream's error is told, in bytes.
const maxErrorText = 1000

// ReadError returns what an answer that is no success says of the error: its
// message and code and nothing else. Some servers put there what the model has
// written, and some quote it in the message, which no guardrail has seen yet.
func (f Format) ReadError(status int, body []byte) *Fault {
	fault := &Fault{Status: status, Code: "upstream_error", Message: "the model API answered " + http.StatusText(status)}
	if wire.Check(body) != nil {
		return fault
	}
	for walk := wire.Into(body); walk.Next(); {
		if !walk.Is("error") {
			continue
		}
		for inner := wire.Into(walk.Value); inner.Next(); {
			switch {
			case inner.Is("message"):
				setText(&fault.Message, inner.Value)
				fault.Said = fault.Message
			case inner.Is("code"), inner.Is("type") && f == Messages:
				if isLabel(inner.Value) {
					setText(&fault.Code, inner.Value)
				}
			}
		}
	}
	if isBeforeModel(status) {
		fault.Said = ""
	}
	return fault
}

// isBeforeModel reports whether an error of this status is one of a request that
// no model was asked.
func isBeforeModel(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusNotFound, http.StatusRequestEntityTooLarge, http.StatusTooManyRequests:
		return true
	}
	return false
}

func setText(to *string, value jsontext.Value) {
	if text, ok := unquote(value); ok && text != "" {
		*to = strings.ToValidUTF8(text[:min(len(text), maxErrorText)], "")
	}
}

// unquote returns the text of a JSON string.
func unquote(value jsontext.Value) (string, bool) {
	if value.Kind() != '"' {
		return "", false
	}
	text, err := jsontext.AppendUnquote(nil, value)
	return string(text), err == nil
}

// AsFault returns the fault that an error is.
func AsFault(err error) (*Fault, bool) {
	return errors.AsType[*Fault](err)
}
