package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/tools/result"
)

// defaultMaxTokens is the default of max_tokens.
const defaultMaxTokens = 20_000

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

// Shape selects from the text of a response and shortens it, as the options select and max_tokens do. The notes say what was
// done. A nil query selects all. isJSON tells whether the text is JSON.
func Shape(ctx context.Context, text []byte, isJSON bool, query *result.Query, limit result.Limit, maxTokens int) (shaped []byte, notes []string) {
	if query != nil {
		selected, err := query.Append(ctx, limit, nil, text)
		if err != nil {
			notes = append(notes, "select: "+err.Error())
		} else {
			notes = append(notes, fmt.Sprintf("select: about %d of %d tokens", len(selected)/result.BytesPerToken, len(text)/result.BytesPerToken))
			text, isJSON = selected, true
		}
	}
	if maxTokens = cmp.Or(maxTokens, defaultMaxTokens); maxTokens < 0 {
		return text, notes
	}
	if pages := result.CutPages(text, isJSON, maxTokens*result.BytesPerToken); len(pages) > 0 {
		text = pages[0].Body
		if pages[0].Note != "" {
			notes = append(notes, fmt.Sprintf("max_tokens: %s; the rest is on %d more pages", pages[0].Note, len(pages)-1))
		}
	}
	return text, notes
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
