package ocp

// A Reason says why a header, a session or one of its fields does not conform to the
// protocol. Its text is suitable as a metric label.
type Reason string

// The reasons why a header or a session as a whole is ignored.
const (
	ReasonRepeated Reason = "repeated"   // the header is present more than once
	ReasonEmpty    Reason = "empty"      // the value is empty
	ReasonTooLong  Reason = "too_long"   // exceeds the header's limit
	ReasonUTF8     Reason = "utf8"       // not UTF-8
	ReasonControl  Reason = "control"    // contains a control character
	ReasonPattern  Reason = "pattern"    // wrong characters or form
	ReasonBase64   Reason = "base64"     // the session is not Base64
	ReasonGzip     Reason = "gzip"       // the session's gzip stream is broken or followed by other data
	ReasonInflated Reason = "inflated"   // the session is too large after decompression
	ReasonJSON     Reason = "json"       // the session is not valid JSON, or repeats a field
	ReasonObject   Reason = "not_object" // the session is JSON but not an object
	ReasonDepth    Reason = "depth"      // the session is nested too deeply
)

// The reasons why a context does not conform to the schema.
const (
	ReasonMissing   Reason = "missing"   // a required field is missing
	ReasonType      Reason = "type"      // the value has the wrong JSON type
	ReasonTimestamp Reason = "timestamp" // not an RFC 3339 time
	ReasonURI       Reason = "uri"       // not an absolute URI
	ReasonNegative  Reason = "negative"  // a count is negative
	ReasonTooMany   Reason = "too_many"  // more items than allowed, or too many values in the whole session
	ReasonUnknown   Reason = "unknown"   // the schema does not define the field
	ReasonDisagrees Reason = "disagrees" // the header has a different value
)

// A Fault is one error in a message's headers or context. It never contains the invalid
// value. A Judgement lists faults; a single fault is returned as an error.
type Fault struct { //nolint:errname // more often a reason than an error
	Field  string // "OCP-User" for a header; "created_at", "history/3/action" in a context
	Reason Reason
	Detail string // additional detail for a person, such as "at byte 17"; often ""
}

// Error says what is wrong and where.
func (f Fault) Error() string {
	message := f.Field + ": " + messages[f.Reason]
	if f.Reason == ReasonPattern {
		message += patternOf(f.Field)
	}
	if f.Detail != "" {
		message += " " + f.Detail
	}
	return message
}

// patternOf describes the form that a field must have, as the end of a sentence.
func patternOf(field string) string {
	switch field {
	case "OCP-Context-ID", "context_id":
		return " [a-zA-Z0-9-]{1,64}, in strict mode ocp-[a-f0-9]{8,}"
	case "OCP-Agent-Type", "agent_type":
		return " [a-zA-Z0-9_.-]{1,128}"
	case "OCP-Version":
		return " of a semantic version, such as 1.0"
	case "api_specs":
		return " [a-zA-Z0-9_-]+ of names"
	}
	return " that is required"
}

// messages are the texts of the reasons for error messages.
var messages = map[Reason]string{
	ReasonRepeated:  "the header is repeated; send it once",
	ReasonEmpty:     "empty; omit it or set a value",
	ReasonTooLong:   "longer than allowed",
	ReasonUTF8:      "not UTF-8",
	ReasonControl:   "has a control character",
	ReasonPattern:   "not of the form",
	ReasonBase64:    "not Base64",
	ReasonGzip:      "the gzip stream is invalid or followed by other data",
	ReasonInflated:  "too large after decompression",
	ReasonJSON:      "not valid JSON",
	ReasonObject:    "not a JSON object",
	ReasonDepth:     "nests too deeply",
	ReasonMissing:   "missing",
	ReasonType:      "of the wrong JSON type",
	ReasonTimestamp: "not a time as in RFC 3339 (2025-11-16T10:30:00Z)",
	ReasonURI:       "not an absolute URI",
	ReasonNegative:  "must not be negative",
	ReasonTooMany:   "more items than allowed",
	ReasonUnknown:   "not a field of the context schema",
	ReasonDisagrees: "does not agree with the header",
}

// A Verdict says how much of a session can be used.
type Verdict string

// The verdicts. The verdict of a message without a session is "".
const (
	Conforming Verdict = "conforming" // conforms to the context schema
	Usable     Verdict = "usable"     // decoded; invalid parts were omitted or corrected
	Ignored    Verdict = "ignored"    // treated as absent
)

// A Judgement is a verdict and the reasons for it.
type Judgement struct {
	Verdict Verdict
	Faults  []Fault // empty exactly if the verdict is Conforming or ""
}
