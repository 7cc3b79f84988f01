package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/tools/build"
)

// readShape reads a block that changes tools. Syntax:
//
//	tool <name> | <operationId> | "<method> <path>" | * {
//		rename      <name>
//		title       <text>
//		description <text>
//		annotation  readOnlyHint | destructiveHint | idempotentHint | openWorldHint  true | false
//		select      <jq>
//		max_tokens  <tokens> | off
//		fields      [on|off]
//		send_mismatches [on|off]
//		argument <name> {
//			rename      <name>
//			description <text>
//			default     <value>
//			fixed       <value>
//			hide        [on|off]
//		}
//	}
//
// annotation and argument may be repeated.
func readShape(outer *directive.Block, to *[]build.Shape) error {
	var s build.Shape
	if !outer.AllArgs(&s.Tool) {
		return outer.Err(`tool needs the name of a tool, an operationId, "METHOD /path" or *, as in: tool issues_create {`)
	}
	for _, other := range *to {
		if other.Tool == s.Tool {
			return outer.Errf("tool %s is given twice; merge the blocks", s.Tool)
		}
	}
	b := directive.NewBlock(outer.Dispenser)
	err := b.Read("tool", directive.Options{
		"rename":          directive.To(b.Text, &s.Rename),
		"title":           directive.To(b.Text, &s.Title),
		"description":     directive.To(b.Text, &s.Description),
		"annotation":      func() error { return readAnnotation(b, &s) },
		"select":          directive.To(b.Text, &s.Select),
		"max_tokens":      func() error { return ReadMaxTokens(b, &s.MaxTokens) },
		"fields":          func() error { return readToggle(b, &s.Fields) },
		"send_mismatches": func() error { return readToggle(b, &s.SendMismatches) },
		"argument":        func() error { return readArgumentShape(b, &s) },
	})
	if err != nil {
		return err
	}
	if reflect.DeepEqual(s, build.Shape{Tool: s.Tool}) {
		return outer.Errf("tool %s changes nothing; add a block with rename, description, argument or others", s.Tool)
	}
	if err := s.Check(); err != nil {
		return outer.Errf("tool %s: %v", s.Tool, err)
	}
	*to = append(*to, s)
	return nil
}

// readToggle reads on or off for an option that may be absent.
func readToggle(b *directive.Block, to **bool) error {
	*to = new(bool)
	return b.Toggle(*to)
}

// readAnnotation reads the name and value of an annotation. The title is one in MCP, too.
func readAnnotation(b *directive.Block, s *build.Shape) error {
	var name, value string
	if !b.AllArgs(&name, &value) {
		return b.Err("annotation needs a name and true or false, as in: annotation idempotentHint true")
	}
	if name == "title" {
		if s.Title != "" {
			return b.Err("title is given twice")
		}
		s.Title = value
		return nil
	}
	if err := build.CheckAnnotation(name); err != nil {
		return b.WrapErr(err)
	}
	if _, twice := s.Annotations[name]; twice {
		return b.Errf("annotation %s is given twice", name)
	}
	hint, err := strconv.ParseBool(value)
	if err != nil {
		return b.Errf("annotation %s %s: write true or false", name, value)
	}
	if s.Annotations == nil {
		s.Annotations = make(map[string]bool)
	}
	s.Annotations[name] = hint
	return nil
}

// readTokens reads a number of tokens; "off" is -1.
func readTokens(b *directive.Block, to *int) error {
	return b.Value(func(text string) (err error) {
		if text == "off" {
			*to = -1
			return nil
		}
		if *to, err = strconv.Atoi(text); err != nil || *to <= 0 {
			return errors.New("not a number of tokens: write it as 4000, or off")
		}
		return nil
	})
}

func readArgumentShape(outer *directive.Block, s *build.Shape) error {
	var name string
	if !outer.AllArgs(&name) {
		return outer.Err("argument needs the name of an argument, as in: argument per_page {")
	}
	if _, twice := s.Arguments[name]; twice {
		return outer.Errf("argument %s is given twice; merge the blocks", name)
	}
	var a build.ArgumentShape
	b := directive.NewBlock(outer.Dispenser)
	err := b.Read("argument", directive.Options{
		"rename":      directive.To(b.Text, &a.Rename),
		"description": directive.To(b.Text, &a.Description),
		"default":     func() error { return readJSONText(b, &a.Default) },
		"fixed":       func() error { return readJSONText(b, &a.Fixed) },
		"hide":        func() error { return readToggle(b, &a.Hide) },
	})
	if err != nil {
		return err
	}
	if reflect.DeepEqual(a, build.ArgumentShape{}) {
		return outer.Errf("argument %s changes nothing; add a block with rename, description, default, fixed or hide", name)
	}
	if s.Arguments == nil {
		s.Arguments = make(map[string]build.ArgumentShape)
	}
	s.Arguments[name] = a
	return nil
}

// readJSONText reads a value as a JSON string. It is converted to the type of the argument later.
func readJSONText(b *directive.Block, to *json.RawMessage) error {
	if err := b.Once(); err != nil {
		return err
	}
	var text string
	if !b.AllArgs(&text) {
		return b.ArgErr()
	}
	var err error
	*to, err = json.Marshal(text)
	return err
}

// FixedPlaceholder reports whether a fixed value may contain a placeholder of the client's request: one
// that describes the caller or that the operator defines. What callers choose themselves, such as headers
// and the query, is excluded.
func FixedPlaceholder(key string) bool {
	if !strings.HasPrefix(key, "http.") {
		return true
	}
	for _, prefix := range [...]string{"http.auth.", "http.ocp.", "http.otc.", "http.tool.", "http.vars.", "http.request.tls.", "http.request.host", "http.request.remote"} {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}

// checkShapes returns an error for shapes that can never work.
func checkShapes(shapes []build.Shape) error {
	for i := range shapes {
		s := &shapes[i]
		if err := s.Check(); err != nil {
			return fmt.Errorf("tool %s: %w", s.Tool, err)
		}
		if err := CheckMaxTokens(s.MaxTokens); err != nil {
			return fmt.Errorf("tool %s: %w", s.Tool, err)
		}
		for name, a := range s.Arguments {
			if a.Fixed == nil {
				continue
			}
			if !json.Valid(a.Fixed) {
				return fmt.Errorf("tool %s: argument %s: fixed is not JSON", s.Tool, name)
			}
			for _, p := range build.Placeholders(jsontext.Value(a.Fixed)) {
				if !FixedPlaceholder(strings.Trim(p, "{}")) {
					return fmt.Errorf("tool %s: argument %s: fixed cannot use the placeholder %s, which the caller chooses; use one of {http.auth.*}, {http.ocp.*}, {http.otc.*}, {http.vars.*}, {http.request.host}, {http.request.remote.*}, {http.request.tls.*}, {env.*} or one that map defines",
						s.Tool, name, p)
				}
			}
		}
	}
	return nil
}
