package calllog

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/store"
)

// Config says which tool calls are kept, and for how long. Kept calls have who called which tool, the outcome and
// its reason. They are in the store, so all nodes see them.
type Config struct {
	// True if calls are not kept. Then the console shows none. Default: false.
	Off bool `json:"off,omitempty"`

	// How long calls are kept, at most 8784h (366 days). Default: 7d.
	Keep caddy.Duration `json:"keep,omitempty"`

	// The maximum size of all kept calls in the store, in bytes. The oldest calls are deleted first, but those of a user
	// who has more than half of the size before those of others. Default: 256 MiB.
	MaxSize int64 `json:"max_size,omitempty"`

	// The arguments whose values are kept, at most 4 KiB of a call. `*` keeps all. Default: none.
	Arguments []string `json:"arguments,omitempty"`

	// True if the first 4 KiB of each response are kept. Default: false.
	Results bool `json:"results,omitempty"`
}

// Validate returns an error for invalid options. c may be nil.
func (c *Config) Validate() error {
	if c == nil {
		return nil
	}
	if keep := time.Duration(c.Keep); keep < 0 || keep > store.MaxTTL {
		return fmt.Errorf("keep %s: must be at most %d days", keep, store.MaxTTL/(24*time.Hour))
	}
	if err := directive.NotNegative("max_size", c.MaxSize); err != nil {
		return err
	}
	if slices.Contains(c.Arguments, "") {
		return errors.New("arguments: a name is empty")
	}
	return nil
}

// Unmarshal reads the subdirective calls of the global option agents. Syntax:
//
//	calls [off] {
//		keep      <duration>
//		max_size  <size>
//		arguments <names...> | *
//		results
//	}
func (c *Config) Unmarshal(b *directive.Block) error {
	if err := b.Once(); err != nil {
		return err
	}
	switch arguments := b.RemainingArgs(); {
	case len(arguments) == 1 && arguments[0] == "off":
		c.Off = true
		return nil
	case len(arguments) > 0:
		return b.Errf("calls takes off or a block, not %s", arguments[0])
	}
	inner := directive.NewBlock(b.Dispenser)
	return inner.Read("calls", directive.Options{
		"keep":      directive.To(inner.Period, &c.Keep),
		"max_size":  directive.To(inner.Size, &c.MaxSize),
		"arguments": directive.To(inner.List, &c.Arguments),
		"results":   directive.To(inner.Flag, &c.Results),
	})
}
