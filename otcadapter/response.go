package otcadapter

import (
	"bytes"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools"
)

// A standard is one of the two forms of responses to calls.
type standard struct {
	schema string // the $schema of the responses
	oxp    bool   // the form of OXP instead of that of OTC's text
}

// otcSchema is the URI of OTC 1.0, which its text defines.
const otcSchema = "https://github.com/ArcadeAI/OpenToolCalling/tree/main/specification/http/1.0/openapi.json"

// The standards. OXP has no URI, so its responses refer to the OpenAPI document in its repository.
var (
	otcStandard = &standard{schema: otcSchema}
	oxpStandard = &standard{schema: "https://github.com/OpenExecProtocol/Specification/tree/main/spec/http/1.0/openapi.json", oxp: true}
)

// knownSchemas are the values of $schema that a request may have: those of the standards, and
// that of the drafts between them, which have the form of OXP. They do not determine the form
// of the response; the endpoint does.
var knownSchemas = []string{
	otcStandard.schema,
	oxpStandard.schema,
	"https://github.com/OpenToolCalling/Specification/tree/main/specification/http/1.0/openapi.json",
}

// knowsSchema reports whether the URI refers to a supported version of the standard, as a page
// or a file of its repository. The fragment is ignored.
func knowsSchema(uri string) bool {
	if uri == "" {
		return true // the latest version
	}
	uri, _, _ = strings.Cut(uri, "#")
	uri = strings.Replace(uri, "/blob/", "/tree/", 1)
	return slices.Contains(knownSchemas, uri)
}

// A responseEncoder writes responses to one call in the form of one standard (OTC 1.0, Tool
// Response Schema).
type responseEncoder struct {
	form              *standard
	developerMessages bool
	request           *callRequest
	tool              *entry // nil if the toolkit has no such tool
}

