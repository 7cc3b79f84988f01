package mcpadapter

import (
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
)

// appendBlocks appends the blocks of a content array.
func (x *exchange) appendBlocks(dst []byte, blocks jsontext.Value) ([]byte, error) {
	count := 0
	for walk := wire.Into(blocks); walk.Next(); count++ {
		if count > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = x.appendBlock(dst, walk.Value); err != nil {
			return dst, fmt.Errorf("content[%d]: %w", count, err)
		}
	}
	return dst, nil
}

// appendBlock appends a content block in the client's revision. If the revision lacks the type,
// audio becomes an embedded resource and a resource_link becomes text.
func (x *exchange) appendBlock(dst []byte, block jsontext.Value) ([]byte, error) {
	if block.Kind() != '{' {
		return dst, fmt.Errorf("a block must be an object, not %s", wire.KindName(block.Kind()))
	}
	switch kind := text(member(block, "type")); kind {
	case "text":
		return x.appendMembers(append(dst, `{"type":"text"`...), block, textMembers[:])
	case "image":
		return x.appendMembers(append(dst, `{"type":"image"`...), block, mediaMembers[:])
	case "audio":
		if x.version.listens() {
			return x.appendMembers(append(dst, `{"type":"audio"`...), block, mediaMembers[:])
		}
		return x.appendAudioResource(dst, block)
	case "resource":
		return x.appendEmbedded(dst, block)
	case "resource_link":
		if x.version.links() {
			return x.appendMembers(append(dst, `{"type":"resource_link"`...), block, linkMembers[:])
		}
		return appendLinkText(dst, block)
	default:
		return dst, fmt.Errorf("type must be text, image, audio, resource or resource_link, and is %q", clip(kind, maxQuoted))
	}
}

// A blockMember describes a member of a content block.
type blockMember struct {
	name     string
	required bool
	known    func(revision) bool // revisions that have the member; nil for all
	check    func(jsontext.Value) error
}

var (
	textMembers  = [...]blockMember{{"text", true, nil, isString}, annotationsMember, metaMember}
	mediaMembers = [...]blockMember{{"data", true, nil, isBase64}, {"mimeType", true, nil, isString}, annotationsMember, metaMember}
	linkMembers  = [...]blockMember{
		{"uri", true, nil, isURI},
		{"name", true, nil, isString},
		{"title", false, nil, isString},
		{"description", false, nil, isString},
		{"mimeType", false, nil, isString},
		{"size", false, nil, isInteger},
		{"icons", false, revision.pictures, isIcons},
		annotationsMember, metaMember,
	}
	embeddedMembers = [...]blockMember{annotationsMember, metaMember}
	contentsMembers = [...]blockMember{
		{"uri", true, nil, isURI}, {"mimeType", false, nil, isString}, {"text", false, nil, isString}, {"blob", false, nil, isBase64}, metaMember,
	}
	annotationsMember = blockMember{"annotations", false, nil, isAnnotations}
	metaMember        = blockMember{"_meta", false, revision.annotatesContent, isObject}
)

// appendMembers appends the valid members of object to a JSON object that already has a member, and
// closes it.
func (x *exchange) appendMembers(dst []byte, object jsontext.Value, members []blockMember) ([]byte, error) {
	for i := range members {
		m := &members[i]
		value := member(object, m.name)
		if value == nil {
			if m.required {
				return dst, fmt.Errorf("%s is missing", m.name)
			}
			continue
		}
		if err := m.check(value); err != nil {
			return dst, fmt.Errorf("%s %w", m.name, err)
		}
		if m.known != nil && !m.known(x.version) {
			continue
		}
		dst = append(append(append(dst, `,"`...), m.name...), `":`...)
		if m.name == "annotations" {
			dst = x.appendAnnotations(dst, value)
		} else {
			dst = append(dst, value...)
		}
	}
	return append(dst, '}'), nil
}

// appendResourceContents appends the contents of a resource.
func (x *exchange) appendResourceContents(dst []byte, contents jsontext.Value) ([]byte, error) {
	if contents.Kind() != '{' {
		return dst, fmt.Errorf("the contents of a resource must be an object, not %s", wire.KindName(contents.Kind()))
	}
	if (member(contents, "text") == nil) == (member(contents, "blob") == nil) {
		return dst, fmt.Errorf("the contents of a resource must have either a text or a blob")
	}
	start := len(dst)
	dst, err := x.appendMembers(append(dst, '{'), contents, contentsMembers[:])
	if err != nil {
		return dst, err
	}
	copy(dst[start+1:], dst[start+2:]) // remove the comma before the first member
	return dst[:len(dst)-1], nil
}

func (x *exchange) appendEmbedded(dst []byte, block jsontext.Value) ([]byte, error) {
	dst, err := x.appendResourceContents(append(dst, `{"type":"resource","resource":`...), member(block, "resource"))
	if err != nil {
		return dst, fmt.Errorf("resource: %w", err)
	}
	return x.appendMembers(dst, block, embeddedMembers[:])
}

