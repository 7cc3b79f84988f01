package credential

import "github.com/fairwayhq/fairway/tools"

// A CallError is the error of a credential that depends on the caller or on another server, and not on the
// configuration. Its message is for the caller.
type CallError struct {
	Kind    tools.FailureKind // Unauthorized if the caller has to log in, or Unreachable if the call may be repeated
	Message string
	Err     error // for the log; may be nil
}

func (e *CallError) Error() string {
	if e.Err != nil {
		return e.Message + ": " + e.Err.Error()
	}
	return e.Message
}

// Unwrap returns the cause.
func (e *CallError) Unwrap() error { return e.Err }
