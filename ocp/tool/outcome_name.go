package tool

import "net/http"

// Names of outcomes in addition to those of FailureKind. Together they are all values that
// metrics, access logs and placeholders use.
const (
	OutcomeOK          = "ok"           // the call succeeded
	OutcomeRateLimited = "rate_limited" // the API, or a handler in front of it, responded with 429
	OutcomeReplayed    = "replayed"     // the client repeated a call and got the stored response

	OutcomeInputRequired = "input_required" // the client must supply more input before the call continues
)

// Name returns the name of the outcome: OutcomeOK, OutcomeRateLimited, or the failure's
// kind.
func (o *Outcome) Name() string {
	switch {
	case o.Failure == nil:
		return OutcomeOK
	case o.Failure.Kind == Refused && o.Failure.Status == http.StatusTooManyRequests:
		return OutcomeRateLimited
	}
	return string(o.Failure.Kind)
}

// OutcomeOfStatus returns the name of the outcome of an API request for the status of its
// response.
func OutcomeOfStatus(status int) string {
	switch {
	case status == http.StatusTooManyRequests:
		return OutcomeRateLimited
	case status >= http.StatusInternalServerError:
		return string(Failed)
	case status >= http.StatusBadRequest:
		return string(Refused)
	case status >= http.StatusMultipleChoices:
		return string(Redirected)
	}
	return OutcomeOK
}

// CallRecorder is a Caller that records calls which a protocol adapter ends itself.
type CallRecorder interface {
	// RecordCall records a call that ended with the named outcome and did not reach Call.
	// Tool is nil if no tool has the requested name.
	RecordCall(tool *Tool, outcome string)

	// AmendCall replaces the outcome of the latest Call in the access log, because the
	// adapter rejected its result. Metrics keep the outcome of the call to the API.
	AmendCall(outcome string)
}

// RecordCall calls RecordCall if caller is a CallRecorder. Otherwise it does nothing.
func RecordCall(caller Caller, tool *Tool, outcome string) {
	if recorder, ok := caller.(CallRecorder); ok {
		recorder.RecordCall(tool, outcome)
	}
}

// AmendCall calls AmendCall if caller is a CallRecorder. Otherwise it does nothing.
func AmendCall(caller Caller, outcome string) {
	if recorder, ok := caller.(CallRecorder); ok {
		recorder.AmendCall(outcome)
	}
}