// appendAudioResource appends audio for a revision without audio content.
func (x *exchange) appendAudioResource(dst []byte, block jsontext.Value) ([]byte, error) {
	for i := range mediaMembers[:2] {
		m := &mediaMembers[i]
		if err := m.check(member(block, m.name)); err != nil {
			return dst, fmt.Errorf("%s %w", m.name, err)
		}
	}
	dst = wire.AppendString(append(dst, `{"type":"resource","resource":{"uri":`...), resourceURI(x.tools, nil))
	dst = append(append(dst, `,"blob":`...), member(block, "data")...)
	dst = append(append(dst, `,"mimeType":`...), member(block, "mimeType")...)
	return append(dst, "}}"...), nil
}

// appendLinkText appends a link as text for a revision without resource_link.
func appendLinkText(dst []byte, block jsontext.Value) ([]byte, error) {
	uri, name := member(block, "uri"), text(member(block, "name"))
	if err := isURI(uri); err != nil {
		return dst, fmt.Errorf("uri %w", err)
	}
	if name == "" {
		return dst, fmt.Errorf("name is missing")
	}
	return appendText(dst, name+": "+text(uri)), nil
}

// appendAnnotations appends the members of valid annotations that the revision has.
func (x *exchange) appendAnnotations(dst []byte, annotations jsontext.Value) []byte {
	dst = append(dst, '{')
	for walk := wire.Into(annotations); walk.Next(); {
		if !walk.Is("audience") && !walk.Is("priority") && (!walk.Is("lastModified") || !x.version.annotatesContent()) {
			continue
		}
		if dst[len(dst)-1] != '{' {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, walk.Name...), ':'), walk.Value...)
	}
	return append(dst, '}')
}

func isString(v jsontext.Value) error { return isKind(v, '"', "a string") }
func isObject(v jsontext.Value) error { return isKind(v, '{', "an object") }

func isKind(v jsontext.Value, kind jsontext.Kind, name string) error {
	if v.Kind() != kind {
		return fmt.Errorf("must be %s, not %s", name, wire.KindName(v.Kind()))
	}
	return nil
}

func isInteger(v jsontext.Value) error {
	if _, err := strconv.ParseInt(string(v), 10, 64); err != nil {
		return fmt.Errorf("must be an integer")
	}
	return nil
}

// isBase64 checks the characters and the length only. It does not decode the data.
func isBase64(v jsontext.Value) error {
	if err := isString(v); err != nil {
		return err
	}
	data, count := v[1:len(v)-1], 0
	for i, c := range data {
		count++
		switch {
		case 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '+', c == '/':
		case c == '\\' && i+1 < len(data) && data[i+1] == '/': // some JSON encoders escape the slash
			count--
		case c == '=' && i >= len(data)-2:
		default:
			return fmt.Errorf("must be Base64, and has another character at %d", i)
		}
	}
	if count%4 != 0 {
		return fmt.Errorf("must be Base64, and is cut off or lacks its padding")
	}
	return nil
}

func isURI(v jsontext.Value) error {
	if err := isString(v); err != nil {
		return err
	}
	if !isAbsoluteURL(text(v)) {
		return fmt.Errorf("must be a URI with a scheme")
	}
	return nil
}

func isIcons(v jsontext.Value) error {
	if err := isKind(v, '[', "an array"); err != nil {
		return err
	}
	for walk := wire.Into(v); walk.Next(); {
		if err := isIcon(walk.Value); err != nil {
			return fmt.Errorf("[…] %w", err)
		}
	}
	return nil
}

// isIcon checks an icon by the same rules as configured icons.
func isIcon(v jsontext.Value) error {
	if err := isObject(v); err != nil {
		return err
	}
	for walk := wire.Into(v); walk.Next(); {
		var err error
		switch {
		case walk.Is("src"), walk.Is("mimeType"), walk.Is("theme"):
			err = isString(walk.Value)
		case walk.Is("sizes") && !allStrings(walk.Value):
			err = fmt.Errorf("must be an array of strings")
		}
		if err != nil {
			return fmt.Errorf("%s %w", text(walk.Name), err)
		}
	}
	return readIcon(v).check()
}

func isAnnotations(v jsontext.Value) error {
	if err := isObject(v); err != nil {
		return err
	}
	for walk := wire.Into(v); walk.Next(); {
		switch {
		case walk.Is("audience"):
			if err := isKind(walk.Value, '[', "an array"); err != nil {
				return fmt.Errorf(".audience %w", err)
			}
			for role := wire.Into(walk.Value); role.Next(); {
				if r := text(role.Value); r != "user" && r != "assistant" {
					return fmt.Errorf(`.audience must be of "user" and "assistant"`)
				}
			}
		case walk.Is("priority"):
			if p, err := strconv.ParseFloat(string(walk.Value), 64); err != nil || p < 0 || p > 1 {
				return fmt.Errorf(".priority must be a number from 0 to 1")
			}
		case walk.Is("lastModified"):
			if err := isString(walk.Value); err != nil {
				return fmt.Errorf(".lastModified %w", err)
			}
		}
	}
	return nil
}
