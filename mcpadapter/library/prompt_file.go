package library

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/internal/yamltree"
	"github.com/fairwayhq/fairway/mcpadapter/internal/content"
)

const (
	// MaxPromptFile is the maximum size of a prompts file, in bytes.
	MaxPromptFile = 1 << 20

	maxPrompts         = 1000
	maxPromptMessages  = 100      // in one prompt
	maxPromptMedia     = 4 << 20  // bytes of one image, audio or resource
	maxAllPromptMedia  = 32 << 20 // bytes of all of them together
	maxPromptFileDepth = 32       // levels of lists and mappings
)

// ReadPrompts reads the prompts of a YAML or JSON file:
//
//	prompts:
//	  - name: plan_trip             # required
//	    title: Plan a trip
//	    description: Asks for a trip with two changes at most.
//	    scopes: [trips:plan]        # that an access token needs
//	    icons: [{src: "https://example.com/trip.svg", mimeType: image/svg+xml, sizes: [any], theme: light}]
//	    arguments:
//	      - name: city              # required
//	        title: City
//	        description: Where it begins
//	        required: true          # default: false
//	        enum: [berlin, paris]   # the only valid values; or
//	        values: [berlin, paris] # proposed values
//	    messages:                   # required
//	      - role: user              # or assistant
//	        content: Plan a trip from {{city}}.
//	      - role: user
//	        content: {type: image, file: map.png}    # or data in Base64; mimeType
//	      - role: user
//	        content: {type: resource, resource: {uri: "docs:///fares/{{city}}"}} # read on prompts/get
//	      - role: user
//	        content: {type: resource_link, uri: "docs:///fares", name: fares}
//
// The file may also be just the list of prompts. In the text and the URI of a content, {{argument}}
// is replaced by the argument's value, and {{{{ is replaced by two braces. Unknown keys are errors, and
// errors name the line. ReadPrompts calls read for the files that contents name; their paths are
// relative to the prompts file.
func ReadPrompts(data []byte, read func(path string) ([]byte, error)) ([]Prompt, error) {
	if len(data) > MaxPromptFile {
		return nil, fmt.Errorf("the file is larger than %d bytes", MaxPromptFile)
	}
	options := yamltree.Options{MaxDepth: maxPromptFileDepth}
	parse := yamltree.Parse
	if trimmed := bytes.TrimLeft(data, " \t\r\n"); len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[') {
		parse = yamltree.ParseJSON
	}
	root, err := parse(data, options)
	if err != nil {
		return nil, err
	}
	f := promptFile{read: read}
	list := root
	if root.Kind == yaml.MappingNode {
		if err := yamltree.ReadMembers(root, yamltree.Readers{"prompts": func(n *yaml.Node) error { list = n; return nil }}, "prompts"); err != nil {
			return nil, err
		}
	}
	var prompts []Prompt
	seen := make(map[string]bool)
	err = listInto(&prompts, "prompts", maxPrompts, func(n *yaml.Node) (Prompt, error) {
		p, err := f.prompt(n)
		if err == nil && seen[p.Name] {
			err = fmt.Errorf("another prompt has the name %s", p.Name)
		}
		seen[p.Name] = true
		return p, err
	})(list)
	return prompts, err
}

// A promptFile reads one file of prompts.
type promptFile struct {
	read  func(string) ([]byte, error)
	media int // bytes of media read so far
}

// listInto returns a reader for a list with up to limit items.
func listInto[T any](to *[]T, what string, limit int, read func(*yaml.Node) (T, error)) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		if n.Kind != yaml.SequenceNode {
			return yamltree.At(n, fmt.Errorf("%s must be a list, not %s", what, yamltree.Describe(n)))
		}
		if len(n.Content) > limit {
			return yamltree.At(n, fmt.Errorf("more than %d %s", limit, what))
		}
		*to = make([]T, len(n.Content))
		for i, item := range n.Content {
			var err error
			if (*to)[i], err = read(item); err != nil {
				return yamltree.At(item, err)
			}
		}
		return nil
	}
}

