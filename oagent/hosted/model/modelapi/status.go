package modelapi

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
)

const (
	// maxErrorBody limits the part of an error response that is read, in bytes.
	maxErrorBody = 64 << 10

	// maxRetryAfter limits what an API may ask for, in seconds.
	maxRetryAfter = 24 * 60 * 60

	statusOverloaded = 529 // Anthropic
)

// fault is an error object of an API. OpenAI, Anthropic and most compatible servers send it as
// the member error.
type fault struct {
	Message string         `json:"message"`
	Type    string         `json:"type"`
	Code    jsontext.Value `json:"code"` // a string or a number
}

// readFault reads the body of an error response. A body in an unknown format is the message.
func readFault(body []byte) fault {
	body = body[:min(len(body), maxErrorBody)]
	var envelope struct {
		Error jsontext.Value `json:"error"`
		fault
	}
	if json.Unmarshal(body, &envelope) != nil {
		return fault{Message: string(body)}
	}
	var f fault
	switch envelope.Error.Kind() {
	case '{':
		if json.Unmarshal(envelope.Error, &f) == nil {
			return f
		}
	case '"':
		if json.Unmarshal(envelope.Error, &f.Message) == nil {
			return f
		}
	}
	if envelope.Message != "" {
		return envelope.fault
	}
	return fault{Message: string(body)}
}

// statusError returns the error for a response with a status other than 200.
func (c *call) statusError(status int, header http.Header, body []byte) error {
	f := readFault(body)
	e := c.faultError(status, f)
	e.Status = status
	if e.Temporary() {
		e.RetryAfter = retryAfter(header)
	}
	return e
}

// streamError returns the error for an error event of a stream: data is its JSON.
func (c *call) streamError(data []byte) error {
	f := readFault(data)
	return c.faultError(f.status(), f)
}

func (c *call) faultError(status int, f fault) *model.Error {
	e := &model.Error{Kind: f.kind(status)}
	e.Message = "the API responded with " + text.StatusLine(status)
	if message := c.quote(f.Message); message != "" {
		e.Message += ": " + message
	}
	if status >= 300 && status < 400 {
		e.Message = "the API redirects to another URL, which is not followed: correct base_url"
	}
	return e
}

// kind classifies an error of the API.
func (f *fault) kind(status int) model.Kind {
	switch {
	case status == http.StatusTooManyRequests && f.is("insufficient_quota"):
		return model.KindCredentials
	case status == http.StatusTooManyRequests:
		return model.KindRateLimited
	case status == http.StatusUnauthorized, status == http.StatusPaymentRequired, status == http.StatusForbidden:
		return model.KindCredentials
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly, status >= 500:
		return model.KindUnavailable
	case status == http.StatusRequestEntityTooLarge, f.isContextTooLong():
		return model.KindContextTooLong
	case status < 300:
		return model.KindMalformed
	}
	return model.KindRejected
}

// is reports whether the error has this type or code.
func (f *fault) is(name string) bool {
	return f.Type == name || string(f.Code) == strconv.Quote(name)
}

// contextPhrases are parts of the messages with which APIs reject a conversation that is too
// long. Not all have a code for it.
var contextPhrases = []string{
	"prompt is too long",     // Anthropic
	"maximum context length", // OpenAI, vLLM
	"context window",         // Responses of newer models
	"context size",           // llama.cpp
}

func (f *fault) isContextTooLong() bool {
	if f.is("context_length_exceeded") || f.is("exceed_context_size_error") {
		return true
	}
	message := strings.ToLower(f.Message)
	return slices.ContainsFunc(contextPhrases, func(phrase string) bool { return strings.Contains(message, phrase) })
}

// statuses are the HTTP statuses of the types and codes of errors in a stream, whose response
// had begun with 200.
var statuses = map[string]int{
	"invalid_request_error":   http.StatusBadRequest,
	"context_length_exceeded": http.StatusBadRequest,
	"authentication_error":    http.StatusUnauthorized,
	"permission_error":        http.StatusForbidden,
	"not_found_error":         http.StatusNotFound,
	"request_too_large":       http.StatusRequestEntityTooLarge,
	"rate_limit_error":        http.StatusTooManyRequests,
	"rate_limit_exceeded":     http.StatusTooManyRequests,
	"insufficient_quota":      http.StatusTooManyRequests,
	"timeout_error":           http.StatusGatewayTimeout,
	"overloaded_error":        statusOverloaded,
}

// status returns the HTTP status that the error would have as a response.
func (f *fault) status() int {
	if code, err := strconv.Atoi(string(f.Code)); err == nil && code >= 400 && code <= 599 {
		return code
	}
	var code string
	if f.Code.Kind() == '"' && json.Unmarshal(f.Code, &code) == nil && statuses[code] != 0 {
		return statuses[code]
	}
	if status := statuses[f.Type]; status != 0 {
		return status
	}
	return http.StatusInternalServerError
}

// retryAfter returns how many seconds the API asks to wait (RFC 9110, 10.2.3, and the header
// Retry-After-Ms of OpenAI). It returns 0 if it does not ask.
func retryAfter(header http.Header) int {
	value := header.Get("Retry-After")
	if ms, err := strconv.Atoi(header.Get("Retry-After-Ms")); err == nil && ms > 0 {
		return min((ms+999)/1000, maxRetryAfter)
	}
	if seconds, err := strconv.ParseFloat(value, 64); err == nil && seconds > 0 {
		return int(min(seconds+0.999, maxRetryAfter))
	}
	if date, err := http.ParseTime(value); err == nil {
		return min(max(int(time.Until(date)/time.Second)+1, 0), maxRetryAfter)
	}
	return 0
}
