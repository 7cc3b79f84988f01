package app

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/fairwayhq/fairway/caddymodule/app/credential"
	"github.com/fairwayhq/fairway/caddymodule/directive"
	inspectors "github.com/fairwayhq/fairway/caddymodule/inspect"
	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/tools/build"
	"github.com/fairwayhq/fairway/tools/rule"
	"github.com/fairwayhq/fairway/tools/schema"
)

// Options are the subdirectives of a toolset. Syntax:
//
//	openapi      <file, URL or path on the site>
//	mcp_server   <URL> | command <program> <arguments...> { … }, see package mcpservers
//	overlay      <files...>
//	lock         <file>
//	refresh      <duration> | off
//	refs         <directory>
//	include      tag | operation | path | method <values...>
//	exclude      tag | operation | path | method <values...>
//	readonly
//	ignore_extensions
//	tool         <name> | <operationId> | "<method> <path>" | * { … }, see readShape
//	description_tokens <tokens> | off
//	schemas      auto | inline | defs
//	arguments    strict
//	send_mismatches [on|off]
//	base_path    <path>
//	max_document <size>
//	max_schema   <size> | off
//	timeout      <duration> | off
//	max_response <size>
//	token_budget <tokens> | off
//	max_tokens   <tokens> | off
//	fields       on | off
//	search       auto | on | off
//	pin          <tools...>
//	embeddings   <URL> { … }, see package embeddings
//	credential   header <name> <value> | query <name> <value> | basic <user> <password>
//	forward_headers <headers...>
//	allow        <expression>
//	allow_log_only <expression>
//	inspect      secrets | pii | webhook ... { … }, see package caddymodule/inspect
//	non_inferrable <arguments...>
//	idempotency  argument
//
// The value of an operation selector is the name of the operation's tool, its operationId, or
// its method and path, as in DELETE /trips/{id}. overlay, include, exclude, tool, pin, credential,
// forward_headers, inspect and non_inferrable may be repeated. The other options may be given once.
func (c *ToolsetConfig) Options(b *directive.Block) directive.Options {
	return directive.Options{
		"openapi":            directive.To(b.Text, &c.OpenAPI),
		"mcp_server":         func() error { return c.readMCPServer(b) },
		"overlay":            directive.To(b.List, &c.Overlays),
		"lock":               directive.To(b.Text, &c.Lock),
		"refresh":            directive.To(b.Duration, &c.Refresh),
		"refs":               directive.To(b.Text, &c.Refs),
		"include":            func() error { return readSelectors(b, &c.Include) },
		"exclude":            func() error { return readSelectors(b, &c.Exclude) },
		"readonly":           directive.To(b.Flag, &c.ReadOnly),
		"ignore_extensions":  directive.To(b.Flag, &c.IgnoreExtensions),
		"tool":               func() error { return readShape(b, &c.Shapes) },
		"description_tokens": func() error { return readTokens(b, &c.DescriptionTokens) },
		"schemas": func() error {
			return b.Value(func(text string) error {
				_, err := schema.ParseMode(text)
				c.Schemas = schema.Mode(text)
				return err
			})
		},
		"arguments": func() error {
			return b.Value(func(text string) error {
				if c.StrictArguments = text == "strict"; !c.StrictArguments {
					return errors.New("write it as strict, or leave it out")
				}
				return nil
			})
		},
		"send_mismatches": directive.To(b.Toggle, &c.SendMismatches),
		"base_path": func() error {
			return b.Value(func(text string) error {
				c.BasePath = text
				if !strings.HasPrefix(text, "/") && !strings.HasPrefix(text, "{") {
					return errors.New("the path must begin with a slash")
				}
				return nil
			})
		},
		"max_document":    func() error { return readBytes(b.Size, &c.MaxDocument) },
		"max_schema":      func() error { return readBytes(b.SizeOrOff, &c.MaxSchema) },
		"timeout":         directive.To(b.Duration, &c.Timeout),
		"max_response":    directive.To(b.Size, &c.MaxResponse),
		"token_budget":    func() error { return readTokenBudget(b, &c.TokenBudget) },
		"max_tokens":      func() error { return ReadMaxTokens(b, &c.MaxTokens) },
		"fields":          directive.To(b.Toggle, &c.Fields),
		"search":          func() error { return ReadSearch(b, &c.Search) },
		"embeddings":      func() error { return c.readEmbeddings(b) },
		"pin":             directive.To(b.List, &c.Pins),
		"credential":      func() error { return credential.Read(b, &c.Credentials) },
		"forward_headers": func() error { return b.Each(&c.ForwardHeaders, httpheader.CheckForwarded) },
		"inspect":         func() error { return inspectors.Read(b, &c.Inspectors) },
		"allow":           func() error { return readAllow(b, &c.Allow) },
		"allow_log_only":  func() error { return readAllow(b, &c.AllowLogOnly) },
		"non_inferrable":  directive.To(b.List, &c.NonInferrable),
		"idempotency": func() error {
			return b.Value(func(text string) error {
				if c.IdempotencyArgument = text == "argument"; !c.IdempotencyArgument {
					return errors.New("write it as argument, or leave it out; its other options belong to mcp and otc")
				}
				return nil
			})
		},
	}
}

// readAllow reads a rule. The Caddyfile removes quotation marks, so the whole expression must be quoted.
func readAllow(b *directive.Block, to *string) error {
	if name := b.Val(); b.CountRemainingArgs() != 1 {
		return b.Err(name + " takes one expression in backticks, as in: " + name + " `tool.readOnly || \"ops\" in user.groups`")
	}
	return b.Value(func(text string) error {
		*to = text
		_, err := rule.Compile(text)
		return err
	})
}

// readBytes reads a number of bytes that fits into memory.
func readBytes(read func(*int64) error, to *int) error {
	var size int64
	err := read(&size)
	*to = int(size)
	return err
}

// readTokenBudget reads a number of tokens; "off" is 0.
func readTokenBudget(b *directive.Block, to **int) error {
	*to = new(int)
	return b.Value(func(text string) (err error) {
		if text == "off" {
			return nil
		}
		if **to, err = strconv.Atoi(text); err != nil || **to < 0 {
			return errors.New("not a number of tokens: write it as 25000, or off")
		}
		return nil
	})
}

// readSelectors reads the kind of a selector and one or more values.
func readSelectors(b *directive.Block, to *[]build.Selector) error {
	name := b.Val()
	arguments := b.RemainingArgs()
	if len(arguments) < 2 {
		return b.Errf("%s needs tag, operation, path or method, and one or more values, as in: %s tag bookings", name, name)
	}
	for _, value := range SelectorValues(arguments[0], arguments[1:]) {
		s := build.Selector{By: arguments[0], Value: value}
		if err := s.Check(); err != nil {
			return b.Errf("%s: %v", name, err)
		}
		if slices.Contains(*to, s) {
			return b.Errf("%s %s is given twice", name, s)
		}
		*to = append(*to, s)
	}
	return nil
}

// SelectorValues returns the values of a selector. For operations, a method and the path after
// it are one value: exclude operation DELETE /trips/{id}.
func SelectorValues(by string, arguments []string) []string {
	if by != "operation" {
		return arguments
	}
	var values []string
	for _, argument := range arguments {
		last := len(values) - 1
		if strings.HasPrefix(argument, "/") && last >= 0 && (build.Selector{By: "method", Value: values[last]}).Check() == nil {
			values[last] += " " + argument
			continue
		}
		values = append(values, argument)
	}
	return values
}
