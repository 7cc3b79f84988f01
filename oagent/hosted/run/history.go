package run

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fairwayhq/fairway/internal/stored"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
	"github.com/fairwayhq/fairway/store/lease"
)

// This file is about the past that the model gets: of the conversation, and of the user's earlier runs (memory).
//
// The model gets the conversation within a limit of tokens (Limits.Context). If it is longer, old results of tools are
// shortened first. If that is not enough, the oldest messages are left out, perhaps with a summary in their place (summary.go).
// Calls stay together with their results.
//
// What is left out is part of the state, and grows in large steps. So the beginning of successive requests is the same,
// and APIs can cache it. The log keeps the whole conversation.

// omitted says what the model does not get of the conversation.
type omitted struct {
	Results  int `json:"results,omitzero"`  // results in messages before this number are shortened
	Messages int `json:"messages,omitzero"` // messages before this number are left out

	// Tokens is a limit below Limits.Context: the model has rejected a longer conversation. 0 for none.
	Tokens int64 `json:"tokens,omitzero"`

	// Summary is what the model wrote about messages that are left out; "" for nothing. See summary.go.
	Summary    string `json:"summary,omitzero"`
	Summarized int    `json:"summarized,omitzero"` // messages before this number are in the summary, or could not be summarized
}

const (
	shortResult = 400 // bytes of a shortened result, about
	omitTo      = 2   // if the conversation is too long, what is left out reduces it to one part in omitTo of the limit
)

// omittedNote begins the first message of a conversation whose beginning is left out without a summary.
const omittedNote = "[The server has left out earlier messages of this conversation, because it is long.]\n\n"

// limit returns the limit of tokens of a request.
func (o *omitted) limit(l *Limits) int64 {
	if o.Tokens > 0 {
		return min(int64(l.Context), o.Tokens)
	}
	return int64(l.Context)
}

// lacksSummary reports whether o leaves out messages that the model has to summarize first.
func (o *omitted) lacksSummary(l *Limits) bool {
	return l.Summarize == SummariesWritten && o.Messages > o.Summarized
}

// omit leaves out so much of a conversation that it has at most limit tokens, or as little as possible. base is the
// number of tokens of the rest of the request. It reports whether it changed o.
func (o *omitted) omit(messages []model.Message, base, limit int64) (changed bool) {
	if base+tokensOf(o.apply(messages)) <= limit {
		return false
	}
	last := lastUnit(messages)
	target := base + (limit-base)/omitTo
	size := base + tokensOf(o.apply(messages))
	for o.Results < last && size > target {
		size -= tokensOf(messages[o.Results:][:1]) - tokensOf(shortened(messages[o.Results:][:1]))
		o.Results++
		changed = true
	}
	for o.Messages < last && base+tokensOf(o.apply(messages)) > target {
		o.Messages = nextUnit(messages, o.Messages)
		changed = true
	}
	return changed
}

// nextUnit returns the beginning of the unit after the one that begins at a message: a message of the user, or one of the
// model with the results of its calls.
func nextUnit(messages []model.Message, at int) int {
	for at++; at < len(messages) && messages[at].Role == model.RoleTool; at++ {
	}
	return at
}

// lastUnit returns the beginning of the last unit, which the model always gets.
func lastUnit(messages []model.Message) int {
	last := len(messages) - 1
	for last > 0 && messages[last].Role == model.RoleTool {
		last--
	}
	return max(last, 0)
}

// apply returns what the model gets of the messages. They remain unchanged.
func (o *omitted) apply(messages []model.Message) []model.Message {
	if o.Results == 0 && o.Messages == 0 || len(messages) == 0 {
		return messages
	}
	from := min(o.Messages, lastUnit(messages))
	kept := slices.Clone(messages[from:])
	if short := o.Results - from; short > 0 {
		copy(kept, shortened(kept[:min(short, len(kept))]))
	}
	if from == 0 {
		return kept
	}
	if kept[0].Role != model.RoleUser { // a conversation begins with the user: the input that the rest is about
		at := from - 1
		for at > 0 && messages[at].Role != model.RoleUser {
			at--
		}
		kept = slices.Insert(kept, 0, messages[at])
	}
	kept[0].Text = o.note() + kept[0].Text
	return kept
}

// shortened returns messages with short results.
func shortened(messages []model.Message) []model.Message {
	all := slices.Clone(messages)
	for i := range all {
		all[i].Results = slices.Clone(all[i].Results)
		for j := range all[i].Results {
			if r := &all[i].Results[j]; len(r.Content) > 2*shortResult {
				r.Content = shortContent(r)
			}
		}
	}
	return all
}

