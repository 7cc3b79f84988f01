package reviewers

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
)

// maxAnswer is the maximum size of a program's response, in bytes.
const maxAnswer = 64 << 10

// Target implements Asker.
func (a *Program) Target() string { return text.RedactURL(a.url) }

// Ask implements Asker. The error contains no credentials, and nothing of the question or the response.
func (a *Program) Ask(ctx context.Context, question *Question) (*Answer, error) {
	status, body, err := a.client.Ask(ctx, "application/json", question.JSON, maxAnswer)
	switch {
	case err != nil:
		return nil, err
	case status == http.StatusAccepted:
		return &Answer{Decision: pending}, nil
	case status != http.StatusOK:
		return nil, fmt.Errorf("the program responds with status %d", status)
	}
	return readAnswer(body)
}

// readAnswer parses a decision. An ambiguous response is no decision.
func readAnswer(body []byte) (*Answer, error) {
	members, err := strictjson.Members(nil, body)
	if err != nil {
		return nil, errors.New("the response is not one strict JSON object")
	}
	answer := new(Answer)
	for _, m := range members {
		to := &answer.Comment
		switch m.Name {
		case "decision":
			to = &answer.Decision
		case "comment":
		default:
			return nil, errors.New("the response has members other than decision and comment")
		}
		if m.Value.Kind() != '"' || json.Unmarshal(m.Value, to) != nil {
			return nil, fmt.Errorf("member %s of the response is not a string", m.Name)
		}
	}
	return answer, answer.check()
}
