package app

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/tools/result"
)

// DefaultMaxTokens is the default of max_tokens.
const DefaultMaxTokens = 20_000

// Limits of max_tokens.
const (
	minMaxTokens = result.MinCut / result.BytesPerToken
	maxMaxTokens = result.MaxCut / result.BytesPerToken
)

// CheckMaxTokens returns an error if a value of max_tokens is out of range. 0 means that it is not set,
// and a negative value that there is no limit.
func CheckMaxTokens(tokens int) error {
	if tokens > 0 && (tokens < minMaxTokens || tokens > maxMaxTokens) {
		return fmt.Errorf("max_tokens %d is out of range: give a number of tokens from %d to %d, or off", tokens, minMaxTokens, maxMaxTokens)
	}
	return nil
}

// ReadMaxTokens reads the value of the option max_tokens; "off" is -1.
func ReadMaxTokens(b *directive.Block, to *int) error {
	return b.Value(func(text string) (err error) {
		if text == "off" {
			*to = -1
			return nil
		}
		if *to, err = strconv.Atoi(text); err != nil || *to <= 0 {
			return errors.New("not a number of tokens: write it as 20000, or off")
		}
		return CheckMaxTokens(*to)
	})
}
