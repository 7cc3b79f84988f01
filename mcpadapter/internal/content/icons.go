package content

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
)

// MaxIcons is the maximum number of icons of a tool, resource or prompt.
const MaxIcons = 16

// An Icon is an image that clients may show beside a name (MCP 2025-11-25, Icon).
type Icon struct {
	Source   string   // https:, http: or data: URI
	MIMEType string   // "" if the source has its own media type
	Sizes    []string // "48x48", or "any"
	Theme    string   // "light", "dark", or "" for both
}

// CheckIcons returns an error for icons that MCP does not allow.
func CheckIcons(icons []Icon) error {
	if len(icons) > MaxIcons {
		return fmt.Errorf("more than %d icons", MaxIcons)
	}
	for _, icon := range icons {
		if err := icon.Check(); err != nil {
			return fmt.Errorf("icon %s: %w", text.Cut(icon.Source, text.MaxQuoted), err)
		}
	}
	return nil
}

func (i Icon) Check() error {
	switch scheme, _, _ := strings.Cut(i.Source, ":"); strings.ToLower(scheme) {
	case "https", "http", "data":
	default:
		return errors.New("the source of an icon must be an https:, http: or data: URI")
	}
	if CheckLiteral(i.Source) != nil {
		return errors.New("the source of an icon is not a URI")
	}
	switch i.Theme {
	case "", "light", "dark":
		return nil
	}
	return fmt.Errorf("the theme of an icon must be light or dark, not %q", i.Theme)
}

// ReadIcons reads the icons of x-mcp. It leaves out invalid ones.
func ReadIcons(raw jsontext.Value) (icons []Icon) {
	if raw.Kind() != '[' {
		return nil
	}
	for walk := strictjson.Into(raw); walk.Next() && len(icons) < MaxIcons; {
		if icon := ReadIcon(walk.Value); icon.Check() == nil {
			icons = append(icons, icon)
		}
	}
	return icons
}

// ReadIcon reads one icon. It ignores members of the wrong type.
func ReadIcon(raw jsontext.Value) Icon {
	icon := Icon{
		Source:   strictjson.Text(strictjson.MemberOf(raw, "src")),
		MIMEType: strictjson.Text(strictjson.MemberOf(raw, "mimeType")),
		Theme:    strictjson.Text(strictjson.MemberOf(raw, "theme")),
	}
	if sizes := strictjson.MemberOf(raw, "sizes"); sizes.Kind() == '[' {
		for each := strictjson.Into(sizes); each.Next(); {
			if size := strictjson.Text(each.Value); size != "" {
				icon.Sizes = append(icon.Sizes, size)
			}
		}
	}
	return icon
}

// AppendIcons appends the member icons if the revision has it.
func AppendIcons(dst []byte, icons []Icon, v protocol.Revision) []byte {
	if len(icons) == 0 || !v.SupportsIcons() {
		return dst
	}
	dst = append(dst, `,"icons":[`...)
	for _, icon := range icons {
		dst = strictjson.AppendString(append(strictjson.Comma(dst), `{"src":`...), icon.Source)
		if icon.MIMEType != "" {
			dst = strictjson.AppendString(append(dst, `,"mimeType":`...), icon.MIMEType)
		}
		if len(icon.Sizes) > 0 {
			dst = strictjson.AppendStrings(append(dst, `,"sizes":`...), icon.Sizes)
		}
		if icon.Theme != "" {
			dst = strictjson.AppendString(append(dst, `,"theme":`...), icon.Theme)
		}
		dst = append(dst, '}')
	}
	return append(dst, ']')
}