// textInto returns a reader for a string. Unquoted numbers and booleans are accepted as they are
// written.
func textInto(to *string) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
			return fmt.Errorf("expected a string, not %s", yamltree.Describe(n))
		}
		*to = n.Value
		return nil
	}
}

func textsInto(to *[]string, what string) func(*yaml.Node) error {
	return listInto(to, what, math.MaxInt, func(n *yaml.Node) (value string, err error) {
		return value, textInto(&value)(n)
	})
}

func boolInto(to *bool) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		value, ok := yamltree.Bool(n)
		if !ok {
			return fmt.Errorf("expected true or false, not %s", yamltree.Describe(n))
		}
		*to = value
		return nil
	}
}

func templateInto(to *template, given *bool) func(*yaml.Node) error {
	return func(n *yaml.Node) (err error) {
		var source string
		if err = textInto(&source)(n); err == nil {
			*given = true
			*to, err = ParseTemplate(source)
		}
		return err
	}
}

func (f *promptFile) prompt(n *yaml.Node) (p Prompt, err error) {
	err = yamltree.ReadMembers(n, yamltree.Readers{
		"name":        textInto(&p.Name),
		"title":       textInto(&p.Title),
		"scopes":      textsInto(&p.Scopes, "scopes"),
		"description": textInto(&p.Description),
		"icons":       listInto(&p.Icons, "icons", content.MaxIcons, readIcon),
		"arguments":   listInto(&p.Arguments, "arguments", maxPromptArguments, readArgument),
		"messages":    listInto(&p.Messages, "messages", maxPromptMessages, f.message),
	}, "name", "messages")
	if err == nil {
		err = p.check()
	}
	return p, err
}

func readIcon(n *yaml.Node) (icon content.Icon, err error) {
	err = yamltree.ReadMembers(n, yamltree.Readers{
		"src":      textInto(&icon.Source),
		"mimeType": textInto(&icon.MIMEType),
		"sizes":    textsInto(&icon.Sizes, "sizes"),
		"theme":    textInto(&icon.Theme),
	}, "src")
	if err == nil {
		err = icon.Check()
	}
	return icon, err
}

func readArgument(n *yaml.Node) (a PromptArgument, err error) {
	err = yamltree.ReadMembers(n, yamltree.Readers{
		"name":        textInto(&a.Name),
		"title":       textInto(&a.Title),
		"description": textInto(&a.Description),
		"required":    boolInto(&a.Required),
		"enum":        textsInto(&a.Enum, "enum"),
		"values":      textsInto(&a.Values, "values"),
	}, "name")
	if err == nil && a.Enum != nil && a.Values != nil {
		err = errors.New("enum and values exclude each other: enum lists all allowed values, values only suggests some; remove one")
	}
	return a, err
}

func (f *promptFile) message(n *yaml.Node) (m PromptMessage, err error) {
	err = yamltree.ReadMembers(n, yamltree.Readers{
		"role":    textInto(&m.Role),
		"content": func(n *yaml.Node) error { return f.content(n, &m.Content) },
	}, "role", "content")
	if err == nil && m.Role != "user" && m.Role != "assistant" {
		err = fmt.Errorf("role must be user or assistant, not %q", text.Cut(m.Role, text.MaxQuoted))
	}
	return m, err
}

// content reads a content by its type. A plain string is a text content.
func (f *promptFile) content(n *yaml.Node, c *PromptContent) error {
	var isText, hasURI bool
	if n.Kind == yaml.ScalarNode {
		c.Type = "text"
		return templateInto(&c.Text, &isText)(n)
	}
	if kind := yamltree.Member(n, "type"); kind != nil {
		c.Type = kind.Value
	}
	kind := func(*yaml.Node) error { return nil }
	switch c.Type {
	case "text":
		return yamltree.ReadMembers(n, yamltree.Readers{"type": kind, "text": templateInto(&c.Text, &isText)}, "text")
	case "image", "audio":
		return f.mediaContent(n, c, "type", kind)
	case "resource":
		return yamltree.ReadMembers(n, yamltree.Readers{
			"type":     kind,
			"resource": func(n *yaml.Node) error { return f.resource(n, c) },
		}, "resource")
	case "resource_link":
		return yamltree.ReadMembers(n, yamltree.Readers{
			"type": kind, "uri": templateInto(&c.URI, &hasURI), "mimeType": textInto(&c.MIMEType),
			"name": textInto(&c.Name), "title": textInto(&c.Title), "description": textInto(&c.Description),
		}, "uri")
	}
	return fmt.Errorf("type of the content must be one of %s, not %q", strings.Join(contentTypes, ", "), text.Cut(c.Type, text.MaxQuoted))
}

