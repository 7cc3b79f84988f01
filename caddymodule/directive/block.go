package directive

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/dustin/go-humanize"

	"github.com/fairwayhq/fairway/internal/text"
)

// Each reads one or more arguments of a subdirective that may be repeated. It checks the
// arguments that contain no placeholder.
func (b *Block) Each(to *[]string, check func(source string) error) error {
	name, before := b.Val(), len(*to)
	if err := b.List(to); err != nil {
		return err
	}
	for _, source := range (*to)[before:] {
		if err := UnlessPlaceholder(source, check(source)); err != nil {
			return b.Errf("%s: %v", name, err)
		}
	}
	return nil
}

// UnlessPlaceholder returns err, except if text contains a placeholder. Its value is not known
// before start then.
func UnlessPlaceholder(source string, err error) error {
	if strings.Contains(source, "{") {
		return nil
	}
	return err
}

// CheckVariable returns an error if a secret ends in $NAME, which Caddy does not replace. The error does not contain it.
func CheckVariable(secret string) error {
	if isShellVariable.MatchString(secret) {
		return errors.New("the value has $NAME, which is not replaced: write {env.NAME}, or put a value that begins with $ into a variable or file")
	}
	return nil
}

var isShellVariable = regexp.MustCompile(`(^|\s)\$[A-Z_][A-Z0-9_]*$`)

// DidYouMean returns the end of a message about an unknown name: the most similar known name,
// or all known names if none is similar.
func DidYouMean(unknown string, known []string) string {
	if near := text.Nearest(unknown, slices.Values(known)); near != "" {
		return fmt.Sprintf("; did you mean %s?", near)
	}
	return fmt.Sprintf("; known are %s", strings.Join(known, ", "))
}

// Positive reads a whole number of 1 or more.
func (b *Block) Positive(to *int) error { return b.whole(to, 1, "not a whole number of 1 or more") }

// whole reads a whole number that is at least that. Wrong is the error for others.
func (b *Block) whole(to *int, least int, wrong string) error {
	return b.Value(func(source string) error {
		n, err := strconv.Atoi(source)
		if err != nil || n < least {
			return errors.New(wrong)
		}
		*to = n
		return nil
	})
}

// Period reads a duration that cannot be turned off.
func (b *Block) Period(to *caddy.Duration) error {
	return b.Value(func(source string) error {
		d, err := caddy.ParseDuration(source)
		if err != nil || d <= 0 {
			return errors.New("not a duration; write it as 30s or 5m")
		}
		*to = caddy.Duration(d)
		return nil
	})
}

// Toggle reads on or off. Without an argument the value is on.
func (b *Block) Toggle(to *bool) error {
	if err := b.Once(); err != nil {
		return err
	}
	name, arguments := b.Val(), b.RemainingArgs()
	switch {
	case len(arguments) == 0 || len(arguments) == 1 && arguments[0] == "on":
		*to = true
	case len(arguments) == 1 && arguments[0] == "off":
		*to = false
	default:
		return b.Errf("%s takes on or off", name)
	}
	return nil
}

// Flag reads a subdirective without arguments and sets it to true.
func (b *Block) Flag(to *bool) error {
	if err := b.Once(); err != nil {
		return err
	}
	if b.NextArg() {
		return b.ArgErr()
	}
	*to = true
	return nil
}

// OneOf reads the only argument, which must be one of the words.
func (b *Block) OneOf(to *string, words ...string) error {
	return b.Value(func(source string) error {
		*to = source
		if !slices.Contains(words, source) {
			return fmt.Errorf("use %s", strings.Join(words, " or "))
		}
		return nil
	})
}

// unrecognized returns the error for an unknown option at the position of b. Name is the name of
// the block, and known are its options.
func (b *Block) unrecognized(name string, known []string) error {
	if isDirective(b.Val()) {
		return b.Errf("%[1]s is a directive, not an option of %[2]s; close the block of %[2]s with } before it", b.Val(), name)
	}
	if hint := notLinked(name, b.Val(), known); hint != "" {
		return b.Errf("%s", hint)
	}
	for owner, options := range ownOptions {
		if ownOptions[name] != nil && owner != name && slices.Contains(options, b.Val()) {
			return b.Errf("unrecognized %s subdirective '%s', which is an option of %s", name, b.Val(), owner)
		}
	}
	suggestion := text.DidYouMean(meant[name+" "+b.Val()])
	if suggestion == "" {
		suggestion = DidYouMean(b.Val(), known)
	}
	return b.Errf("unrecognized %s subdirective '%s'%s", name, b.Val(), suggestion)
}

// Block reads the subdirectives of one block. It returns an error for a subdirective that is
// given twice. Seen has the names of the subdirectives read so far.
type Block struct {
	*caddyfile.Dispenser
	Seen map[string]bool
}

// NewBlock returns a Block that reads from d.
func NewBlock(d *caddyfile.Dispenser) *Block {
	return &Block{Dispenser: d, Seen: make(map[string]bool)}
}

