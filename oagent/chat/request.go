package chat

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
)

// ReadOptions selects the content that is extracted.
type ReadOptions struct {
	// Roles lists the roles whose messages are extracted: any of "user", "system",
	// "developer", "assistant" and "tool". Messages of "user" and of unknown roles, and
	// unknown members of a request, are always extracted. Tools and the response schema count
	// as "system". Default: all roles, because the client can write messages of any role.
	Roles []string

	// AllowMedia lets images, audio and files pass unchecked. Default: false, so content other
	// than text is an error.
	AllowMedia bool
}

// Request is the relevant content of a request to a model.
type Request struct {
	// Inputs are the texts to check: first those outside messages, then one for each message,
	// in order. The last one is the newest. Consecutive messages of one role are one text,
	// because some servers join them.
	Inputs []string

	// Said is the last of Inputs that is the user's, or "".
	Said string

	Stream     bool // the client requests a stream of events
	Background bool // the response is fetched later with another request
}

// ReadRequest parses a request. The error is a *Fault.
func (f Format) ReadRequest(body []byte, o ReadOptions) (*Request, error) {
	if err := strictjson.Check(body); err != nil {
		return nil, malformed("the request is not valid JSON: " + describeSyntax(err))
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

// describeSyntax describes a syntax error without quoting the request.
func describeSyntax(err error) string {
	if errors.Is(err, strictjson.ErrTooDeep) {
		return err.Error()
	}
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) && syntactic.Err != nil {
		return fmt.Sprintf("%v at byte %d", syntactic.Err, syntactic.ByteOffset)
	}
	return "the value is incomplete, or more data follows it"
}

// requestReader parses one request.
type requestReader struct {
	Request
	format  Format
	options ReadOptions
	beside  []string // texts outside messages, and the names of unknown members

	// said has the texts of consecutive messages of one role; nil if the previous message is not extracted.
	said *texts
	role string // of said
}

// read processes the members that determine the input of the model.
func (r *requestReader) read(body jsontext.Value) error {
	found := false
	for walk := strictjson.Into(body); walk.Next(); {
		name, use, err := useOf(&walk)
		if err != nil {
			return err
		}
		switch use {
		case isConversation: // some servers also accept the other API's name
			found = found || name == "messages"
			err = r.readConversation(walk.Value)
		case isSetting:
			err = r.set(name, walk.Value)
		case isPrompt: // text, or a stored prompt with variables
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

// set reads a boolean setting. Values other than true, false and null are rejected, because
// some servers treat them as true.
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
		err := r.addMessage(value, "user")
		r.endRun()
		return err
	case 'n':
		return nil
	case '[':
		for walk := strictjson.Into(value); walk.Next(); {
			if err := r.readMessage(walk.Value); err != nil {
				return err
			}
		}
		r.endRun()
		return nil
	}
	return errors.New("the conversation must be a list of messages")
}

// exactName returns the name of a member if it is one of the known names. A name that differs
// only in case is an error: some servers ignore case and would read another request than the
// one that was checked.
func exactName(walk *strictjson.Walk, known ...string) (string, error) {
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
	for walk := strictjson.Into(message); walk.Next(); {
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
		r.endRun()
		return checkParts(message)
	}
	if role == "" {
		role = roleOf(kind)
	}
	return r.addMessage(message, role)
}

// addMessage extracts the texts of the next message.
func (r *requestReader) addMessage(message jsontext.Value, role string) error {
	if r.said == nil || r.role != role {
		r.endRun()
		r.said, r.role = r.newTexts(r.format == Messages), role
	}
	return r.gather(r.said, message, "/"+strconv.Itoa(len(r.said.order))) // a place of its own
}

// endRun adds the texts of consecutive messages of one role.
func (r *requestReader) endRun() {
	if r.said == nil {
		return
	}
	if text := r.said.join(); text != "" {
		r.Inputs = append(r.Inputs, text)
		if r.role == "user" {
			r.Said = text
		}
	}
	r.said = nil
}

// isUsers reports whether a message is extracted. It is if it could be a message of a selected
// role.
func (r *requestReader) isUsers(role, kind string, speaks bool) bool {
	if role != "" && r.isUsersRole(role) {
		return true
	}
	if r.format != Responses || role != "" && (kind == "" || kind == "message") {
		return role == ""
	}
	if speaks && role == "" && kind != "reasoning" {
		return true // a message, whatever its type
	}
	return r.isUsersRole(roleOf(kind))
}

// roleOf returns the role of an item of the responses API that has no role.
func roleOf(kind string) string {
	switch {
	case kind == "item_reference":
		return "assistant" // was sent before
	case strings.HasSuffix(kind, "_output"), strings.HasSuffix(kind, "_response"):
		return "tool"
	case kind == "reasoning", kind == "compaction", strings.HasSuffix(kind, "_call"), strings.HasSuffix(kind, "_list_tools"):
		return "assistant"
	}
	return "user"
}

// isRole reports whether a role is a known one.
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

// checkParts rejects ambiguous member names in the parts of a message, see exactName.
func checkParts(message jsontext.Value) error {
	for walk := strictjson.Into(message); walk.Next(); {
		if !walk.Is("content") || walk.Value.Kind() != '[' {
			continue
		}
		for part := strictjson.Into(walk.Value); part.Next(); {
			for member := strictjson.Into(part.Value); member.Next(); {
				if _, err := exactName(&member, "type", "text", "content"); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (r *requestReader) newTexts(hasResults bool) *texts {
	t := newTexts(r.options.AllowMedia)
	t.request = true
	t.skipResults = hasResults && !r.isUsersRole("tool")
	return t
}

// gather collects the texts of a message at a place.
func (r *requestReader) gather(t *texts, message jsontext.Value, place string) error {
	if err := checkParts(message); err != nil {
		return err
	}
	if err := t.gather(message, place); err != nil {
		return &Fault{Status: http.StatusForbidden, Code: CodeUnchecked, Message: "the guardrail cannot check a message: " + err.Error()}
	}
	return nil
}