// appendResponse appends the response to a call that has run.
func (e *responseEncoder) appendResponse(b []byte, outcome *tools.Outcome) []byte {
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
// definition lists. The JSON value null is none (OTC 1.0, Tool Response Schema). If the document declares no response with content, the value is omitted. If
// the document declares content for all responses, an empty body is an empty string.
func (e *responseEncoder) hasValue(result *tools.Result) bool {
	if result == nil || string(bytes.TrimSpace(result.Body)) == "null" && isJSON(result.MediaType()) {
		return false
	}
	hasBody := len(result.Body) > 0
	if e.tool == nil {
		return hasBody
	}
	value, empty, _ := outputModes(&e.tool.Output)
	return value && (hasBody || !empty)
}

// isJSON reports whether a body is read as JSON. It is, too, if the API declares no media type and it is valid.
func isJSON(mediaType string) bool { return mediaType == "" || httpheader.IsJSON(mediaType) }

// outputModes reports which output modes, besides error, the declared responses allow. A document
// that declares no successful response allows every mode. So does a response without content,
// unless its status excludes content, because documents often omit the content. A call never
// responds in another mode (call.hasValue), unless the API sends null against its document. empty reports whether a
// response may have no body, which is the mode null; JSON of any type may be null too.
func outputModes(answer *tools.Output) (value, empty, null bool) {
	unknown := len(answer.MediaTypes) == 0 && len(answer.Types) == 0 && !answer.Empty
	value = unknown || answer.Unstated || len(answer.MediaTypes) > 0 || len(answer.Types) > 0
	empty = unknown || answer.Empty || slices.Contains(answer.Types, "null")
	return value, empty, empty || len(answer.Types) == 0 && slices.ContainsFunc(answer.MediaTypes, httpheader.IsJSON)
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
	return strictjson.AppendString(b, e.request.callID)
}

// appendEnd appends the end of a response.
func (e *responseEncoder) appendEnd(b []byte) []byte {
	if e.form.oxp {
		b = append(b, '}')
	}
	return append(b, '}')
}

// appendFailure appends the rest of a response to a call that failed.
func (e *responseEncoder) appendFailure(b []byte, outcome *tools.Outcome) []byte {
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
func (e *responseEncoder) appendError(b []byte, outcome *tools.Outcome) []byte {
	failure := outcome.Failure
	retryable := failure.Retryable(outcome.Tool)
	b = append(b, `{"message":`...)
	b = strictjson.AppendString(b, failure.Message)
	if e.developerMessages {
		b = append(b, `,"developer_message":`...)
		b = strictjson.AppendString(b, developerMessage(outcome.Tool, failure))
	}
	b = append(b, `,"can_retry":`...)
	b = strconv.AppendBool(b, retryable)
	if prompt := promptContent(e.request.toolID, outcome.Tool, failure); prompt != "" {
		b = append(b, `,"additional_prompt_content":`...)
		b = strictjson.AppendString(b, prompt)
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
	b = strictjson.AppendString(b, message)
	b = append(b, `,"can_retry":false,"additional_prompt_content":`...)
	b = strictjson.AppendString(b, prompt)
	return append(b, "}}}"...)
}

// appendValue appends the API's response as a JSON value. JSON is copied, text becomes a
// string, and anything else a string in base64.
func appendValue(b []byte, result *tools.Result) []byte {
	mediaType := result.MediaType()
	body := result.Body
	if len(body) == 0 {
		return append(b, `""`...)
	}
	if isJSON(mediaType) && strictjson.Valid(body) {
		return append(b, body...)
	}
	if httpheader.IsText(mediaType) || httpheader.IsJSON(mediaType) || mediaType == "" && utf8.Valid(body) {
		return strictjson.AppendString(b, body)
	}
	b = append(b, '"')
	b = base64.StdEncoding.AppendEncode(b, body)
	return append(b, '"')
}

// A stored response has the form of the endpoint of the first request. If the call is repeated
// at the other endpoint, the response is converted to that endpoint's form.

// formOf returns the form in which a response was written. It returns nil if this server did
// not write it.
func formOf(response []byte) *standard {
	for _, form := range []*standard{otcStandard, oxpStandard} {
		if bytes.HasPrefix(response, []byte(`{"$schema":"`+form.schema+`"`)) {
			return form
		}
	}
	return nil
}

// convert converts the response to a call that has run to the form of e. It returns nil for the
// response to a call that was rejected, because the other endpoint has other messages.
func (e *responseEncoder) convert(response []byte) []byte {
	form := formOf(response)
	if form == nil || form == e.form {
		return response
	}
	fields, err := strictjson.Members(nil, response)
	if inner := valueIn(fields, "result"); err == nil && form.oxp {
		fields, err = strictjson.Members(nil, inner)
	}
	if err != nil || valueIn(fields, "success") == nil {
		return nil
	}
	output := fields
	if nested := valueIn(fields, "output"); nested != nil {
		if output, err = strictjson.Members(nil, nested); err != nil {
			return nil
		}
	}
	b := e.appendStart(nil)
	if duration := valueIn(fields, "duration"); duration != nil {
		b = append(append(b, `,"duration":`...), duration...)
	}
	b = append(append(b, `,"success":`...), valueIn(fields, "success")...)
	return e.appendEnd(e.appendConverted(b, valueIn(output, "value"), valueIn(output, "error")))
}

// appendConverted appends the outcome of the call: a value, an error, or neither.
func (e *responseEncoder) appendConverted(b []byte, value, failure jsontext.Value) []byte {
	member, content := `"value":`, value
	if failure != nil {
		member, content = `"error":`, failure
	}
	switch {
	case e.form.oxp && content == nil:
		return append(b, `,"value":null`...)
	case e.form.oxp:
		return append(append(append(b, ','), member...), content...)
	case isNull(content):
		return b
	}
	b = append(append(append(b, `,"output":{`...), member...), content...)
	return append(b, '}')
}

// valueIn returns the value of a member. It returns nil if there is none.
func valueIn(members []strictjson.Member, name string) jsontext.Value {
	for _, m := range members {
		if m.Name == name {
			return m.Value
		}
	}
	return nil
}
