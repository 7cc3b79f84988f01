package model

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Model generates the next message of a conversation. Implementations are safe for concurrent
// use.
type Model interface {
	// Generate sends the request and returns the complete response. If onText is not nil, it is
	// called with each piece of text as it arrives; together the pieces are Response.Text. It is
	// called from the goroutine of the caller, and not after Generate has returned.
	//
	// If ctx ends, the error wraps that of ctx. Any other error is an *Error. The response is nil
	// if there is an error.
	Generate(ctx context.Context, request *Request, onText func(text string)) (*Response, error)
}

// Role is the author of a message.
type Role string

// Roles.
const (
	RoleUser      Role = "user"      // has Text
	RoleAssistant Role = "assistant" // the model: has Text, Calls or both
	RoleTool      Role = "tool"      // has Results
)

// Request is a conversation that the model continues.
type Request struct {
	// System is the text that tells the model its task; "" for none.
	System string `json:"system,omitzero"`

	// Messages are the conversation so far. The last one is of the user or has results of tools.
	Messages []Message `json:"messages"`

	// Tools are the tools that the model may call. Their names must differ.
	Tools []Tool `json:"tools,omitempty"`

	// MaxTokens limits the length of the response. 0 means the limit of the Model. If both have
	// a limit, the smaller one applies.
	MaxTokens int `json:"max_tokens,omitzero"`

	// Once is set if an earlier request for the same message has failed. The request is then not repeated, see WithRetries.
	Once bool `json:"once,omitzero"`

	// Agent is the name of the agent, and User the id of its user, for inspectors. APIs do not get them.
	Agent string `json:"-"`
	User  string `json:"-"`

	// OnRestart is called when the response broke off after onText has got a part of it, and the request is repeated: the
	// message begins again. If it is nil, such a request is not repeated.
	OnRestart func() `json:"-"`
}

// Message is a message of a conversation.
type Message struct {
	Role    Role         `json:"role"`
	Text    string       `json:"text,omitzero"`
	Calls   []ToolCall   `json:"calls,omitempty"`
	Results []ToolResult `json:"results,omitempty"`

	// Reasoning has parts of the model's response that have a meaning only for its API, which
	// expects them back unchanged with the calls (Anthropic: thinking blocks and their
	// signatures). They may be dropped, but not changed. Other models do not get them.
	Reasoning []jsontext.Value `json:"reasoning,omitempty"`

	// Model is the name of the model that generated the message; "" if it is unknown.
	Model string `json:"model,omitzero"`
}

// Tool describes a tool to the model.
type Tool struct {
	// Name may have any characters. If an API allows fewer, its Model maps names, see Names.
	Name        string `json:"name"`
	Description string `json:"description,omitzero"`

	// Schema is the JSON Schema of the arguments, an object. Empty means that the tool takes no
	// arguments.
	Schema jsontext.Value `json:"schema,omitzero"`
}

// noArguments is the schema of a tool without arguments.
var noArguments = jsontext.Value(`{"type":"object","properties":{}}`)

// Parameters returns the JSON Schema of the arguments. Unlike Schema it is never empty.
func (t *Tool) Parameters() jsontext.Value {
	if len(t.Schema) == 0 {
		return noArguments
	}
	return t.Schema
}

// ToolCall is a call that the model wants to make.
type ToolCall struct {
	// ID identifies the call in its message. It is never empty.
	ID string `json:"id"`

	// Name is the Name of a Tool, or what else the model made up.
	Name string `json:"name"`

	// Arguments is what the model wrote: usually a JSON object, but not necessarily JSON.
	Arguments string `json:"arguments"`
}

// Object returns the arguments as a JSON object, as APIs require them in the history of a
// conversation. Arguments that are not an object become the member invalid_arguments of one.
func (c *ToolCall) Object() jsontext.Value {
	if value := jsontext.Value(c.Arguments); value.IsValid() && value.Kind() == '{' {
		return value
	}
	quoted, err := jsontext.AppendQuote([]byte(`{"invalid_arguments":`), strings.ToValidUTF8(c.Arguments, "\ufffd"))
	if err != nil { // impossible: the text is valid UTF-8
		return jsontext.Value("{}")
	}
	return append(quoted, '}')
}

// ToolResult is the result of a call.
type ToolResult struct {
	CallID  string `json:"call_id"`
	Content string `json:"content"`
	IsError bool   `json:"is_error,omitzero"`
}

// Stop is why a model stopped.
type Stop string

// Reasons to stop.
const (
	StopEnd     Stop = "end"     // the message is complete
	StopTools   Stop = "tools"   // the model waits for the results of its calls
	StopLength  Stop = "length"  // the response reached the limit of tokens, or its API paused it: it is incomplete
	StopRefused Stop = "refused" // the provider or the model declined; Text may say why
)

// Response is what the model generated.
type Response struct {
	Text      string           `json:"text,omitzero"`
	Calls     []ToolCall       `json:"calls,omitempty"`
	Reasoning []jsontext.Value `json:"reasoning,omitempty"`
	Usage     Usage            `json:"usage"`
	Stop      Stop             `json:"stop"`
	Model     string           `json:"model,omitzero"` // name of the model

	// Rejected says why an inspector rejected the response, which then has no text and no calls. nil if it has passed.
	Rejected *Error `json:"-"`
}

// Message returns the response as a message of the conversation.
func (r *Response) Message() Message {
	return Message{Role: RoleAssistant, Text: r.Text, Calls: r.Calls, Reasoning: r.Reasoning, Model: r.Model}
}

