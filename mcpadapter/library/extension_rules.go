package library

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/mcpadapter/internal/content"
	"github.com/fairwayhq/fairway/tools"
)

// A rule describes the valid values of a member of x-mcp.
type rule struct {
	want     string // for messages: "a string"
	fits     func(jsontext.Value) bool
	members  ruleset // rules for the members of an object; nil if they are not checked
	items    *rule   // rule for the items of an array; nil if they are not checked
	maxItems int     // maximum number of items; further items are ignored
}

// A ruleset maps the known members of an object to their rules.
type ruleset map[string]rule

func ofKinds(want string, kinds ...jsontext.Kind) rule {
	return rule{want: want, fits: func(v jsontext.Value) bool { return slices.Contains(kinds, v.Kind()) }}
}

// textThat is a rule for strings for which fits returns true.
func textThat(want string, fits func(string) bool) rule {
	return rule{want: want, fits: func(v jsontext.Value) bool { return v.Kind() == '"' && fits(strictjson.Text(v)) }}
}

func oneOfTexts(words ...string) rule {
	return textThat(strings.Join(words, " or "), func(s string) bool { return slices.Contains(words, s) })
}

func (r rule) with(members ruleset) rule { r.members = members; return r }
func (r rule) of(most int, items rule) rule {
	r.maxItems, r.items = most, &items
	return r
}

// each is a rule for arrays whose elements all follow the rule items.
func each(want string, items rule) rule {
	return rule{want: want, fits: func(v jsontext.Value) bool {
		for walk := strictjson.Into(v); walk.Next(); {
			if !items.fits(walk.Value) {
				return false
			}
		}
		return v.Kind() == '['
	}}
}

// policies is a rule for objects whose members are lists of origins.
func policies(names ...string) rule {
	origins := each("an array of origins", textThat("an origin", func(s string) bool { return checkOrigin(s) == nil }))
	want := "an object of " + strings.Join(names, ", ") + ", each an array of origins such as https://cdn.example.com"
	return rule{want: want, fits: func(v jsontext.Value) bool {
		for walk := strictjson.Into(v); walk.Next(); {
			if !slices.Contains(names, strictjson.Text(walk.Name)) || !origins.fits(walk.Value) {
				return false
			}
		}
		return v.Kind() == '{'
	}}
}

// The rules for the members of x-mcp.
var (
	aString     = ofKinds("a string", '"')
	aBoolean    = ofKinds("true or false", 't', 'f')
	anArray     = ofKinds("an array", '[')
	anObject    = ofKinds("an object", '{')
	describable = ofKinds("true, or an object that describes it", 't', 'f', '{')
	pageURI     = textThat("a URI that begins with ui://", func(s string) bool { return strings.HasPrefix(s, "ui://") && content.CheckLiteral(s) == nil })
	shortText   = textThat(fmt.Sprintf("a string of at most %d characters", maxStatusText), func(s string) bool { return utf8.RuneCountInString(s) <= maxStatusText })

	iconRules = anArray.of(content.MaxIcons, rule{
		want: "an object whose src is an https:, http: or data: URI and whose theme, if it has one, is light or dark",
		fits: func(v jsontext.Value) bool { return v.Kind() == '{' && content.ReadIcon(v).Check() == nil },
		members: ruleset{
			"src": aString, "mimeType": aString, "theme": aString, "sizes": each("an array of strings", aString),
		},
	})

	// documentRules apply to x-mcp at the root of the document.
	documentRules = ruleset{"icons": iconRules}

	operationRules = ruleset{
		"tool": aBoolean,
		"resource": describable.with(ruleset{
			"uri": aString, "name": aString, "title": aString, "description": aString, "mimeType": aString,
			"icons": iconRules, "_meta": anObject,
		}),
		"prompt": describable.with(ruleset{
			"name": aString, "title": aString, "description": aString, "icons": iconRules,
			"arguments": anArray.of(maxPromptArguments, anObject.with(ruleset{
				"name": aString, "title": aString, "description": aString, "required": aBoolean, "values": each("an array of strings", aString),
			})),
		}),
		"execution": anObject.with(ruleset{
			"taskSupport": oneOfTexts(string(TaskRequired), string(TaskOptional), string(TaskForbidden)),
		}),
		"icons":  iconRules,
		"ui":     anObject.with(uiRules),
		"openai": anObject.with(openaiRules),
	}

	// uiRules apply to _meta.ui of a tool and of its page (MCP Apps).
	uiRules = ruleset{
		"resourceUri":   pageURI,
		"visibility":    each(`an array of "model" and "app"`, oneOfTexts("model", "app")),
		"csp":           policies("connectDomains", "resourceDomains", "frameDomains", "baseUriDomains"),
		"permissions":   anObject,
		"domain":        aString,
		"prefersBorder": aBoolean,
	}

	// openaiRules apply to the members of the Apps SDK, named without openaiPrefix.
	openaiRules = ruleset{
		"outputTemplate":          pageURI,
		"toolInvocation/invoking": shortText,
		"toolInvocation/invoked":  shortText,
		"widgetAccessible":        aBoolean,
		"visibility":              oneOfTexts("public", "private"),
		"fileParams":              each("an array of strings", aString),
		"widgetDescription":       aString,
		"widgetPrefersBorder":     aBoolean,
		"widgetCSP":               policies("connect_domains", "resource_domains", "frame_domains", "redirect_domains"),
		"widgetDomain":            aString,
	}
)

