package chat

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
)

// ReadOptions say what of the traffic is looked at.
type ReadOptions struct {
	// Roles are those whose messages are the user's besides "user", out of
	// "system", "developer", "assistant" and "tool". A role that is none of these
	// is always the user's.
	Roles []string

	// AllowMedia lets images, sound and files pass without anybody looking at
	// them. Default: what is no text is an error.
	AllowMedia bool
}

// A Request is what matters of a request to a model.
type Request struct {
	// Inputs are the texts of the user, one of each message, in their order; the
	// last is the newest. There are none in a request that only hands over the
	// results of tools.
	Inputs []string

	Stream     bool // events are asked for
	Background bool // the answer is to be fetched later, by another request
}

// ReadRequest reads a request. The error is a *Fault.
func (f Format) ReadRequest(body []byte, o ReadOptions) (*Request, error) {
	if err := wire.Check(body); err != nil {
		return nil, malformed("the request is not good JSON: " + tellSyntax(err))
	}
	if jsontext.Value(body).Kind() != '{' {
		return nil, malformed("the request must be a JSON object")
	}
	r := &requestReader{format: f, options: o}
	if err := r.read(body); err != nil {
		if fault, ok := AsFault(err); ok {
			return nil, fault
		}
		return nil, malformed(err.Error())
	}
	return &r.Request, nil
}

// tellSyntax says what is wrong without quoting the request.
func tellSyntax(err error) string {
	if errors.Is(err, wire.ErrTooDeep) {
		return err.Error()
	}
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) && syntactic.Err != nil {
		return fmt.Sprintf("%v at byte %d", syntactic.Err, syntactic.ByteOffset)
	}
	return "it ends too early, or too late"
}

// requestReader reads one request.
type requestReader struct {
	Request
	format  Format
	options ReadOptions
}

// read takes the members that decide what a model is told.
func (r *requestReader) read(body jsontext.Value) error {
	found := false
	for walk := wire.Into(body); walk.Next(); {
		name, err := exactName(&walk, "messages", "input", "prompt", "system", "instructions", "stream", "background")
		if err != nil {
			return err
		}
		switch name {
		case "messages", "input": // some servers know the other's name as well
			found = found || name == "messages"
			err = r.readConversation(walk.Value)
		case "stream":
			r.Stream = walk.Value.Kind() == 't'
		case "background":
			r.Background = walk.Value.Kind() == 't'
		case "prompt": // text, or a stored one whose variables are filled in
			err = r.add(walk.Value, false)
		case "system", "instructions":
			if r.isUsers("system") {
				err = r.add(walk.Value, false)
			}
		}
		if err != nil {
			return err
		}
	}
	if !found && r.format != Responses {
		return errors.New("the request has no messages")
	}
	return nil
}

// exactName returns the name of a member if it is one of these. One that differs
// from them in case alone is an error: some servers take it for the same, and
// would read another request than was looked at.
func exactName(walk *wire.Walk, known ...string) (string, error) {
	name, _ := unquote(walk.Name)
	for _, k := range known {
		if name == k {
			return k, nil
		}
		if strings.EqualFold(name, k) {
			return "", fmt.Errorf("the member %q must be written %q", name, k)
		}
	}
	return "", nil
}

func (r *requestReader) readConversation(value jsontext.Value) error {
	switch value.Kind() {
	case '"':
		return r.add(value, false)
	case 'n':
		return nil
	case '[':
		for walk := wire.Into(value); walk.Next(); {
			if err := r.readMessage(walk.Value); err != nil {
				return err
			}
		}
		return nil
	}
	return errors.New("the conversation must be a list of messages")
}

// readMessage reads a message, or an item of another kind.
func (r *requestReader) readMessage(message jsontext.Value) error {
	if message.Kind() != '{' {
		return errors.New("each message must be an object")
	}
	var role, kind string
	for walk := wire.Into(message); walk.Next(); {
		name, err := exactName(&walk, "role", "type", "content")
		if err != nil {
			return err
		}
		switch name {
		case "role":
			if role, _ = unquote(walk.Value); role == "" {
				return errors.New("the role of a message must be a string")
			}
		case "type":
			kind, _ = unquote(walk.Value)
		}
	}
	if role == "" {
		if r.format != Responses {
			return errors.New("a message has no role")
		}
		role = roleOf(kind)
	}
	if !r.isUsers(role) {
		return checkParts(message)
	}
	return r.add(message, r.format == Messages)
}

// roleOf says whose an item of the responses API is that names no role.
func roleOf(kind string) string {
	switch {
	case kind == "item_reference":
		return "assistant" // was told before
	case strings.HasSuffix(kind, "_output"), strings.HasSuffix(kind, "_response"):
		return "tool"
	case kind == "reasoning", kind == "compaction", strings.HasSuffix(kind, "_call"), strings.HasSuffix(kind, "_list_tools"):
		return "assistant"
	}
	return "user"
}

func (r *requestReader) isUsers(role string) bool {
	switch role {
	case "system", "developer", "assistant":
		return slices.Contains(r.options.Roles, role)
	case "tool", "function":
		return slices.Contains(r.options.Roles, "tool")
	}
	return true
}

// checkParts refuses names in the parts of a message that could be read as others.
func checkParts(message jsontext.Value) error {
	for walk := wire.Into(message); walk.Next(); {
		if !walk.Is("content") || walk.Value.Kind() != '[' {
			continue
		}
		for part := wire.Into(walk.Value); part.Next(); {
			for member := wire.Into(part.Value); member.Next(); {
				if _, err := exactName(&member, "type", "text", "content"); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// add takes the text of a message of the user.
func (r *requestReader) add(message jsontext.Value, hasResults bool) error {
	if err := checkParts(message); err != nil {
		return err
	}
	t := newTexts(r.options.AllowMedia)
	t.request = true
	t.skipResults = hasResults && !r.isUsers("tool")
	if err := t.gather(message); err != nil {
		return &Fault{Status: http.StatusForbidden, Code: CodeUnchecked, Message: "a message cannot be looked at by the guardrail: " + err.Error()}
	}
	if text := t.join(); text != "" {
		r.Inputs = append(r.Inputs, text)
	}
	return nil
}