// shortContent returns the beginning of a long result.
func shortContent(r *model.ToolResult) string {
	if !isData(r) {
		return text.Cut(r.Content, shortResult)
	}
	content := strictjson.AppendString([]byte(`{"note":`), dataNote)
	content = strictjson.AppendString(append(content, `,"beginning":`...), text.Cut(r.Content[len(`{"note":""`)+len(dataNote):], shortResult))
	return string(append(content, `,"cut":"the server has shortened this older result, because the conversation is long"}`...))
}

// tokensOf estimates the tokens of messages.
func tokensOf(messages []model.Message) int64 {
	return model.EstimateUsage(&model.Request{Messages: messages}, new(model.Response)).InputTokens
}

// Limits on what is retained of a user's runs of one agent.
const (
	maxRetained       = 10   // runs, the latest
	maxRetainedInput  = 500  // bytes of the first input of a run
	maxRetainedAnswer = 1000 // bytes of its answer
)

// memory keeps summaries of a user's latest runs for the agent: the first input and the last answer,
// shortened (OpenAgentSpec v1, lifespan.retain_memory). Runs of unknown users are not retained, and
// neither are runs that agents start: their input is written by a model.
type memory struct{ storage *storage }

const memoryKey = "run-memory/" // followed by a digest of agent and user

// Retained is the summary of a run that an agent remembers.
type Retained struct {
	Run    string    `json:"run"` // id of the run
	At     time.Time `json:"at"`
	Input  string    `json:"input"`
	Answer string    `json:"answer"`
}

func memoryOf(agent string, user engagement.User) string {
	return memoryKey + engagement.Digest(agent, user.ID)
}

// list returns the lists of the memory.
func (m memory) list() *lease.List[Retained] {
	return &lease.List[Retained]{Store: m.storage.store, TTL: m.storage.ttl, IsOver: func(*Retained) bool { return false }}
}

// change changes the list of a user.
func (m memory) change(ctx context.Context, of *Assignment, change func([]Retained) []Retained) error {
	return m.list().Change(ctx, m.storage.realm+memoryOf(of.Agent, of.User), of.owner(), func(all []Retained) ([]Retained, error) { return change(all), nil })
}

// retain adds a completed run. If the node dies before, the run is not retained.
func (m memory) retain(ctx context.Context, st *State, messages []model.Message) error {
	if st.User.ID == "" {
		return nil
	}
	added := Retained{Run: st.ID, At: m.storage.now().UTC(), Answer: text.Cut(st.Text, maxRetainedAnswer)}
	if len(messages) > 0 {
		added.Input = text.Cut(messages[0].Text, maxRetainedInput)
	}
	return m.change(ctx, &st.Assignment, func(all []Retained) []Retained {
		all = append(withoutRun(all, st.ID), added)
		return all[max(0, len(all)-maxRetained):]
	})
}

// get returns the summaries of the runs of a user, the latest last.
func (m memory) get(ctx context.Context, agent string, user engagement.User) ([]Retained, error) {
	if user.ID == "" {
		return nil, nil
	}
	all, err := m.list().Get(ctx, m.storage.realm+memoryOf(agent, user))
	if errors.Is(err, stored.ErrUnreadable) {
		return nil, nil // memory is not essential
	}
	return all, err
}

// messages returns the user's earlier runs as messages of the conversation. They are never part of the
// system text: an answer may quote data that the agent has read, with instructions of others in it.
func (m memory) messages(ctx context.Context, agent string, user engagement.User, except string) ([]model.Message, error) {
	all, err := m.get(ctx, agent, user)
	var messages []model.Message
	for _, k := range all {
		if k.Run == except || k.Input == "" || k.Answer == "" {
			continue
		}
		messages = append(messages,
			model.Message{Role: model.RoleUser, Text: "Earlier conversation on " + k.At.Format(time.DateOnly) + ", shortened:\n" + k.Input},
			model.Message{Role: model.RoleAssistant, Text: k.Answer})
	}
	return messages, err
}

func (m memory) forget(ctx context.Context, agent string, user engagement.User) error {
	return m.storage.store.Delete(ctx, m.storage.realm+memoryOf(agent, user))
}

// remove removes what is retained of a run.
func (m memory) remove(ctx context.Context, of *Assignment) error {
	all, err := m.get(ctx, of.Agent, of.User)
	if err != nil || !slices.ContainsFunc(all, func(k Retained) bool { return k.Run == of.ID }) {
		return err
	}
	return m.change(ctx, of, func(all []Retained) []Retained { return withoutRun(all, of.ID) })
}

func withoutRun(all []Retained, id string) []Retained {
	return slices.DeleteFunc(all, func(k Retained) bool { return k.Run == id })
}
