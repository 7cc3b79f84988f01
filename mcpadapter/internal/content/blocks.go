package content

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/tools/result"
)

// A Blocks writes content blocks of the API in the client's revision.
type Blocks struct {
	Version protocol.Revision
	Source  string // URI that names the source of embedded resources
}

// AppendBlocks appends the blocks of a content array.
func (w Blocks) AppendBlocks(dst []byte, blocks jsontext.Value) ([]byte, error) {
	count := 0
	for walk := strictjson.Into(blocks); walk.Next(); count++ {
		dst = strictjson.Comma(dst)
		var err error
		if dst, err = w.AppendBlock(dst, walk.Value); err != nil {
			return dst, fmt.Errorf("content[%d]: %w", count, err)
		}
	}
	return dst, nil
}

// AppendBlock appends a content block in the client's revision. If the revision lacks the type,
// audio becomes an embedded resource and a resource_link becomes text. A block of an unknown type becomes the text of its
// JSON, and a string a text block.
func (w Blocks) AppendBlock(dst []byte, block jsontext.Value) ([]byte, error) {
	switch block.Kind() {
	case '{':
	case '"':
		return AppendText(dst, strictjson.Text(block)), nil
	default:
		return dst, fmt.Errorf("a block must be an object, not %s", strictjson.KindName(block.Kind()))
	}
	switch kind := strictjson.Text(strictjson.MemberOf(block, "type")); kind {
	case "text":
		return w.appendMembers(append(dst, `{"type":"text"`...), block, textMembers[:])
	case "image":
		return w.appendMembers(append(dst, `{"type":"image"`...), block, mediaMembers[:])
	case "audio":
		if w.Version.SupportsAudio() {
			return w.appendMembers(append(dst, `{"type":"audio"`...), block, mediaMembers[:])
		}
		return w.appendAudioResource(dst, block)
	case "resource":
		return w.appendEmbedded(dst, block)
	case "resource_link":
		if w.Version.SupportsResourceLinks() {
			return w.appendMembers(append(dst, `{"type":"resource_link"`...), block, linkMembers[:])
		}
		return appendLinkText(dst, block)
	case "":
		return dst, errors.New("type is missing")
	default: // many clients refuse a result with a type that they do not know
		return AppendText(dst, []byte(block)), nil
	}
}

// A blockMember describes a member of a content block.
type blockMember struct {
	name     string
	required bool
	known    func(protocol.Revision) bool // revisions that have the member; nil for all
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
		{"size", false, nil, IsInteger},
		{"icons", false, protocol.Revision.SupportsIcons, isIcons},
		annotationsMember, metaMember,
	}
	embeddedMembers = [...]blockMember{annotationsMember, metaMember}
	contentsMembers = [...]blockMember{
		{"uri", true, nil, isURI}, {"mimeType", false, nil, isString}, {"text", false, nil, isString}, {"blob", false, nil, isBase64}, metaMember,
	}
	annotationsMember = blockMember{"annotations", false, nil, isAnnotations}
	metaMember        = blockMember{"_meta", false, protocol.Revision.SupportsContentMeta, isObject}
)

// appendMembers appends the valid members of object to a JSON object that already has a member, and
// closes it.
func (w Blocks) appendMembers(dst []byte, object jsontext.Value, members []blockMember) ([]byte, error) {
	for i := range members {
		m := &members[i]
		value := strictjson.MemberOf(object, m.name)
		if isAbsent(value) {
			if m.required {
				return dst, fmt.Errorf("%s is missing", m.name)
			}
			continue
		}
		if err := m.check(value); err != nil {
			return dst, fmt.Errorf("%s %w", m.name, err)
		}
		if m.known != nil && !m.known(w.Version) {
			continue
		}
		dst = append(append(append(dst, `,"`...), m.name...), `":`...)
		if m.name == "annotations" {
			dst = w.appendAnnotations(dst, value)
		} else {
			dst = append(dst, value...)
		}
	}
	return append(dst, '}'), nil
}

// AppendResourceContents appends the contents of a resource.
func (w Blocks) AppendResourceContents(dst []byte, contents jsontext.Value) ([]byte, error) {
	if contents.Kind() != '{' {
		return dst, fmt.Errorf("the contents of a resource must be an object, not %s", strictjson.KindName(contents.Kind()))
	}
	if isAbsent(strictjson.MemberOf(contents, "text")) == isAbsent(strictjson.MemberOf(contents, "blob")) {
		return dst, fmt.Errorf("the contents of a resource must have either text or blob")
	}
	start := len(dst)
	dst, err := w.appendMembers(append(dst, '{'), contents, contentsMembers[:])
	if err != nil {
		return dst, err
	}
	copy(dst[start+1:], dst[start+2:]) // remove the comma before the first member
	return dst[:len(dst)-1], nil
}

func (w Blocks) appendEmbedded(dst []byte, block jsontext.Value) ([]byte, error) {
	dst, err := w.AppendResourceContents(append(dst, `{"type":"resource","resource":`...), strictjson.MemberOf(block, "resource"))
	if err != nil {
		return dst, fmt.Errorf("resource: %w", err)
	}
	return w.appendMembers(dst, block, embeddedMembers[:])
}

