package mcpadapter

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
)

// maxIcons is the maximum number of icons of a tool, resource or prompt.
const maxIcons = 16

// An Icon is an image that clients may show beside a name (MCP 2025-11-25, Icon).
type Icon struct {
	Source   string   // https:, http: or data: URI
	MIMEType string   // "" if the source has its own media type
	Sizes    []string // "48x48", or "any"
	Theme    string   // "light", "dark", or "" for both
}

// checkIcons returns an error for icons that MCP does not allow.
func checkIcons(icons []Icon) error {
	if len(icons) > maxIcons {
		return fmt.Errorf("more than %d icons", maxIcons)
	}
	for _, icon := range icons {
		if err := icon.check(); err != nil {
			return fmt.Errorf("icon %s: %w", clip(icon.Source, maxQuoted), err)
		}
	}
	return nil
}

func (i Icon) check() error {
	switch scheme, _, _ := strings.Cut(i.Source, ":"); strings.ToLower(scheme) {
	case "https", "http", "data":
	default:
		return errors.New("the source of an icon is an https:, http: or data: URI")
	}
	if checkLiteral(i.Source) != nil {
		return errors.New("the source of an icon is no URI")
	}
	switch i.Theme {
	case "", "light", "dark":
		return nil
	}
	return fmt.Errorf("the theme of an icon is light or dark, not %q", i.Theme)
}

// readIcons reads the icons of x-mcp. It leaves out invalid ones.
func readIcons(raw jsontext.Value) (icons []Icon) {
	if raw.Kind() != '[' {
		return nil
	}
	for walk := wire.Into(raw); walk.Next() && len(icons) < maxIcons; {
		if icon := readIcon(walk.Value); icon.check() == nil {
			icons = append(icons, icon)
		}
	}
	return icons
}

// readIcon reads one icon. It ignores members of the wrong type.
func readIcon(raw jsontext.Value) Icon {
	icon := Icon{
		Source:   text(member(raw, "src")),
		MIMEType: text(member(raw, "mimeType")),
		Theme:    text(member(raw, "theme")),
	}
	if sizes := member(raw, "sizes"); sizes.Kind() == '[' {
		for each := wire.Into(sizes); each.Next(); {
			if size := text(each.Value); size != "" {
				icon.Sizes = append(icon.Sizes, size)
			}
		}
	}
	return icon
}

// appendIcons appends the member icons if the revision has it.
func appendIcons(dst []byte, icons []Icon, v revision) []byte {
	if len(icons) == 0 || !v.pictures() {
		return dst
	}
	dst = append(dst, `,"icons":[`...)
	for i, icon := range icons {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = wire.AppendString(append(dst, `{"src":`...), icon.Source)
		if icon.MIMEType != "" {
			dst = wire.AppendString(append(dst, `,"mimeType":`...), icon.MIMEType)
		}
		if len(icon.Sizes) > 0 {
			dst = appendStrings(append(dst, `,"sizes":`...), icon.Sizes)
		}
		if icon.Theme != "" {
			dst = wire.AppendString(append(dst, `,"theme":`...), icon.Theme)
		}
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

// appendStrings appends an array of strings.
func appendStrings(dst []byte, values []string) []byte {
	dst = append(dst, '[')
	for i, value := range values {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = wire.AppendString(dst, value)
	}
	return append(dst, ']')
}
