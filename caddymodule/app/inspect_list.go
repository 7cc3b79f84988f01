package app

import (
	"context"
	"encoding/json"
	"errors"

	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/inspect"
)

// listedTexts are the texts of a tool in a list, as inspectors get them.
type listedTexts struct {
	Title       string          `json:"title"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"input_schema,omitempty"`
	Extension   json.RawMessage `json:"x-mcp,omitempty"`      // describes the resource or the prompt
	Definition  json.RawMessage `json:"definition,omitempty"` // of an MCP server
}

// inspected returns the tools whose texts the inspectors pass. A title and a description may be masked. A tool with something
// to mask elsewhere, or that an inspector rejects, is withheld.
func (t *Toolset) inspected(declared *tools.Toolset, logger *zap.Logger) *tools.Toolset {
	if !t.Inspect.Has(inspect.List) {
		return declared
	}
	return declared.WithTexts(func(tool *tools.Tool) (title, description string, ok bool) {
		texts := listedTexts{Title: tool.Definition.Title, Description: tool.Definition.Description, InputSchema: json.RawMessage(tool.Definition.InputSchema), Extension: json.RawMessage(tool.MCP)}
		if tool.Foreign != nil {
			texts = listedTexts{Definition: json.RawMessage(tool.Foreign.Definition)}
		}
		title, description = tool.Definition.Title, tool.Definition.Description
		body, err := json.Marshal(texts)
		if err != nil {
			return "", "", false
		}
		passed, labels, err := t.Inspect.Inspect(context.Background(), inspect.Message{Phase: inspect.List, Body: body, JSON: true, Tool: tool.Name, Toolset: t.Name})
		if rejection, ok := errors.AsType[*inspect.RejectedError](err); ok {
			labels = rejection.Labels
		}
		if err == nil && len(labels) == 0 {
			return title, description, true
		}
		var masked listedTexts
		ok = err == nil && tool.Foreign == nil && json.Unmarshal(passed, &masked) == nil && isUnchanged(masked.InputSchema, tool.Definition.InputSchema) && isUnchanged(masked.Extension, tool.MCP)
		logger.Warn("an inspector found something in the texts of a tool", zap.String("toolset", t.Name), zap.String("tool", tool.Name),
			zap.Strings("found", labels), zap.Bool("withheld", !ok), zap.Error(err))
		return masked.Title, masked.Description, ok
	})
}

// isUnchanged reports whether a value that passed inspectors is the original one, as json.Marshal writes it in another value.
func isUnchanged(passed, original []byte) bool {
	if len(original) == 0 {
		return len(passed) == 0
	}
	text, err := json.Marshal(json.RawMessage(original))
	return err == nil && string(passed) == string(text)
}
