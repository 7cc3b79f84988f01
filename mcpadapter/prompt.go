package mcpadapter

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp/tool"
)

const (
	maxPromptArguments = 64       // of one prompt
	maxPromptAnswer    = 16 << 20 // bytes of all messages of one prompt
)

// A Prompt is a list of messages with which a user can start a conversation (MCP, Prompts).
// ReadPrompts reads prompts from a file.
type Prompt struct {
	Name        string
	Title       string
	Description string
	Icons       []Icon
	Arguments   []PromptArgument
	Messages    []PromptMessage
}

// A PromptArgument is an argument that the user fills in. Its value is a string.
type PromptArgument struct {
	Name        string
	Title       string
	Description string
	Required    bool
	Enum        []string // the only valid values; nil allows any value
	Values      []string // values that completion/complete proposes
}

// A PromptMessage is one message of a prompt.
type PromptMessage struct {
	Role    string // "user" or "assistant"
	Content PromptContent
}

// A PromptContent is the content of a message. Type decides which of the other fields apply.
type PromptContent struct {
	Type     string   // "text", "image", "audio", "resource" or "resource_link"
	Text     Template // of a text, or of an inline resource
	Data     []byte   // of an image, audio, or an inline resource
	MIMEType string
	URI      Template // of a resource or a resource_link

	Name, Title, Description string // of a resource_link
	Inline                   bool   // of a resource: Text or Data holds the content; otherwise the URI is read when a client gets the prompt
}

// A prompt is a Prompt of the Library, or one made from an operation.
type prompt struct {
	*Prompt
	tool   *tool.Tool // operation that produces the messages; nil for prompts of the Library
	denied bool       // the token does not allow the tool, so the prompt is not listed

	arguments map[string]*tool.Argument // arguments of tool, by the name of the prompt's argument
}

// check returns an error for a prompt that clients cannot use.
func (p *Prompt) check() error {
	switch {
	case p.Name == "":
		return errors.New("has no name")
	case strings.ContainsFunc(p.Name, unicode.IsControl):
		return errors.New("has control characters in its name")
	case len(p.Messages) == 0:
		return errors.New("has no messages")
	case len(p.Arguments) > maxPromptArguments:
		return fmt.Errorf("has more than %d arguments", maxPromptArguments)
	}
	seen := make(map[string]bool)
	for _, a := range p.Arguments {
		if a.Name == "" || seen[a.Name] {
			return fmt.Errorf("argument %q has no name, or one that another has", a.Name)
		}
		seen[a.Name] = true
	}
	for i, m := range p.Messages {
		if m.Role != "user" && m.Role != "assistant" {
			return fmt.Errorf("the role of message %d is user or assistant, not %q", i+1, m.Role)
		}
		if !slices.Contains(contentTypes, m.Content.Type) {
			return fmt.Errorf("the content of message %d is of the type %q, which there is not", i+1, m.Content.Type)
		}
		for _, name := range slices.Concat(m.Content.Text.names(), m.Content.URI.names()) {
			if !seen[name] {
				return fmt.Errorf("message %d has {{%s}}, which is no argument", i+1, name)
			}
		}
	}
	return checkIcons(p.Icons)
}

var contentTypes = []string{"text", "image", "audio", "resource", "resource_link"}

// appendTo appends the prompt as prompts/list returns it.
func (p *prompt) appendTo(dst []byte, v revision) []byte {
	dst = appendNamed(append(dst, '{'), p.Name, p.Title, p.Description, v)
	if len(p.Arguments) > 0 {
		dst = append(dst, `,"arguments":[`...)
		for i, a := range p.Arguments {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendNamed(append(dst, '{'), a.Name, a.Title, a.Description, v)
			dst = append(append(dst, `,"required":`...), boolean(a.Required)...)
			dst = append(dst, '}')
		}
		dst = append(dst, ']')
	}
	return append(appendIcons(dst, p.Icons, v), '}')
}

// appendNamed appends the members name, title and description.
func appendNamed(dst []byte, name, title, description string, v revision) []byte {
	dst = wire.AppendString(append(dst, `"name":`...), name)
	if title != "" && v.titles() {
		dst = wire.AppendString(append(dst, `,"title":`...), title)
	}
	if description != "" {
		dst = wire.AppendString(append(dst, `,"description":`...), description)
	}
	return dst
}

// listPrompts serves prompts/list.
func (x *exchange) listPrompts() *fault {
	c := x.catalog()
	var items []listed
	for _, p := range c.shelf().prompts {
		if !p.denied {
			items = append(items, p)
		}
	}
	return x.listPage(c, "prompts", items)
}

