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
	// Roles narrows down whose messages are looked at besides those of "user", out
	// of "user", "system", "developer", "assistant" and "tool". A role that is none
	// of these is always looked at, and so is a member of a request that nobody
	// knows; tools and the schema of the answer are said with the role "system".
	// Default: all roles, because whoever sends the request may write any of them.
	Roles []string

	// AllowMedia lets images, sound and files pass without anybody looking at
	// them. Default: what is no text is an error.
	AllowMedia bool
}

// A Request is what matters of a request to a model.
type Request struct {
	// Inputs are the texts that are looked at: those that stand in no message, and
	// one of each message, in their order; the last is the newest.
	Inputs []string

	// Said is the text of the newest message of the user, "" if there is none.
	Said string

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
	beside  []string // the user's texts that stand in no message
}

// read takes the members that decide what a model is told.
func (r *requestReader) read(body jsontext.Value) error {
	found := false
	for walk := wire.Into(body); walk.Next(); {
		name, use, err := useOf(&walk)
		if err != nil {
			return err
		}
		switch use {
		case isConversation: // some servers know the other's name as well
			found = found || name == "messages"
			err = r.readConversation(walk.Value)
		case isSetting:
			err = r.set(name, walk.Value)
		case isPrompt: // text, or a stored one whose variables are filled in
			err = r.addPrompt(walk.Value)
		case isInstruction:
			if r.isUsersRole("system") {
				err = r.addPrompt(walk.Value)
			}
		case isProgram, isPrediction, isUnknown:
			err = r.addBeside(name, use, walk.Value)
		}
		if err != nil {
			return err
		}
	}
	if !found && r.format != Responses {
		return errors.New("the request has no messages")
	}
	r.Inputs = append(r.beside, r.Inputs...)
	return nil
}

// set takes a switch. Some servers take other values than true for it as well.
func (r *requestReader) set(name string, value jsontext.Value) error {
	switch value.Kind() {
	case 't', 'f', 'n':
	default:
		return fmt.Errorf("%s must be true or false", name)
	}
	on := value.Kind() == 't'
	if name == "stream" {
		r.Stream = on
	} else {
		r.Background = on
	}
	return nil
}

func (r *requestReader) readConversation(value jsontext.Value) error {
	switch value.Kind() {
	case '"':
		text, err := r.textOf(value, false)
		r.addMessage(text, true)
		return err
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
			return "", fmt.Errorf("the member %.64q must be written %q", name, k)
		}
	}
	return "", nil
}

// readMessage reads a message, or an item of another kind.
func (r *requestReader) readMessage(message jsontext.Value) error {
	if message.Kind() != '{' {
		return errors.New("each message must be an object")
	}
	var role, kind string
	speaks := false
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
		case "content":
			speaks = true
		}
	}
	if role == "" && r.format != Responses {
		return errors.New("a message has no role")
	}
	if !r.isUsers(role, kind, speaks) {
		return checkParts(message)
	}
	text, err := r.textOf(message, r.format == Messages)
	r.addMessage(text, role == "user" || role == "" && roleOf(kind) == "user")
	return err
}

// addMessage adds the text of the next message.
func (r *requestReader) addMessage(text string, ofUser bool) {
	if text == "" {
		return
	}
	r.Inputs = append(r.Inputs, text)
	if ofUser {
		r.Said = text
	}
}

// isUsers reports whether a message is looked at: it is if it may be taken for one
// of the user.
func (r *requestReader) isUsers(role, kind string, speaks bool) bool {
	if role != "" && r.isUsersRole(role) {
		return true
	}
	if r.format != Responses || role != "" && (kind == "" || kind == "message") {
		return role == ""
	}
	if speaks && role == "" && kind != "reasoning" {
		return true // a message, whatever it calls itself
	}
	return r.isUsersRole(roleOf(kind))
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

// isRole reports whether models know a role.
func isRole(role string) bool {
	switch role {
	case "user", "system", "developer", "assistant", "tool", "function":
		return true
	}
	return false
}

func (r *requestReader) isUsersRole(role string) bool {
	if len(r.options.Roles) == 0 {
		return true
	}
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

// textOf returns the text of a message of the user.
func (r *requestReader) textOf(message jsontext.Value, hasResults bool) (string, error) {
	if err := checkParts(message); err != nil {
		return "", err
	}
	t := newTexts(r.options.AllowMedia)
	t.request = true
	t.skipResults = hasResults && !r.isUsersRole("tool")
	if err := t.gather(message); err != nil {
		return "", &Fault{Status: http.StatusForbidden, Code: CodeUnchecked, Message: "a message cannot be looked at by the guardrail: " + err.Error()}
	}
	return t.join(), nil
}
