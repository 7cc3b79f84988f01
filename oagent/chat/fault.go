package chat

import (
	"errors"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/sse"
	"github.com/fairwayhq/fairway/internal/strictjson"
)

// Fault is an error that the client gets instead of a model's response.
type Fault struct {
	Status  int    // HTTP status
	Code    string // category for programs, for example "guardrail"
	Message string // what is wrong and how to fix it

	// Said is the part of Message that comes from the model's API and that the model may have
	// written. "" if there is none.
	Said string
}

// Error returns the message.
func (f *Fault) Error() string { return f.Message }

// Codes of faults that this package creates.
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

// AppendError appends the fault in the error format of the API.
func (f Format) AppendError(dst []byte, fault *Fault) []byte {
	if f == Messages {
		dst = append(dst, `{"type":"error","error":{"type":`...)
		dst = strictjson.AppendString(dst, errorType(fault.Status, messagesTypes, "api_error"))
		dst = append(dst, `,"code":`...)
		dst = strictjson.AppendString(dst, fault.Code)
		dst = append(dst, `,"message":`...)
		return append(strictjson.AppendString(dst, fault.Message), `}}`...)
	}
	dst = append(dst, `{"error":{"message":`...)
	dst = strictjson.AppendString(dst, fault.Message)
	dst = append(dst, `,"type":`...)
	dst = strictjson.AppendString(dst, errorType(fault.Status, openaiTypes, "server_error"))
	dst = append(dst, `,"param":null,"code":`...)
	return append(strictjson.AppendString(dst, fault.Code), `}}`...)
}

// AppendErrorEvent appends the fault as the last event of a stream that has begun.
func (f Format) AppendErrorEvent(dst []byte, fault *Fault) []byte {
	switch f {
	case Messages:
		return sse.AppendEvent(dst, "error", "", f.AppendError(nil, fault))
	case Responses:
		data := strictjson.AppendString([]byte(`{"type":"error","code":`), fault.Code)
		data = strictjson.AppendString(append(data, `,"message":`...), fault.Message)
		return sse.AppendEvent(dst, "error", "", append(data, `,"param":null}`...))
	}
	return sse.AppendEvent(dst, "", "", f.AppendError(nil, fault))
}

// errorType returns the type of an error with a status. Types are those of a format by the status, and server is
// that of other errors of the server.
func errorType(status int, types map[int]string, server string) string {
	switch name := types[status]; {
	case name != "":
		return name
	case status >= http.StatusInternalServerError:
		return server
	}
	return "invalid_request_error"
}

var messagesTypes = map[int]string{
	http.StatusUnauthorized:          "authentication_error",
	http.StatusForbidden:             "permission_error",
	http.StatusNotFound:              "not_found_error",
	http.StatusRequestEntityTooLarge: "request_too_large",
	http.StatusTooManyRequests:       "rate_limit_error",
}

var openaiTypes = map[int]string{
	http.StatusUnauthorized:    "authentication_error",
	http.StatusForbidden:       "permission_error",
	http.StatusTooManyRequests: "rate_limit_error",
}

// maxErrorText is the maximum number of bytes of each text that is passed on from an
// upstream's error.
const maxErrorText = 1000

// ReadError extracts the message and the code from an error response, and drops everything
// else. Some servers include or quote text of the model in an error, and no guardrail has
// checked that text.
func (f Format) ReadError(status int, body []byte) *Fault {
	fault := &Fault{Status: status, Code: "upstream_error", Message: "the model API responded with " + http.StatusText(status)}
	if strictjson.Check(body) != nil {
		return fault
	}
	for walk := strictjson.Into(body); walk.Next(); {
		if !walk.Is("error") {
			continue
		}
		for inner := strictjson.Into(walk.Value); inner.Next(); {
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

// isBeforeModel reports whether an error with this status occurs before a model is called.
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
