package remote

import (
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/oagent/run"
)

// state contains the used parts of the state of an Engagement on another server.
type state struct {
	status   run.Status
	text     string
	exposes  jsontext.Value // an object, or nil
	question string
	kind     string // of the error
	message  string // of the error
}

// readState reads the JSON state of an Engagement.
func readState(body []byte) (*state, error) {
	if err := wire.Check(body); err != nil || jsontext.Value(body).Kind() != '{' {
		return nil, &invalidError{fmt.Errorf("the state of the Engagement is not a JSON object")}
	}
	s := &state{
		status:   run.Status(wire.Text(wire.MemberOf(body, "status"))),
		text:     wire.Text(wire.MemberOf(body, "text")),
		question: wire.Text(wire.MemberOf(body, "question")),
	}
	if exposes := wire.MemberOf(body, "exposes"); exposes.Kind() == '{' {
		s.exposes = exposes
	}
	if failure := wire.MemberOf(body, "error"); failure.Kind() == '{' {
		s.kind = printable(wire.Text(wire.MemberOf(failure, "kind")), maxDetail)
		s.message = printable(wire.Text(wire.MemberOf(failure, "message")), maxDetail)
	}
	if !s.isFinal() && !s.isWaiting() && s.status != run.StatusAwaitingInput {
		return nil, &invalidError{fmt.Errorf("the state of the Engagement has the unknown status %.64q", s.status)}
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
		outputs := wire.AppendString([]byte(`{"text":`), s.text)
		if s.exposes != nil {
			outputs = append(append(outputs, `,"exposes":`...), s.exposes...)
		}
		return append(outputs, '}'), http.StatusOK
	case run.StatusAwaitingInput:
		message := "the agent needs more information, and its Engagement was canceled; call it again with this information in the input"
		if question := printable(s.question, maxDescription); question != "" {
			message += ": " + question
		}
		return failure("additional_input", message), http.StatusBadGateway
	}
	return failure(s.kind, s.message), http.StatusBadGateway
}

func failure(kind, message string) jsontext.Value {
	if message == "" {
		message = "the agent failed without giving a reason"
	}
	outputs := []byte(`{"error":{`)
	if kind != "" {
		outputs = append(wire.AppendString(append(outputs, `"kind":`...), kind), ',')
	}
	return append(wire.AppendString(append(outputs, `"message":`...), message), '}', '}')
}