// mediaContent reads an image or audio, from data or from a file.
func (f *promptFile) mediaContent(n *yaml.Node, c *PromptContent, also string, reader func(*yaml.Node) error) error {
	var name string
	err := yamltree.ReadMembers(n, yamltree.Readers{
		also:       reader,
		"data":     func(n *yaml.Node) error { return f.data(n, &c.Data) },
		"file":     func(n *yaml.Node) error { return f.file(n, &name, &c.Data) },
		"mimeType": textInto(&c.MIMEType),
	})
	if err != nil {
		return err
	}
	if c.Data == nil {
		return errors.New("data (Base64) or file is missing")
	}
	c.MIMEType = cmp.Or(c.MIMEType, mimeOf("", name))
	if !strings.HasPrefix(c.MIMEType, c.Type+"/") {
		return fmt.Errorf("mimeType must be of the kind %s, such as %s, not %q", c.Type, map[string]string{"image": "image/png", "audio": "audio/wav"}[c.Type], c.MIMEType)
	}
	return nil
}

// resource reads a resource: an inline one, or one that is read by its URI later.
func (f *promptFile) resource(n *yaml.Node, c *PromptContent) error {
	var hasURI, hasText bool
	var name string
	err := yamltree.ReadMembers(n, yamltree.Readers{
		"uri":      templateInto(&c.URI, &hasURI),
		"mimeType": textInto(&c.MIMEType),
		"text":     templateInto(&c.Text, &hasText),
		"blob":     func(n *yaml.Node) error { return f.data(n, &c.Data) },
		"file":     func(n *yaml.Node) error { return f.file(n, &name, &c.Data) },
	}, "uri")
	if err == nil && hasText && c.Data != nil {
		err = errors.New("a resource must have exactly one of text, blob and file")
	}
	c.Inline = hasText || c.Data != nil
	if c.Inline {
		c.MIMEType = cmp.Or(c.MIMEType, mimeOf("", name))
	}
	if hasText && c.MIMEType == "" {
		c.MIMEType = "text/plain"
	}
	return err
}

// data reads Base64, which may contain line breaks.
func (f *promptFile) data(n *yaml.Node, to *[]byte) error {
	var source string
	if err := textInto(&source)(n); err != nil {
		return err
	}
	data, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(source), ""))
	if err != nil {
		return fmt.Errorf("not Base64: %w", err)
	}
	return f.take(data, to)
}

// file reads a file that a content names.
func (f *promptFile) file(n *yaml.Node, name *string, to *[]byte) error {
	if err := textInto(name)(n); err != nil {
		return err
	}
	if f.read == nil {
		return errors.New("files cannot be read here; give the data in Base64")
	}
	data, err := f.read(*name)
	if err != nil {
		return fmt.Errorf("file %s: %w", text.Cut(*name, text.MaxQuoted), err)
	}
	return f.take(data, to)
}

// take stores the data of a content and checks the size limits.
func (f *promptFile) take(data []byte, to *[]byte) error {
	f.media += len(data)
	switch {
	case *to != nil:
		return errors.New("the content has both data and a file; remove one")
	case len(data) == 0:
		return errors.New("the content is empty")
	case len(data) > maxPromptMedia:
		return fmt.Errorf("the content is larger than %d bytes", maxPromptMedia)
	case f.media > maxAllPromptMedia:
		return fmt.Errorf("the contents of all prompts are larger than %d bytes", maxAllPromptMedia)
	}
	*to = data
	return nil
}
