package library

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/mcpadapter/internal/content"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/tools"
)

const (
	maxPromptArguments = 64       // of one prompt
	maxListedValues    = 16 << 10 // bytes of the valid values in an error message
)

// A Prompt is a list of messages with which a user can start a conversation (MCP, Prompts).
// ReadPrompts reads prompts from a file.
type Prompt struct {
	Name        string
	Title       string
	Description string
	Icons       []content.Icon
	Arguments   []PromptArgument
	Messages    []PromptMessage
	Scopes      []string // that a token needs, besides those of an operation
}

// A PromptArgument is an argument that the user fills in. Its value is a string. The tags are the names in x-mcp.
type PromptArgument struct {
	Name        string   `json:"name"`
	Title       string   `json:"title"`
	Description string   `json:"description"`
	Required    bool     `json:"required"`
	Enum        []string // the only valid values; nil allows any value. x-mcp has none
	Values      []string `json:"values"` // values that completion/complete proposes
}

// A PromptMessage is one message of a prompt.
type PromptMessage struct {
	Role    string // "user" or "assistant"
	Content PromptContent
}

// A PromptContent is the content of a message. Type decides which of the other fields apply.
type PromptContent struct {
	Type     string   // "text", "image", "audio", "resource" or "resource_link"
	Text     template // of a text, or of an inline resource
	Data     []byte   // of an image, audio, or an inline resource
	MIMEType string
	URI      template // of a resource or a resource_link

	Name, Title, Description string // of a resource_link
	Inline                   bool   // of a resource: Text or Data holds the content; otherwise the URI is read when a client gets the prompt
}

// A PromptEntry is a Prompt of the Library, or one made from an operation.
type PromptEntry struct {
	*Prompt
	Tool   *tools.Tool // operation that produces the messages; nil for prompts of the Library
	Denied bool        // the token lacks scopes, so the prompt is not listed

	arguments arguments // of the tool, by the name of the prompt's argument
}

// check returns an error for a prompt that clients cannot use.
func (p *Prompt) check() error {
	switch {
	case p.Name == "":
		return errors.New("name is missing")
	case strings.ContainsFunc(p.Name, unicode.IsControl):
		return errors.New("the name has control characters")
	case len(p.Messages) == 0:
		return errors.New("messages is empty")
	case len(p.Arguments) > maxPromptArguments:
		return fmt.Errorf("has more than %d arguments", maxPromptArguments)
	}
	seen := make(map[string]bool)
	for _, a := range p.Arguments {
		if a.Name == "" || seen[a.Name] {
			return fmt.Errorf("argument %q: every argument needs a name of its own", a.Name)
		}
		seen[a.Name] = true
	}
	for i, m := range p.Messages {
		if m.Role != "user" && m.Role != "assistant" {
			return fmt.Errorf("message %d: role must be user or assistant, not %q", i+1, m.Role)
		}
		if !slices.Contains(contentTypes, m.Content.Type) {
			return fmt.Errorf("message %d: unknown content type %q", i+1, m.Content.Type)
		}
		for _, name := range slices.Concat(m.Content.Text.names(), m.Content.URI.names()) {
			if !seen[name] {
				return fmt.Errorf("message %d: {{%s}} is not an argument of the prompt", i+1, name)
			}
		}
	}
	return cmp.Or(content.CheckIcons(p.Icons), checkScopes(p.Scopes))
}

var contentTypes = []string{"text", "image", "audio", "resource", "resource_link"}

// IsDenied reports whether the token lacks scopes, so that the entry is not listed.
func (p *PromptEntry) IsDenied() bool { return p.Denied }

// AppendTo appends the prompt as prompts/list returns it.
func (p *PromptEntry) AppendTo(dst []byte, v protocol.Revision) []byte {
	dst = AppendNamed(append(dst, '{'), p.Name, p.Title, p.Description, v)
	if len(p.Arguments) > 0 {
		dst = append(dst, `,"arguments":[`...)
		for _, a := range p.Arguments {
			dst = AppendNamed(append(strictjson.Comma(dst), '{'), a.Name, a.Title, a.Description, v)
			dst = append(append(dst, `,"required":`...), strictjson.Boolean(a.Required)...)
			dst = append(dst, '}')
		}
		dst = append(dst, ']')
	}
	return append(content.AppendIcons(dst, p.Icons, v), '}')
}

// AppendNamed appends the members name, title and description.
func AppendNamed(dst []byte, name, title, description string, v protocol.Revision) []byte {
	dst = strictjson.AppendString(append(dst, `"name":`...), name)
	if title != "" && v.SupportsTitles() {
		dst = strictjson.AppendString(append(dst, `,"title":`...), title)
	}
	if description != "" {
		dst = strictjson.AppendString(append(dst, `,"description":`...), description)
	}
	return dst
}

// CheckValues checks the values against the prompt's arguments. It ignores unknown arguments.
func (p *Prompt) CheckValues(values map[string]string) error {
	for _, a := range p.Arguments {
		value, given := values[a.Name]
		switch {
		case a.Required && !given:
			return fmt.Errorf("the prompt %s requires the argument %s%s", p.Name, a.Name, described(a.Description))
		case given && a.Enum != nil && !slices.Contains(a.Enum, value) && (a.Required || value != ""):
			return fmt.Errorf("the argument %s must be one of %s", a.Name, text.Cut(strings.Join(a.Enum, ", "), maxListedValues))
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
