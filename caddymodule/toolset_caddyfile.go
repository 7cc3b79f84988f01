package caddymodule

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/dustin/go-humanize"

	"github.com/fairwayhq/fairway/ocp"
	"github.com/fairwayhq/fairway/ocp/schema"
)

// block reads the subdirectives of one block and refuses those that come twice.
type block struct {
	*caddyfile.Dispenser
	seen map[string]bool
}

func newBlock(d *caddyfile.Dispenser) *block {
	return &block{Dispenser: d, seen: make(map[string]bool)}
}

// once refuses a subdirective that has been there already.
func (b *block) once() error {
	name := b.Val()
	if b.seen[name] {
		return b.Errf("%s is given twice", name)
	}
	b.seen[name] = true
	return nil
}

// text reads the only argument of a subdirective that may come once.
func (b *block) text(to *string) error {
	if err := b.once(); err != nil {
		return err
	}
	if !b.AllArgs(to) {
		return b.ArgErr()
	}
	if *to == "" {
		return b.Err("the value is empty")
	}
	return nil
}

// value reads the only argument and parses it.
func (b *block) value(parse func(text string) error) error {
	name, text := b.Val(), ""
	if err := b.text(&text); err != nil {
		return err
	}
	if err := parse(text); err != nil {
		return b.Errf("%s %s: %v", name, text, err)
	}
	return nil
}

// size reads a number of bytes, such as 512KB or 1MiB.
func (b *block) size(to *int64) error {
	return b.value(parseSize(to))
}

// sizeOrOff reads a number of bytes; "off" is -1.
func (b *block) sizeOrOff(to *int64) error {
	return b.value(func(text string) error {
		if text == "off" {
			*to = -1
			return nil
		}
		return parseSize(to)(text)
	})
}

func parseSize(to *int64) func(text string) error {
	return func(text string) error {
		size, err := humanize.ParseBytes(text)
		if err != nil || size == 0 || size > math.MaxInt64 {
			return errors.New("not a size: write it as 512KB or 1MiB")
		}
		*to = int64(size)
		return nil
	}
}

// count reads a whole number that is not negative.
func (b *block) count(to *int) error {
	return b.value(func(text string) error {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return errors.New("not a whole number")
		}
		*to = n
		return nil
	})
}

// duration reads a duration such as 30s or 1d; "off" is -1.
func (b *block) duration(to *caddy.Duration) error {
	return b.value(func(text string) error {
		if text == "off" {
			*to = -1
			return nil
		}
		d, err := caddy.ParseDuration(text)
		if err != nil || d <= 0 {
			return errors.New("not a duration: write it as 30s or 5m, or off")
		}
		*to = caddy.Duration(d)
		return nil
	})
}

// list reads one or more arguments of a subdirective that may come again.
func (b *block) list(to *[]string) error {
	arguments := b.RemainingArgs()
	if len(arguments) == 0 {
		return b.ArgErr()
	}
	for _, argument := range arguments {
		if slices.Contains(*to, argument) {
			return b.Errf("%s is given twice", argument)
		}
		*to = append(*to, argument)
	}
	return nil
}

// unmarshalOption reads the subdirective at which b stands if it is one of a
// toolset. The syntax is
//
//	openapi      <file, URL or path on the site>
//	refresh      <duration> | off
//	refs         <directory>
//	include      tag | operation | path | method <values...>
//	exclude      tag | operation | path | method <values...>
//	schemas      auto | inline | defs
//	base_path    <path>
//	max_document <size>
//	max_schema   <size> | off
//	timeout      <duration> | off
//	max_response <size>
//	token_budget <tokens> | off
//	credential   header <name> <value> | query <name> <value> | basic <user> <password>
//	non_inferrable <arguments...>
//
// An operation is the name of its tool, its operationId, or its method and path, as in
// DELETE /trips/{id};
// where include, exclude, credential and non_inferrable may be repeated, and the others may not.
func (c *ToolsetConfig) unmarshalOption(b *block) (known bool, err error) {
	switch b.Val() {
	case "openapi":
		err = b.text(&c.OpenAPI)
	case "refresh":
		err = b.duration(&c.Refresh)
	case "refs":
		err = b.text(&c.Refs)
	case "include":
		err = b.selectors(&c.Include)
	case "exclude":
		err = b.selectors(&c.Exclude)
	case "schemas":
		err = b.value(func(text string) error {
			_, err := schema.ParseMode(text)
			c.Schemas = text
			return err
		})
	case "base_path":
		err = b.value(func(text string) error {
			c.BasePath = text
			if !strings.HasPrefix(text, "/") && !strings.HasPrefix(text, "{") {
				return errors.New("a path begins with a slash")
			}
			return nil
		})
	case "max_document":
		err = b.size(&c.MaxDocument)
	case "max_schema":
		err = b.sizeOrOff(&c.MaxSchema)
	case "timeout":
		err = b.duration(&c.Timeout)
	case "max_response":
		err = b.size(&c.MaxResponse)
	case "token_budget":
		c.TokenBudget, err = b.tokenBudget()
	case "credential":
		err = b.credential(&c.Credentials)
	case "non_inferrable":
		err = b.list(&c.NonInferrable)
	default:
		return false, nil
	}
	return true, err
}

func (b *block) tokenBudget() (*int, error) {
	budget := new(int)
	err := b.value(func(text string) (err error) {
		if text == "off" {
			return nil
		}
		if *budget, err = strconv.Atoi(text); err != nil || *budget < 0 {
			return errors.New("not a number of tokens: write it as 25000, or off")
		}
		return nil
	})
	return budget, err
}

// credential reads where a credential goes, its name and its value. Errors do not
// repeat the value.
func (b *block) credential(to *[]Credential) error {
	var c Credential
	if !b.AllArgs(&c.In, &c.Name, &c.Value) {
		return b.Err("credential needs its place, a name and a value, as in: credential header Authorization \"Bearer {env.API_TOKEN}\"")
	}
	if err := c.check(); err != nil {
		return b.WrapErr(err)
	}
	for _, other := range *to {
		if other.place() == c.place() {
			return b.Errf("credential for %s is given twice", c.place())
		}
	}
	*to = append(*to, c)
	return nil
}

// selectors reads what operations are selected by, and one or more values.
func (b *block) selectors(to *[]ocp.Selector) error {
	name := b.Val()
	arguments := b.RemainingArgs()
	if len(arguments) < 2 {
		return b.Errf("%s needs what operations are selected by and one or more values, as in: %s tag bookings", name, name)
	}
	for _, value := range selectorValues(arguments[0], arguments[1:]) {
		s := ocp.Selector{By: arguments[0], Value: value}
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

// selectorValues returns the values of a selector. Of operations, a method and the
// path after it are one value: exclude operation DELETE /trips/{id}.
func selectorValues(by string, arguments []string) []string {
	if by != "operation" {
		return arguments
	}
	var values []string
	for _, argument := range arguments {
		last := len(values) - 1
		if strings.HasPrefix(argument, "/") && last >= 0 && (ocp.Selector{By: "method", Value: values[last]}).Check() == nil {
			values[last] += " " + argument
			continue
		}
		values = append(values, argument)
	}
	return values
}
