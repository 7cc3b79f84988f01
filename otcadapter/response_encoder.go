package otcadapter

import (
	"encoding/base64"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/fairwayhq/fairway/internal/mediatype"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// A responseEncoder writes responses to one call in the form of one standard (OTC 1.0, Tool
// Response Schema).
type responseEncoder struct {
	form              *standard
	developerMessages bool
	request           *callRequest
	tool              *entry // nil if the toolkit has no such tool
}

// appendResponse appends the response to a call that has run.
func (e *responseEncoder) appendResponse(b []byte, outcome *tool.Outcome) []byte {
	b = e.appendStart(b)
	b = append(b, `,"duration":`...)
	b = appendMilliseconds(b, outcome.Duration)
	if outcome.Failure != nil {
		return e.appendFailure(b, outcome)
	}
	b = append(b, `,"success":true`...)
	hasValue := e.hasValue(outcome.Result)
	switch {
	case e.form.oxp && hasValue:
		b = append(b, `,"value":`...)
		b = appendValue(b, outcome.Result)
	case e.form.oxp:
		b = append(b, `,"value":null`...)
	case hasValue:
		b = append(b, `,"output":{"value":`...)
		b = append(appendValue(b, outcome.Result), '}')
	}
	return e.appendEnd(b)
}

// hasValue reports whether the response has a value. Its output mode must be one that the
// definition lists. If the document declares no response with content, the value is omitted. If
// the document declares content for all responses, an empty body is an empty string.
func (e *responseEncoder) hasValue(result *tool.Result) bool {
	if result == nil {
		return false
	}
	hasBody := len(result.Body) > 0
	if e.tool == nil {
		return hasBody
	}
	value, null := outputModes(&e.tool.Response)
	return value && (hasBody || !null)
}

// appendStart appends the beginning of a response.
func (e *responseEncoder) appendStart(b []byte) []byte {
	b = append(b, `{"$schema":"`...)
	b = append(b, e.form.schema...)
	if e.form.oxp {
		b = append(b, `","result":{"call_id":`...)
	} else {
		b = append(b, `","call_id":`...)
	}
	return wire.AppendString(b, e.request.callID)
}

// appendEnd appends the end of a response.
func (e *responseEncoder) appendEnd(b []byte) []byte {
	if e.form.oxp {
		b = append(b, '}')
	}
	return append(b, '}')
}

// appendFailure appends the rest of a response to a call that failed.
func (e *responseEncoder) appendFailure(b []byte, outcome *tool.Outcome) []byte {
	if e.form.oxp {
		b = append(b, `,"success":false,"error":`...)
		b = e.appendError(b, outcome)
		return append(b, "}}"...)
	}
	b = append(b, `,"success":false,"output":{"error":`...)
	b = e.appendError(b, outcome)
	return append(b, "}}"...)
}

// appendMilliseconds appends d in milliseconds, with microsecond precision.
func appendMilliseconds(b []byte, d time.Duration) []byte {
	return strconv.AppendFloat(b, float64(d.Microseconds())/1000, 'f', -1, 64)
}

// appendError appends the error object of a failed call.
func (e *responseEncoder) appendError(b []byte, outcome *tool.Outcome) []byte {
	failure := outcome.Failure
	retryable := failure.Retryable(outcome.Tool)
	b = append(b, `{"message":`...)
	b = wire.AppendString(b, failure.Message)
	if e.developerMessages {
		b = append(b, `,"developer_message":`...)
		b = wire.AppendString(b, developerMessage(outcome.Tool, failure))
	}
	b = append(b, `,"can_retry":`...)
	b = strconv.AppendBool(b, retryable)
	if prompt := promptContent(e.request.toolID, outcome.Tool, failure); prompt != "" {
		b = append(b, `,"additional_prompt_content":`...)
		b = wire.AppendString(b, prompt)
	}
	if retryable && failure.RetryAfter > 0 {
		b = append(b, `,"retry_after_ms":`...)
		b = strconv.AppendInt(b, failure.RetryAfter.Milliseconds(), 10)
	}
	return append(b, '}')
}

// appendLost appends the response to a call whose own response is not available.
func (e *responseEncoder) appendLost(b []byte, message, prompt string) []byte {
	b = e.appendStart(b)
	b = append(b, `,"success":false,`...)
	if !e.form.oxp {
		b = append(b, `"output":{`...)
	}
	b = append(b, `"error":{"message":`...)
	b = wire.AppendString(b, message)
	b = append(b, `,"can_retry":false,"additional_prompt_content":`...)
	b = wire.AppendString(b, prompt)
	return append(b, "}}}"...)
}

// appendValue appends the API's response as a JSON value. JSON is copied, text becomes a
// string, and anything else a string in base64.
func appendValue(b []byte, result *tool.Result) []byte {
	mediaType := result.MediaType()
	body := result.Body
	if len(body) == 0 {
		return append(b, `""`...)
	}
	if (mediaType == "" || mediatype.IsJSON(mediaType)) && wire.Valid(body) {
		return append(b, body...)
	}
	if mediatype.IsText(mediaType) || mediatype.IsJSON(mediaType) || mediaType == "" && utf8.Valid(body) {
		return wire.AppendString(b, body)
	}
	b = append(b, '"')
	b = base64.StdEncoding.AppendEncode(b, body)
	return append(b, '"')
}
