package ocp

// A Reason says why a header, a session or one of its fields is not as the
// protocol has it. Its text is fit for a metric's label.
type Reason string

// The reasons why a header or a session as a whole is ignored.
const (
	ReasonRepeated Reason = "repeated"   // the header came more than once
	ReasonEmpty    Reason = "empty"      // there is no value
	ReasonTooLong  Reason = "too_long"   // over the header's limit
	ReasonUTF8     Reason = "utf8"       // not UTF-8
	ReasonControl  Reason = "control"    // a control character
	ReasonPattern  Reason = "pattern"    // not the characters or the form that are asked for
	ReasonBase64   Reason = "base64"     // the session is not Base64
	ReasonGzip     Reason = "gzip"       // the session's gzip is broken, or more follows it
	ReasonInflated Reason = "inflated"   // the session is too large once it is decompressed
	ReasonJSON     Reason = "json"       // the session is not JSON, or has a field twice
	ReasonObject   Reason = "not_object" // the session is JSON and no object
	ReasonDepth    Reason = "depth"      // the session nests too deeply
)

// The reasons why a context does not conform to the schema.
const (
	ReasonMissing   Reason = "missing"   // a required field
	ReasonType      Reason = "type"      // the value is of another JSON type
	ReasonTimestamp Reason = "timestamp" // not an RFC 3339 time
	ReasonURI       Reason = "uri"       // not an absolute URI
	ReasonNegative  Reason = "negative"  // a count below zero
	ReasonTooMany   Reason = "too_many"  // more items than allowed, or more values in the whole session
	ReasonUnknown   Reason = "unknown"   // a field that the schema does not have
	ReasonDisagrees Reason = "disagrees" // the header says something else
)

// A Fault is one thing wrong with a message's headers or context. It never
// holds the value itself. A judgement lists faults; one that stands alone is an
// error.
type Fault struct { //nolint:errname // more often a reason than an error
	Field  string // "OCP-User" for a header; "created_at", "history/3/action" in a context
	Reason Reason
	Detail string // more for a person, "at byte 17"; often ""
}

// Error says what is wrong, and where.
func (f Fault) Error() string {
	message := f.Field + ": " + f.Reason.words()
	if f.Reason == ReasonPattern {
		message += patternOf(f.Field)
	}
	if f.Detail != "" {
		message += " " + f.Detail
	}
	return message
}

// patternOf names the form that a field must have, as the end of a sentence.
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

func (r Reason) words() string {
	switch r {
	case ReasonRepeated:
		return "the header came more than once; send it once"
	case ReasonEmpty:
		return "empty; leave it out or give it a value"
	case ReasonTooLong:
		return "longer than allowed"
	case ReasonUTF8:
		return "not UTF-8"
	case ReasonControl:
		return "has a control character"
	case ReasonPattern:
		return "not of the form"
	case ReasonBase64:
		return "not Base64"
	case ReasonGzip:
		return "its gzip stream is broken, or something follows it"
	case ReasonInflated:
		return "too large once it is decompressed"
	case ReasonJSON:
		return "not JSON that can be read"
	case ReasonObject:
		return "not a JSON object"
	case ReasonDepth:
		return "nests too deeply"
	case ReasonMissing:
		return "missing"
	case ReasonType:
		return "of the wrong JSON type"
	case ReasonTimestamp:
		return "not a time as in RFC 3339 (2025-11-16T10:30:00Z)"
	case ReasonURI:
		return "not an absolute URI"
	case ReasonNegative:
		return "below zero"
	case ReasonTooMany:
		return "more items than allowed"
	case ReasonUnknown:
		return "not a field of the context schema"
	case ReasonDisagrees:
		return "does not agree with the header"
	}
	return string(r)
}

// A Verdict is what a session is worth.
type Verdict string

// The verdicts. A message without a session has none: "".
const (
	Conforming Verdict = "conforming" // as the context schema has it
	Usable     Verdict = "usable"     // decoded; what was wrong has been left out or put right
	Ignored    Verdict = "ignored"    // as if it had not been sent
)

// A Judgement is a verdict and the reasons for it.
type Judgement struct {
	Verdict Verdict
	Faults  []Fault // empty exactly if the verdict is Conforming or ""
}
