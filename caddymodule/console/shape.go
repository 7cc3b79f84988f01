package console

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/tools/result"
)

// shape has the options select and max_tokens of a tool block that a viewer tries on an answer.
type shape struct {
	Select    string `json:"select,omitzero"`
	MaxTokens int    `json:"max_tokens,omitzero"` // -1 for no limit, 0 if it is not set

	query *result.Query
}

// shapedModel is an answer in a shape.
type shapedModel struct {
	Tokens int      `json:"tokens"`
	Text   string   `json:"text"`
	Notes  []string `json:"notes,omitzero"` // what was done
}

// read reads the fields of a form.
func (s *shape) read(form url.Values) (err error) {
	s.Select = strings.TrimSpace(form.Get("select"))
	switch limit := strings.TrimSpace(form.Get("max_tokens")); limit {
	case "":
	case "off":
		s.MaxTokens = -1
	default:
		if s.MaxTokens, err = strconv.Atoi(limit); err != nil || s.MaxTokens <= 0 {
			return fmt.Errorf("max_tokens %.20q is not a number of tokens, and not off", limit)
		}
	}
	return nil
}

// check compiles the expression and checks the limit.
func (s *shape) check() (err error) {
	if s.Select != "" {
		if s.query, err = result.CompileQuery(s.Select); err != nil {
			return fmt.Errorf("select: %w", err)
		}
	}
	return app.CheckMaxTokens(s.MaxTokens)
}

// isEmpty reports whether the viewer tries no shape.
func (s *shape) isEmpty() bool { return s.Select == "" && s.MaxTokens == 0 }

// apply returns the body of an answer in the shape.
func (s *shape) apply(r *http.Request, body []byte, isJSON bool) *shapedModel {
	text, notes := app.Shape(r.Context(), body, isJSON, s.query, route.SelectLimit(r), s.MaxTokens)
	return &shapedModel{len(text) / result.BytesPerToken, shownText(string(text)), notes}
}

// Limit returns MaxTokens as the Caddyfile has it, "" if it is not set.
func (s *shape) Limit() string {
	switch {
	case s.MaxTokens == 0:
		return ""
	case s.MaxTokens < 0:
		return "off"
	}
	return strconv.Itoa(s.MaxTokens)
}

// options returns the lines of a tool block.
func (s *shape) options() (lines string) {
	if token, ok := caddyToken(s.Select); ok && s.Select != "" {
		lines = "\tselect " + token + "\n"
	}
	if limit := s.Limit(); limit != "" {
		lines += "\tmax_tokens " + limit + "\n"
	}
	return lines
}
