package remote

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/fetch"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/oagent/hosted/run"
)

// state contains the used parts of the state of an Engagement on another server.
type state struct {
	status    run.Status
	text      string
	value     jsontext.Value // the text as JSON, or nil
	exposes   jsontext.Value // an object, or nil
	questions []run.Question // to the user
	kind      string         // of the error
	message   string         // of the error
}

// readState reads the JSON state of an Engagement.
func readState(body []byte) (*state, error) {
	if err := strictjson.Check(body); err != nil || jsontext.Value(body).Kind() != '{' {
		return nil, &invalidError{fmt.Errorf("the state of the Engagement is not a JSON object")}
	}
	s := &state{
		status: run.Status(strictjson.Text(strictjson.MemberOf(body, "status"))),
		text:   strictjson.Text(strictjson.MemberOf(body, "text")),
		value:  strictjson.MemberOf(body, "value"),
	}
	_ = json.Unmarshal(strictjson.MemberOf(body, "questions"), &s.questions) // other servers may have none
	if exposes := strictjson.MemberOf(body, "exposes"); exposes.Kind() == '{' {
		s.exposes = exposes
	}
	if results := strictjson.MemberOf(body, "results"); results.Kind() == '{' { // of the reference server: the text, and exposed values
		s.text = cmp.Or(s.text, strictjson.Text(strictjson.MemberOf(results, "text")))
		exposed := strictjson.AppendWithout([]byte{'{'}, results, func(w *strictjson.Walk) bool { return w.Is("text") })
		if s.exposes == nil && len(exposed) > 1 {
			s.exposes = append(exposed, '}')
		}
	}
	if failure := strictjson.MemberOf(body, "error"); failure.Kind() == '{' {
		s.kind = printable(strictjson.Text(strictjson.MemberOf(failure, "kind")), maxDetail)
		s.message = printable(strictjson.Text(strictjson.MemberOf(failure, "message")), maxDetail)
	}
	if !s.isFinal() && !s.isWaiting() && s.status != run.StatusAwaitingInput {
		return nil, &invalidError{fmt.Errorf("the state of the Engagement has the unknown status %.64q", s.status)}
	}
	if s.status == run.StatusComplete && s.exposes == nil && s.text == "" && strictjson.MemberOf(body, "text") == nil {
		return nil, &invalidError{errors.New("the state of the Engagement is complete, but has neither text nor exposes")}
	}
	return s, nil
}

// isWaiting reports whether the Engagement will continue without action of this server.
func (s *state) isWaiting() bool { return s.status.IsBusy() || s.status == run.StatusAwaitingReview }

func (s *state) isFinal() bool { return s.status.IsFinal() }

// result returns the output for the model, and the HTTP status of the call. An agent that asks a question
// counts as failed, because its user is a program.
func (s *state) result() (jsontext.Value, int) {
	switch s.status {
	case run.StatusComplete:
		outputs := strictjson.AppendString([]byte(`{"text":`), s.text)
		if s.value != nil {
			outputs = append(append(outputs, `,"value":`...), s.value...)
		}
		if s.exposes != nil {
			outputs = append(append(outputs, `,"exposes":`...), s.exposes...)
		}
		return append(outputs, '}'), http.StatusOK
	case run.StatusAwaitingInput:
		message := "the agent needs more information, and its Engagement was canceled; call it again with this information in the input"
		question := ""
		for _, q := range s.questions {
			question += " " + q.Text
		}
		if question = printable(strings.TrimSpace(question), maxDescription); question != "" {
			message += ": " + question
		}
		return failure("additional_input", message), http.StatusBadGateway
	}
	return failure(s.kind, s.message), http.StatusBadGateway
}

func failure(kind, message string) jsontext.Value {
	message = cmp.Or(message, "the agent failed without giving a reason")
	outputs := []byte(`{"error":{`)
	if kind != "" {
		outputs = append(strictjson.AppendString(append(outputs, `"kind":`...), kind), ',')
	}
	return append(strictjson.AppendString(append(outputs, `"message":`...), message), '}', '}')
}

// Error is a failed call. Its message contains no address and no credential.
type Error struct {
	Message string
	Cause   error // nil, or an error that may contain addresses
}

func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// statusError is an unexpected status of the other server.
type statusError struct{ status int }

func (e *statusError) Error() string {
	return fmt.Sprintf("the server responds with status %s", text.StatusLine(e.status))
}

// isTransient reports whether repeating the GET may help.
func (e *statusError) isTransient() bool {
	return e.status == http.StatusTooManyRequests || e.status >= http.StatusInternalServerError
}

// invalidError is a response that must not be used.
type invalidError struct{ error }

// isFinal reports whether the response means that this server must not use the agent, or that the
// definition is now invalid. The previous definition must then not be used.
func isFinal(err error) bool {
	if _, ok := errors.AsType[*invalidError](err); ok {
		return true
	}
	failed, ok := errors.AsType[*statusError](err)
	return ok && slices.Contains([]int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusGone}, failed.status)
}

// stopped returns the error of a call whose context has ended.
func stopped(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), errTimeout) {
		return &Error{Message: errTimeout.Error(), Cause: ctx.Err()}
	}
	return &Error{Message: "the call was canceled", Cause: ctx.Err()}
}

// errTimeout reports a call that took longer than Host.Timeout.
var errTimeout = errors.New("the agent did not finish in time, and its Engagement was canceled")

// brief replaces an error of the connection with one that contains no address. The cause is kept.
func brief(err error) error {
	message := err.Error() // of package fetch, which contains no URL
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		message = "the certificate of the server is not trusted"
	} else if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		message = "the server does not use TLS"
	} else if _, ok := errors.AsType[*net.DNSError](err); ok {
		message = "the host name of the server cannot be resolved"
	} else if errors.Is(err, fetch.ErrPrivateAddress) {
		message = fetch.ErrPrivateAddress.Error()
	} else if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() || errors.Is(err, context.DeadlineExceeded) {
		message = "the server did not respond in time"
	} else if _, ok := errors.AsType[*net.OpError](err); ok {
		message = "the connection to the server failed"
	}
	return &Error{Message: message, Cause: err}
}
