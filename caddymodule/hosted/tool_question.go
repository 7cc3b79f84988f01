package hosted

import (
	"encoding/base64"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/mcpadapter/elicit"
	"github.com/fairwayhq/fairway/oagent/hosted/run"
	"github.com/fairwayhq/fairway/tools"
)

// answerField is the field of the form for the answer to a question of an agent, and the key of the
// request to the client.
const answerField = "answer"

// notAnswered is the answer that an agent gets if its user declines the question.
const notAnswered = "The user does not want to answer the question."

// questionState is the state that a client returns with the answer to a question.
type questionState struct {
	run      string // of the call
	asking   string // the run that asked: the same, or that of an agent that it called
	question string // id of the run.Question
}

func (q *questionState) encode() string {
	return "question " + q.run + " " + q.asking + " " + q.question
}

// readQuestionState decodes the result of encode. It returns nil if the text is not a questionState.
func readQuestionState(text string) *questionState {
	words := strings.Split(text, " ")
	if len(words) != 4 || words[0] != "question" {
		return nil
	}
	return &questionState{words[1], words[2], words[3]}
}

// question returns the first question of the agent as an MCP result that asks the user.
func (a *agentAnswer) question() []byte {
	state := questionState{a.state.ID, a.asking.ID, a.wait.ID}
	b := strictjson.AppendString([]byte(`{"resultType":"input_required","requestState":`), state.encode())
	b = append(b, `,"inputRequests":{"`+answerField+`":{"method":"`+elicit.MethodElicit+`","params":{"mode":"form","message":`...)
	b = strictjson.AppendString(b, a.wait.Message)
	return append(b, `,"requestedSchema":{"type":"object","properties":{"`+answerField+
		`":{"type":"string","title":"Answer"}},"required":["`+answerField+`"]}}}}}`...)
}

// answer passes the answer of the user to the agent that asked.
func (t *toolCall) answer(q *questionState) *tools.Failure {
	st, err := t.own(q.asking)
	if err != nil {
		return t.failed(err)
	}
	if !slices.ContainsFunc(st.Questions(), func(open run.Question) bool { return open.ID == q.question }) {
		return nil // the agent already has an answer
	}
	responses, err := base64.RawURLEncoding.DecodeString(t.r.Header.Get(elicit.HeaderInputResponses))
	if err != nil || strictjson.Check(responses) != nil {
		return &tools.Failure{Kind: tools.InvalidArguments, Message: "the response to the question of the agent cannot be read"}
	}
	response := strictjson.MemberOf(jsontext.Value(responses), answerField)
	if response == nil {
		return nil // the client asks again
	}
	text := notAnswered
	if strictjson.Text(strictjson.MemberOf(response, "action")) == "accept" {
		text = strictjson.Text(strictjson.MemberOf(strictjson.MemberOf(response, "content"), answerField))
	}
	if strings.TrimSpace(text) == "" {
		text = notAnswered
	}
	if len(text) > run.MaxInput {
		return &tools.Failure{Kind: tools.InvalidArguments, Message: "the answer to the question of the agent has more than " + strconv.Itoa(run.MaxInput) + " bytes"}
	}
	_, err = t.runner.Conversation(st.ID).AddInput(t.r.Context(), text, q.question)
	if _, answered := errors.AsType[*run.QuestionError](err); err == nil || answered || errors.Is(err, run.ErrEnded) {
		return nil
	}
	return t.failed(err)
}
