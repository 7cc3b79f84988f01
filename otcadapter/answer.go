package otcadapter

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp"
)

const (
	// maxProblems is how many wrong arguments an answer tells of.
	maxProblems = 20

	// maxProblem is how much it says of each, in bytes.
	maxProblem = 300
)

// appendAnswer appends the answer to a call that has run (OTC 1.0, Tool Response
// Schema).
func appendAnswer(b []byte, call callRequest, outcome ocp.Outcome) []byte {
	b = append(b, `{"$schema":"`+schemaURI+`","call_id":`...)
	b = wire.AppendString(b, call.callID)
	b = append(b, `,"duration":`...)
	b = appendMilliseconds(b, outcome.Duration)
	if outcome.Failure != nil {
		b = append(b, `,"success":false,"output":{"error":`...)
		b = appendError(b, call, outcome)
		return append(b, "}}"...)
	}
	b = append(b, `,"success":true`...)
	if outcome.Result != nil && len(outcome.Result.Body) > 0 {
		b = append(b, `,"output":{"value":`...)
		b = appendValue(b, outcome.Result)
		b = append(b, '}')
	}
	return append(b, '}')
}

// appendMilliseconds appends d in milliseconds, to the microsecond.
func appendMilliseconds(b []byte, d time.Duration) []byte {
	return strconv.AppendFloat(b, float64(d.Microseconds())/1000, 'f', -1, 64)
}

func appendError(b []byte, call callRequest, outcome ocp.Outcome) []byte {
	failure := outcome.Failure
	b = append(b, `{"message":`...)
	b = wire.AppendString(b, failure.Message)
	if failure.Kind == ocp.InvalidArguments && len(failure.Problems) > 0 {
		b = append(b, `,"developer_message":`...)
		b = wire.AppendString(b, firstProblem(failure.Problems))
	}
	b = append(b, `,"can_retry":`...)
	b = strconv.AppendBool(b, failure.Retryable(outcome.Tool))
	if failure.Kind == ocp.InvalidArguments {
		b = append(b, `,"additional_prompt_content":`...)
		b = wire.AppendString(b, repairPrompt(call.toolID, failure.Problems))
	}
	if failure.RetryAfter > 0 {
		b = append(b, `,"retry_after_ms":`...)
		b = strconv.AppendInt(b, failure.RetryAfter.Milliseconds(), 10)
	}
	return append(b, '}')
}

// firstProblem says which parameter is wrong, and how many more are.
func firstProblem(problems []ocp.Problem) string {
	text := describeProblem(problems[0])
	if more := len(problems) - 1; more > 0 {
		text += " (and " + strconv.Itoa(more) + " more)"
	}
	return text
}

// repairPrompt tells a model what to change in its call.
func repairPrompt(toolID string, problems []ocp.Problem) string {
	var prompt strings.Builder
	prompt.WriteString("Correct the input and call " + toolID + " again.")
	for i, problem := range problems {
		if i == maxProblems {
			prompt.WriteString("\n- and " + strconv.Itoa(len(problems)-i) + " more")
			break
		}
		prompt.WriteString("\n- " + describeProblem(problem))
	}
	return prompt.String()
}

// describeProblem names the parameter by its JSON Pointer.
func describeProblem(problem ocp.Problem) string {
	path := problem.Path
	if path == "" {
		path = "input"
	}
	return clip(path) + ": " + clip(problem.Message)
}

// clip shortens text in which the client's own words may stand.
func clip(text string) string {
	if len(text) <= maxProblem {
		return text
	}
	return strings.ToValidUTF8(text[:maxProblem], "") + "…"
}

// appendValue appends the API's answer as a JSON value: JSON as its own bytes, text
// as a string, anything else as a string in base64.
func appendValue(b []byte, result *ocp.Result) []byte {
	mediaType := result.MediaType()
	body := result.Body
	if (mediaType == "" || isStructured(mediaType)) && wire.Valid(body) {
		return append(b, body...)
	}
	if isText(mediaType) || isStructured(mediaType) || mediaType == "" && utf8.Valid(body) {
		return wire.AppendString(b, body)
	}
	b = append(b, '"')
	b = base64.StdEncoding.AppendEncode(b, body)
	return append(b, '"')
}

// isStructured reports whether bodies of the media type are JSON.
func isStructured(mediaType string) bool {
	return mediaType == "application/json" || mediaType == "text/json" ||
		strings.HasPrefix(mediaType, "application/") && strings.HasSuffix(mediaType, "+json")
}

// isText reports whether bodies of the media type are text.
func isText(mediaType string) bool {
	if strings.HasPrefix(mediaType, "text/") || strings.HasSuffix(mediaType, "+xml") || strings.HasSuffix(mediaType, "+yaml") {
		return true
	}
	switch mediaType {
	case "application/xml", "application/yaml", "application/x-yaml", "application/x-ndjson",
		"application/jsonl", "application/javascript", "application/x-www-form-urlencoded":
		return true
	}
	return false
}