// Options are the subdirectives of a block by their names. A reader is called at the position of its
// subdirective, each time that it is given.
type Options map[string]func() error

// To returns the reader of a subdirective that stores its value in to, as in To(b.Text, &h.Name).
func To[T any](read func(to T) error, to T) func() error {
	return func() error { return read(to) }
}

// Read reads the block. Name is the name of the block in error messages.
func (b *Block) Read(name string, options Options) error {
	return b.Options(func(b *Block) error { return b.ReadOption(name, options) })
}

// ReadOption reads the subdirective at the position of b.
func (b *Block) ReadOption(name string, options Options) error {
	read := options[b.Val()]
	if read == nil {
		return b.unrecognized(name, slices.Sorted(maps.Keys(options)))
	}
	return read()
}

// Options calls read for each subdirective of the block. b.Val is its name.
func (b *Block) Options(read func(*Block) error) error {
	for nesting := b.Nesting(); b.NextBlock(nesting); {
		if err := read(b); err != nil {
			return err
		}
	}
	return nil
}

// Once returns an error if the current subdirective has been read before.
func (b *Block) Once() error {
	name := b.Val()
	if b.Seen[name] {
		return b.Errf("%s is given twice", name)
	}
	b.Seen[name] = true
	return nil
}

// Single reads a subdirective with a block that may be given once.
func (b *Block) Single(read func(*Block) error) error {
	if b.Once() != nil {
		return b.Errf("%[1]s is given twice: put all options into one %[1]s", b.Val())
	}
	return read(b)
}

// Text reads the only argument of a subdirective that may be given once.
func (b *Block) Text(to *string) error {
	if err := b.Once(); err != nil {
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

// Secret reads a secret. Errors do not contain it.
func (b *Block) Secret(to *string) error {
	if err := b.Text(to); err != nil {
		return err
	}
	if err := CheckVariable(*to); err != nil {
		return b.WrapErr(err)
	}
	return nil
}

// Pair returns the reader of a subdirective that stores a name and a value in to. It may be repeated. Example are arguments for the error.
func (b *Block) Pair(to *map[string]string, example string) func() error {
	return func() error {
		option, arguments := b.Val(), b.RemainingArgs()
		if len(arguments) != 2 {
			return b.Errf("%s takes a name and a value, as in: %[1]s %s", option, example)
		}
		if _, ok := (*to)[arguments[0]]; ok {
			return b.Errf("%s %s is given twice", option, arguments[0])
		}
		if *to == nil {
			*to = make(map[string]string)
		}
		(*to)[arguments[0]] = arguments[1]
		return nil
	}
}

// Path reads the path of an endpoint, which may follow the name of its directive.
func (b *Block) Path(to *string) error {
	arguments := b.RemainingArgs()
	if len(arguments) > 1 || len(arguments) == 1 && !strings.HasPrefix(arguments[0], "/") {
		return b.ArgErr()
	}
	if len(arguments) == 1 {
		*to = arguments[0]
	}
	return nil
}

// Value reads the only argument of a subdirective and parses it.
func (b *Block) Value(parse func(source string) error) error {
	name, source := b.Val(), ""
	if err := b.Text(&source); err != nil {
		return err
	}
	if err := parse(source); err != nil {
		return b.Errf("%s %s: %v", name, source, err)
	}
	return nil
}

// Size reads a number of bytes, such as 512KB or 1MiB.
func (b *Block) Size(to *int64) error {
	return b.Value(parseSize(to))
}

// SizeOrOff reads a number of bytes; "off" is -1.
func (b *Block) SizeOrOff(to *int64) error {
	return b.Value(func(source string) error {
		if source == "off" {
			*to = -1
			return nil
		}
		return parseSize(to)(source)
	})
}

// Count reads a whole number of 0 or more.
func (b *Block) Count(to *int) error { return b.whole(to, 0, "not a whole number") }

// Duration reads a duration such as 30s or 1d; "off" is -1.
func (b *Block) Duration(to *caddy.Duration) error {
	return b.Value(func(source string) error {
		if source == "off" {
			*to = -1
			return nil
		}
		d, err := caddy.ParseDuration(source)
		if err != nil || d <= 0 {
			return errors.New("not a duration; write it as 30s or 5m, or off")
		}
		*to = caddy.Duration(d)
		return nil
	})
}

// List reads one or more arguments of a subdirective that may be repeated. Arguments must
// differ.
func (b *Block) List(to *[]string) error {
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

// parseSize returns a function that parses a number of bytes.
func parseSize(to *int64) func(source string) error {
	return func(source string) error {
		size, err := humanize.ParseBytes(source)
		if err != nil || size == 0 || size > math.MaxInt64 {
			return errors.New("not a size; write it as 512KB or 1MiB")
		}
		*to = int64(size)
		return nil
	}
}