// extensionWarnings returns warnings about x-mcp members that cannot be used. NewIndex adds the warnings
// about resources and prompts.
func (s *Index) extensionWarnings() (warnings []tools.Warning) {
	where := ""
	warn := func(format string, args ...any) {
		warnings = append(warnings, tools.Warning{Operation: where, Reason: "x-mcp: " + fmt.Sprintf(format, args...)})
	}
	for _, document := range s.tools.Parts() {
		documentRules.read("", document.MCP, warn)
	}
	for _, tool := range s.tools.Tools() {
		if tool.MCP != nil {
			where = tool.Plan.Method + " " + tool.Plan.Path
			s.checkApp(tool, readExtension(tool.MCP, warn), warn)
		}
	}
	return warnings
}

// A warner adds a warning.
type warner func(format string, args ...any)

// silent is the warner of readers that only need what can be used.
func silent(string, ...any) {}

// read returns the members of an object that can be used, and warns about the others. path is the location of the
// object, ending in a dot, or "".
func (s ruleset) read(path string, object jsontext.Value, warn warner) jsontext.Value {
	passOn := path == "ui." || path == "openai." // unknown members, because hosts may know them
	seen := make(map[string]bool)
	var usable strictjson.ObjectBuilder
	for walk := strictjson.Into(object); walk.Next(); {
		name := strictjson.Text(walk.Name)
		if path == "openai." {
			name = strings.TrimPrefix(name, openaiPrefix)
		}
		r, known := s[name]
		value := walk.Value
		if known {
			value = r.read(path+name, value, warn)
		} else {
			s.warnUnknown(path, name, passOn, warn)
		}
		switch {
		case value == nil || !known && !passOn:
		case seen[name]:
			warn("ignored the second %s: the key is given twice", path+name)
		default:
			seen[name] = true
			usable.Add(name, value)
		}
	}
	return usable.Close()
}

// warnUnknown warns about an unknown member. One that is passed on causes a warning only if it looks like a misspelling.
func (s ruleset) warnUnknown(path, name string, passedOn bool, warn warner) {
	names := slices.Sorted(maps.Keys(s))
	near := text.Nearest(name, slices.Values(names))
	where := text.Cut(path+name, text.MaxQuoted)
	switch {
	case near != "" && passedOn:
		warn("passed on unknown key `%s`; did you mean %s%s?", where, path, near)
	case near != "":
		warn("ignored unknown key `%s`; did you mean %s%s? Known keys are %s", where, path, near, strings.Join(names, ", "))
	case !passedOn:
		warn("ignored unknown key `%s`; known keys are %s", where, strings.Join(names, ", "))
	}
}

// read returns what can be used of a value, nil for nothing, and warns about the rest.
func (r rule) read(path string, value jsontext.Value, warn warner) jsontext.Value {
	switch {
	case !r.fits(value):
		warn("ignored %s: it must be %s, not %s", text.Cut(path, text.MaxQuoted), r.want, shown(value))
		return nil
	case r.members != nil && value.Kind() == '{':
		return r.members.read(path+".", value, warn)
	case r.items == nil:
		return value
	}
	var usable [][]byte
	i := 0
	for walk := strictjson.Into(value); walk.Next(); i++ {
		if i == r.maxItems {
			warn("ignored the items of %s after the first %d", text.Cut(path, text.MaxQuoted), r.maxItems)
			break
		}
		if item := r.items.read(path+"["+strconv.Itoa(i)+"]", walk.Value, warn); item != nil {
			usable = append(usable, item)
		}
	}
	return slices.Concat([]byte("["), bytes.Join(usable, []byte(",")), []byte("]"))
}

// shown returns a value as messages quote it.
func shown(value jsontext.Value) string {
	if len(value) <= text.MaxQuoted {
		return string(value)
	}
	return strictjson.KindName(value.Kind())
}
