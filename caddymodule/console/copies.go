package console

import (
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools"
)

// copies returns a call in the forms that users copy.
func (p *toolPage) copies(m *tryModel) []copyModel {
	var all []copyModel
	if m.Request != nil {
		all = append(all, copyModel{"copy-curl", "curl", curl(p.in.origin(), m.Request)})
	}
	protocol := p.endpoint.Protocol
	_, message := p.endpoint.Message(p.toolset, p.tool.Name, m.Sent)
	return append(all, copyModel{"copy-" + protocol, strings.ToUpper(protocol) + " JSON", pretty(message)}, copyModel{"copy-caddyfile", "Caddyfile tool block", toolBlock(p.tool, m.Sent, m.Shape)})
}

// curl returns the command that sends a request.
func curl(origin string, r *requestModel) string {
	var b strings.Builder
	b.WriteString("curl")
	if r.Method != "GET" {
		b.WriteString(" -X " + r.Method)
	}
	b.WriteString(" " + shellWord(origin+r.Target))
	for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
		for _, value := range r.Headers[name] {
			b.WriteString(" \\\n  -H " + shellWord(name+": "+value))
		}
	}
	if r.Body != "" {
		b.WriteString(" \\\n  --data-raw " + shellWord(r.Body))
	}
	return b.String()
}

// shellWord returns a text as one word of a POSIX shell.
func shellWord(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// toolBlock returns a block of a toolset that gives the arguments as defaults and has the options of the shape.
func toolBlock(t *tools.Tool, arguments []byte, tried *shape) string {
	var b strings.Builder
	name := t.Name
	if t.Unshaped.Name != "" {
		name = t.Unshaped.Name
	}
	b.WriteString("tool " + name + " {\n")
	if token, ok := caddyToken(t.Definition.Title); ok && t.Definition.Title != "" {
		b.WriteString("\ttitle " + token + "\n")
	}
	_ = strictjson.Split(arguments, func(name, value jsontext.Value) {
		plain, text := strictjson.Text(name), string(value)
		if value.Kind() == '"' {
			text = strictjson.Text(value)
		}
		token, ok := caddyToken(text)
		if !ok || strings.Contains(token, tools.HiddenValue) || !slices.ContainsFunc(t.Definition.Arguments, func(a tools.Argument) bool { return a.Name == plain }) {
			return // the value cannot be written in a Caddyfile, or the tool has no such argument
		}
		b.WriteString("\targument " + plain + " {\n\t\tdefault " + token + "\n\t}\n")
	})
	return b.String() + tried.options() + "}"
}

// bareCharacters has the characters of a token of a Caddyfile that needs no quotes, in addition to letters
// and digits.
const bareCharacters = "-_.:/@%+,=~"

// caddyToken returns a text as one token of a Caddyfile. It returns false if this is not possible.
func caddyToken(text string) (token string, ok bool) {
	special := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(bareCharacters, r)
	}
	switch {
	case strings.Contains(text, "{$") || strings.ContainsAny(text, "\r\x00"):
		return "", false // {$NAME} is replaced wherever it is
	case text != "" && !strings.ContainsFunc(text, special):
		return text, true
	case !strings.Contains(text, "`"):
		return "`" + text + "`", true
	case !strings.Contains(text, `\`):
		return `"` + strings.ReplaceAll(text, `"`, `\"`) + `"`, true
	}
	return "", false
}