// getPrompt serves prompts/get.
func (x *exchange) getPrompt() *fault {
	if x.params.name.Kind() != '"' {
		return badParams("params.name must be a string that names a prompt, not %s", wire.KindName(x.params.name.Kind()))
	}
	name := text(x.params.name)
	p := x.catalog().shelf().byName[name]
	if p == nil {
		return badParams("there is no prompt %q: prompts/list names those there are", clip(name, maxQuoted))
	}
	values, f := readArguments(x.params.arguments, "params.arguments")
	if f != nil {
		return f
	}
	if f = p.checkValues(values); f != nil {
		return f
	}
	if p.tool != nil {
		return x.runPrompt(p, values)
	}
	return x.fillPrompt(p, values)
}

// readArguments reads an object of strings. It skips null values.
func readArguments(raw jsontext.Value, where string) (map[string]string, *fault) {
	values := make(map[string]string)
	switch raw.Kind() {
	case 0, 'n':
		return values, nil
	case '{':
	default:
		return nil, badParams("%s must be an object, not %s", where, wire.KindName(raw.Kind()))
	}
	for walk := wire.Into(raw); walk.Next(); {
		name := text(walk.Name)
		switch walk.Value.Kind() {
		case '"':
			values[name] = text(walk.Value)
		case 'n':
		default:
			return nil, badParams("%s.%s must be a string, not %s", where, clip(name, maxQuoted), wire.KindName(walk.Value.Kind()))
		}
	}
	return values, nil
}

// checkValues checks the values against the prompt's arguments. It ignores unknown arguments.
func (p *Prompt) checkValues(values map[string]string) *fault {
	for _, a := range p.Arguments {
		value, given := values[a.Name]
		switch {
		case a.Required && !given:
			return badParams("the prompt %s needs the argument %s%s", p.Name, a.Name, described(a.Description))
		case given && a.Enum != nil && !slices.Contains(a.Enum, value) && (a.Required || value != ""):
			return badParams("the argument %s must be one of %s", a.Name, clip(strings.Join(a.Enum, ", "), maxErrorBody))
		}
	}
	return nil
}

func described(description string) string {
	if description == "" {
		return ""
	}
	return ": " + description
}

// fillPrompt writes the messages of a Library prompt with the arguments filled in.
func (x *exchange) fillPrompt(p *prompt, values map[string]string) *fault {
	var messages []byte
	for i := range p.Messages {
		m := &p.Messages[i]
		if i > 0 {
			messages = append(messages, ',')
		}
		messages = append(messages, `{"role":"`...)
		messages = append(append(messages, m.Role...), `","content":`...)
		if room := maxPromptAnswer - len(messages); m.Content.Text.size(values) > room || m.Content.URI.size(values) > room {
			return tooLongPrompt(p.Name)
		}
		var answered bool
		var f *fault
		if messages, answered, f = x.appendPromptContent(messages, &m.Content, p, values); f != nil || answered {
			return f
		}
		messages = append(messages, '}')
		if len(messages) > maxPromptAnswer {
			return tooLongPrompt(p.Name)
		}
	}
	x.answerPrompt(p.Description, messages)
	return nil
}

// tooLongPrompt returns the fault for arguments that make a prompt too long.
func tooLongPrompt(name string) *fault {
	return badParams("with these arguments the prompt %s is longer than %d bytes: shorten them", name, maxPromptAnswer)
}

// answerPrompt writes a GetPromptResult.
func (x *exchange) answerPrompt(description string, messages []byte) {
	b := x.appendResultHead(x.begin(), "complete", nil)
	if description != "" {
		b = append(wire.AppendString(append(b, `"description":`...), description), ',')
	}
	b = append(append(b, `"messages":[`...), messages...)
	x.out.B = append(b, "]}}"...)
}

// appendPromptContent appends the content of one message in the client's revision. answered is true
// if the response is already written: a resource made from an operation may need responses from the
// client first.
func (x *exchange) appendPromptContent(dst []byte, c *PromptContent, p *prompt, values map[string]string) (b []byte, answered bool, f *fault) {
	switch c.Type {
	case "text":
		return appendText(dst, c.Text.fill(values)), false, nil
	case "image":
		return appendMedia(dst, "image", c), false, nil
	case "audio":
		if !x.version.listens() {
			return appendText(dst, "[a sound, "+c.MIMEType+"]"), false, nil
		}
		return appendMedia(dst, "audio", c), false, nil
	case "resource_link":
		return x.appendPromptLink(dst, c, values), false, nil
	}
	t := target{resource: &resource{}, uri: c.URI.fillURI(values)}
	if !c.Inline {
		return x.embed(dst, t.uri, p)
	}
	body := c.Data
	if body == nil {
		body = []byte(c.Text.fill(values))
	}
	dst = append(dst, `{"type":"resource","resource":`...)
	return append(appendContentsOf(dst, t, typeOf(c.MIMEType, body), body, x.version), '}'), false, nil
}