// appendAudioResource appends audio for a revision without audio content.
func (w Blocks) appendAudioResource(dst []byte, block jsontext.Value) ([]byte, error) {
	for i := range mediaMembers[:2] {
		m := &mediaMembers[i]
		if err := m.check(strictjson.MemberOf(block, m.name)); err != nil {
			return dst, fmt.Errorf("%s %w", m.name, err)
		}
	}
	dst = strictjson.AppendString(append(dst, `{"type":"resource","resource":{"uri":`...), w.Source)
	dst = append(append(dst, `,"blob":`...), strictjson.MemberOf(block, "data")...)
	dst = append(append(dst, `,"mimeType":`...), strictjson.MemberOf(block, "mimeType")...)
	return append(dst, "}}"...), nil
}

// appendLinkText appends a link as text for a revision without resource_link.
func appendLinkText(dst []byte, block jsontext.Value) ([]byte, error) {
	uri, name := strictjson.MemberOf(block, "uri"), strictjson.Text(strictjson.MemberOf(block, "name"))
	if err := isURI(uri); err != nil {
		return dst, fmt.Errorf("uri %w", err)
	}
	if name == "" {
		return dst, fmt.Errorf("name is missing")
	}
	return AppendText(dst, name+": "+strictjson.Text(uri)), nil
}

// appendAnnotations appends the members of valid annotations that the revision has.
func (w Blocks) appendAnnotations(dst []byte, annotations jsontext.Value) []byte {
	var known strictjson.ObjectBuilder
	for walk := strictjson.Into(annotations); walk.Next(); {
		if walk.Is("audience") || walk.Is("priority") || walk.Is("lastModified") && w.Version.SupportsContentMeta() {
			known.Add(strictjson.Text(walk.Name), walk.Value)
		}
	}
	return append(dst, known.Close()...)
}

func isString(v jsontext.Value) error { return isKind(v, '"', "a string") }
func isObject(v jsontext.Value) error { return isKind(v, '{', "an object") }

func isKind(v jsontext.Value, kind jsontext.Kind, name string) error {
	if v.Kind() != kind {
		return fmt.Errorf("must be %s, not %s", name, strictjson.KindName(v.Kind()))
	}
	return nil
}

func IsInteger(v jsontext.Value) error {
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
			return fmt.Errorf("must be Base64, but has an invalid character at %d", i)
		}
	}
	if count%4 != 0 {
		return fmt.Errorf("must be Base64, but is truncated or lacks its padding")
	}
	return nil
}

// isAbsent reports whether a member is missing, or null: many servers write null for what they do not have.
func isAbsent(v jsontext.Value) bool { return v == nil || v.Kind() == 'n' }

// isURI accepts characters that a URI must not have: clients take what follows the scheme as it is.
func isURI(v jsontext.Value) error {
	if err := isString(v); err != nil {
		return err
	}
	if !hasScheme.MatchString(strictjson.Text(v)) {
		return errors.New("must be a URI with a scheme")
	}
	return nil
}

// hasScheme matches the start of a URI (RFC 3986, section 3.1).
var hasScheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:.`)

func isIcons(v jsontext.Value) error {
	if err := isKind(v, '[', "an array"); err != nil {
		return err
	}
	for walk := strictjson.Into(v); walk.Next(); {
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
	for walk := strictjson.Into(v); walk.Next(); {
		var err error
		switch {
		case walk.Is("src"), walk.Is("mimeType"), walk.Is("theme"):
			err = isString(walk.Value)
		case walk.Is("sizes") && !strictjson.AllStrings(walk.Value):
			err = fmt.Errorf("must be an array of strings")
		}
		if err != nil {
			return fmt.Errorf("%s %w", strictjson.Text(walk.Name), err)
		}
	}
	return ReadIcon(v).Check()
}

func isAnnotations(v jsontext.Value) error {
	if err := isObject(v); err != nil {
		return err
	}
	for walk := strictjson.Into(v); walk.Next(); {
		switch {
		case walk.Is("audience"):
			if err := isKind(walk.Value, '[', "an array"); err != nil {
				return fmt.Errorf(".audience %w", err)
			}
			for role := strictjson.Into(walk.Value); role.Next(); {
				if r := strictjson.Text(role.Value); r != "user" && r != "assistant" {
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

// IsAbsoluteURL reports whether text is a URL with a scheme that contains only characters that RFC
// 3986 allows.
func IsAbsoluteURL(source string) bool {
	u, err := url.Parse(source)
	return err == nil && CheckLiteral(source) == nil && u.Scheme != "" && (u.Host != "" || u.Opaque != "" || u.Path != "")
}

// CheckLiteral rejects characters that a URI must not contain. It accepts percent signs.
func CheckLiteral(literal string) error {
	for i := range len(literal) {
		if c := literal[i]; c <= ' ' || c >= 0x7f || strings.IndexByte(`"<>\^`+"`{|}", c) >= 0 {
			return fmt.Errorf("a URI cannot contain %q; percent-encode it as %%XX", literal[i:i+1])
		}
	}
	return nil
}

// NativeType is the media type of API responses that are MCP results themselves: CallToolResult,
// GetPromptResult, ReadResourceResult, InputRequiredResult, or
// {"error":{"code":…,"message":…,"data":…}} for a JSON-RPC error. APIs write them in the newest
// revision; the adapter converts them to the client's revision.
const NativeType = result.NativeType
