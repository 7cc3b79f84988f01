package run

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/fairwayhq/fairway/oagent/model"
)

// Values of entry.Kind.
const (
	entryMessage = "message" // a message of the user or the model
	entryBegun   = "begun"   // a tool call is about to be made
	entryWaiting = "waiting" // a tool call waits, see Wait
	entryResult  = "result"  // the result of a tool call
	entryResumed = "resumed" // a node claimed the run
	entryEnded   = "ended"
)

// entry is an entry of the log of a run. Messages and results are the conversation; the other
// entries record the progress of the run.
type entry struct {
	Kind    string            `json:"what"`
	At      time.Time         `json:"at"`
	Message *model.Message    `json:"message,omitzero"`
	Call    int               `json:"call,omitzero"` // index in the model's last message
	Name    string            `json:"name,omitzero"`
	Result  *model.ToolResult `json:"result,omitzero"`
	Wait    *Wait             `json:"wait,omitzero"`
	Node    string            `json:"node,omitzero"`
	Status  Status            `json:"status,omitzero"`
	Ending  *Ending           `json:"ending,omitzero"`
}

// conversation are the messages of a run so far.
type conversation struct {
	messages []model.Message
	results  []model.ToolResult // of the last message, by call
	arrived  int                // number of results
}

// add adds an entry of the log. When each call of the last message has a result, the results become
// a message.
func (c *conversation) add(e *entry) error {
	switch e.Kind {
	case entryMessage:
		if e.Message == nil || c.results != nil {
			return errors.New("its log has a message in the wrong position")
		}
		c.messages = append(c.messages, *e.Message)
		if n := len(e.Message.Calls); n > 0 {
			c.results = make([]model.ToolResult, n)
		}
	case entryResult:
		if e.Result == nil || e.Call < 0 || e.Call >= len(c.results) || c.results[e.Call].CallID != "" {
			return errors.New("its log has a result in the wrong position")
		}
		c.results[e.Call] = *e.Result
		if c.arrived++; c.arrived == len(c.results) {
			c.messages = append(c.messages, model.Message{Role: model.RoleTool, Results: c.results})
			c.results, c.arrived = nil, 0
		}
	}
	return nil
}

// addAll adds entries in order.
func (c *conversation) addAll(entries []entry) error {
	for i := range entries {
		if err := c.add(&entries[i]); err != nil {
			return err
		}
	}
	return nil
}

// calls returns the calls of the model's last message.
func (c *conversation) calls() []model.ToolCall {
	if len(c.messages) == 0 {
		return nil
	}
	return c.messages[len(c.messages)-1].Calls
}

func decodeEntry(data []byte) (*entry, error) {
	e := new(entry)
	if err := json.Unmarshal(data, e); err != nil {
		return nil, fmt.Errorf("an entry of its log cannot be read: %w", err)
	}
	return e, nil
}