func appendMedia(dst []byte, kind string, c *PromptContent) []byte {
	dst = append(append(append(dst, `{"type":"`...), kind...), `","data":"`...)
	dst = appendBase64(dst, c.Data)
	return append(wire.AppendString(append(dst, `","mimeType":`...), c.MIMEType), '}')
}

func (x *exchange) appendPromptLink(dst []byte, c *PromptContent, values map[string]string) []byte {
	uri := c.URI.fillURI(values)
	if !x.version.titles() {
		return appendText(dst, first(c.Name, lastPart(uri))+": "+uri)
	}
	dst = append(dst, `{"type":"resource_link",`...)
	dst = appendNamed(dst, first(c.Name, lastPart(uri)), c.Title, c.Description, x.version)
	dst = wire.AppendString(append(dst, `,"uri":`...), uri)
	if c.MIMEType != "" {
		dst = wire.AppendString(append(dst, `,"mimeType":`...), c.MIMEType)
	}
	return append(dst, '}')
}

// embed reads a resource and appends it as an embedded resource.
func (x *exchange) embed(dst []byte, uri string, p *prompt) (b []byte, answered bool, f *fault) {
	t, ok := x.catalog().shelf().find(uri)
	if !ok {
		return dst, false, misplaced(x.noResource(uri))
	}
	r, f := x.openResource(t, "prompts/get", p.Name)
	if f != nil {
		return dst, false, misplaced(f)
	}
	defer r.Release()
	if r.asks != nil {
		x.answerAsks(r.reply)
		return dst, true, nil
	}
	dst = append(dst, `{"type":"resource","resource":`...)
	if r.native != nil {
		if first := firstItem(member(r.native, "contents")); first != nil {
			var err error
			if dst, err = x.appendResourceContents(dst, first); err == nil {
				return append(dst, '}'), false, nil
			}
		}
		return dst, false, x.unreadable(uri, "the API's contents cannot be used")
	}
	if dst, f = x.appendContents(dst, r); f != nil {
		return dst, false, f
	}
	return append(dst, '}'), false, nil
}

// misplaced changes the error code "resource not found" to invalid params, because in a prompt the
// URI follows from the arguments.
func misplaced(f *fault) *fault {
	if f.code == resourceNotFound {
		f.code = invalidParams
	}
	return f
}

func firstItem(array jsontext.Value) jsontext.Value {
	if walk := wire.Into(array); array.Kind() == '[' && walk.Next() {
		return walk.Value
	}
	return nil
}

// runPrompt calls the prompt's operation. A native GetPromptResult is passed on; any other response
// becomes one message with the role user.
func (x *exchange) runPrompt(p *prompt, values map[string]string) *fault {
	r, f := x.invoke(invocation{method: "prompts/get", target: p.Name, tool: p.tool.Name, arguments: p.call(values)})
	if f != nil {
		return f
	}
	defer r.Release()
	switch {
	case r.asks != nil:
		x.answerAsks(r)
		return nil
	case r.Failure != nil && r.Failure.Kind == tool.InvalidArguments:
		return badParams("%s", r.Failure.Message)
	case r.Failure != nil:
		f = faultf(http.StatusOK, internalError, "%s", r.Failure.Message)
		if r.Failure.Status != 0 {
			f.data = append(strconv.AppendInt([]byte(`{"status":`), int64(r.Failure.Status), 10), '}')
		}
		return f
	case r.native != nil:
		return x.answerNativePrompt(p, r.native)
	}
	messages := x.appendContent([]byte(`{"role":"user","content":`), formOf(r.Result), r.Outcome)
	x.answerPrompt(p.Description, append(messages, '}'))
	return nil
}

// answerNativePrompt writes the messages of a GetPromptResult from the API.
func (x *exchange) answerNativePrompt(p *prompt, native jsontext.Value) *fault {
	list := member(native, "messages")
	if list.Kind() != '[' {
		return faultf(http.StatusOK, internalError, "the API answered the prompt %s with a result that has no messages", p.Name)
	}
	var messages []byte
	for walk := wire.Into(list); walk.Next(); {
		role := text(member(walk.Value, "role"))
		if role != "user" && role != "assistant" {
			return faultf(http.StatusOK, internalError, "the API answered the prompt %s with a message that is neither of the user nor of the assistant", p.Name)
		}
		if messages != nil {
			messages = append(messages, ',')
		}
		messages = append(append(append(messages, `{"role":"`...), role...), `","content":`...)
		var err error
		if messages, err = x.appendBlock(messages, member(walk.Value, "content")); err != nil {
			return faultf(http.StatusOK, internalError, "the API answered the prompt %s with a message that cannot be used: %v", p.Name, err)
		}
		messages = append(messages, '}')
	}
	x.answerPrompt(first(text(member(native, "description")), p.Description), messages)
	return nil
}