// Check returns an error if the request is invalid for every model: a fault of the program, not
// of the model or the user. Implementations of Model call it.
func (r *Request) Check() error {
	if len(r.Messages) == 0 {
		return errors.New("the request has no messages")
	}
	if r.Messages[len(r.Messages)-1].Role == RoleAssistant {
		return errors.New("the last message of the request is the model's; add a message of the user or results")
	}
	names := make(map[string]bool, len(r.Tools))
	for i := range r.Tools {
		name := r.Tools[i].Name
		switch {
		case name == "":
			return errors.New("a tool of the request has no name")
		case names[name]:
			return fmt.Errorf("the request has two tools with the name %q", name)
		case len(r.Tools[i].Schema) > 0 && !r.Tools[i].Schema.IsValid():
			return fmt.Errorf("the schema of the tool %q is not JSON", name)
		}
		names[name] = true
	}
	var pending map[string]bool // ids of calls without a result
	for i := range r.Messages {
		if err := r.Messages[i].check(pending); err != nil {
			return fmt.Errorf("message %d of the request: %w", i, err)
		}
		if len(pending) > 0 {
			return fmt.Errorf("message %d of the request does not have the results of all calls before it", i)
		}
		pending = nil
		for _, call := range r.Messages[i].Calls {
			if pending == nil {
				pending = make(map[string]bool, len(r.Messages[i].Calls))
			}
			if call.ID == "" || pending[call.ID] {
				return fmt.Errorf("message %d of the request: the id %q of a call is empty or not unique", i, call.ID)
			}
			pending[call.ID] = true
		}
	}
	return nil
}

// check checks that the message has only what its role allows. It removes the calls whose
// results the message has from pending.
func (m *Message) check(pending map[string]bool) error {
	var allowed bool
	switch m.Role {
	case RoleUser:
		allowed = len(m.Calls) == 0 && len(m.Results) == 0
	case RoleAssistant:
		allowed = len(m.Results) == 0
	case RoleTool:
		allowed = len(m.Calls) == 0 && m.Text == "" && len(m.Results) > 0
	default:
		return fmt.Errorf("unknown role %q", m.Role)
	}
	if !allowed {
		return fmt.Errorf("a message with the role %s has text, calls or results that this role cannot have", m.Role)
	}
	for _, result := range m.Results {
		if !pending[result.CallID] {
			return fmt.Errorf("the result for %q does not belong to a call of the message before it", result.CallID)
		}
		delete(pending, result.CallID)
	}
	return nil
}

// Limit returns the smaller of two limits of tokens, of which 0 is no limit.
func Limit(a, b int) int {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Usage is the number of tokens that a request took.
type Usage struct {
	InputTokens  int64 `json:"input_tokens"` // including those that the API had cached
	OutputTokens int64 `json:"output_tokens"`

	// CachedTokens is the part of InputTokens that the API read from its cache of earlier requests.
	CachedTokens int64 `json:"cached_tokens,omitzero"`

	// Estimated reports that the API did not say how many tokens it took. The numbers are
	// estimated from the texts then, so that limits of tokens apply nevertheless.
	Estimated bool `json:"estimated,omitzero"`

	// Cost is what the tokens cost, in billionths of the currency of the prices; 0 if the model has no price.
	Cost int64 `json:"cost,omitzero"`
}

// Total returns the sum of input and output tokens.
func (u Usage) Total() int64 { return u.InputTokens + u.OutputTokens }

// Add returns the sum of two usages.
func (u Usage) Add(other Usage) Usage {
	return Usage{
		InputTokens:  u.InputTokens + other.InputTokens,
		OutputTokens: u.OutputTokens + other.OutputTokens,
		CachedTokens: u.CachedTokens + other.CachedTokens,
		Estimated:    u.Estimated || other.Estimated,
		Cost:         u.Cost + other.Cost,
	}
}

// Money returns a Usage.Cost in the unit of the currency.
func Money(cost int64) float64 { return float64(cost) / 1e9 }

// Price is the price of the tokens of a model, each for a million.
type Price struct {
	Input, Output float64
	Cached        float64 // of input tokens that the API read from its cache
}

// MaxPrice is the maximum price of a million tokens.
const MaxPrice = 1e6

const maxCost = 1e15 // of one response, so that sums do not overflow: the API says how many tokens there were

// Of returns what a response costs, see Usage.Cost.
func (p Price) Of(u Usage) int64 {
	million := float64(u.InputTokens-u.CachedTokens)*p.Input + float64(u.CachedTokens)*p.Cached + float64(u.OutputTokens)*p.Output
	return int64(math.Round(min(million*1e9/1e6, maxCost)))
}

// bytesPerToken is a common average for English text and JSON.
const bytesPerToken = 4

// EstimateUsage estimates the tokens of a request and its response from their length.
func EstimateUsage(request *Request, response *Response) Usage {
	input := len(request.System)
	for i := range request.Messages {
		m := &request.Messages[i]
		input += len(m.Text) + lengthOfCalls(m.Calls)
		for _, result := range m.Results {
			input += len(result.Content)
		}
	}
	for i := range request.Tools {
		t := &request.Tools[i]
		input += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	return Usage{
		InputTokens:  tokensOf(input),
		OutputTokens: tokensOf(len(response.Text) + lengthOfCalls(response.Calls)),
		Estimated:    true,
	}
}

func lengthOfCalls(calls []ToolCall) (length int) {
	for _, call := range calls {
		length += len(call.Name) + len(call.Arguments)
	}
	return length
}

func tokensOf(length int) int64 {
	return int64((length + bytesPerToken - 1) / bytesPerToken)
}
