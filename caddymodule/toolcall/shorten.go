package toolcall

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/fairwayhq/fairway/internal/answer"
	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/mediatype"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// A successful response is shortened in three steps before an adapter gets it: the operator's select and
// the model's argument fields choose parts of it, and max_tokens limits its size (pager.go). Handlers of
// the site, such as oagent with its records, process the whole response.

// requestedFields returns the fields that a call selects, or nil if it selects the whole response.
func requestedFields(call *tool.Call) (*answer.Fields, error) {
	list := call.Fields()
	if list == "" {
		return nil, nil
	}
	fields, err := answer.ParseFields(list)
	if err != nil {
		return nil, &tool.Failure{
			Kind: tool.InvalidArguments, Message: fmt.Sprintf("%s: argument %s: %v", call.Tool.Name, tool.FieldsArgument, err),
			Problems: []tool.Problem{{Path: text.Pointer(tool.FieldsArgument), Message: err.Error()}},
		}
	}
	return fields, nil
}

// selectParts replaces a JSON response with the result of the operator's expression. Other responses are
// not changed.
func (c *Caller) selectParts(ctx context.Context, t *tool.Tool, query *answer.Query, result *tool.Result) error {
	if !mediatype.IsJSON(result.MediaType()) {
		return nil
	}
	selected := buffer.Get()
	var err error
	selected.B, err = query.Append(ctx, selected.B, result.Body)
	if err != nil {
		buffer.Put(selected)
		if errors.Is(err, answer.ErrNotJSON) {
			return nil
		}
		if entry := c.logger.Check(zapcore.ErrorLevel, "select failed"); entry != nil {
			entry.Write(zap.String("tool", t.Name), zap.String("toolset", c.toolset), zap.String("select", query.String()),
				zap.Int("size", len(result.Body)), zap.Error(err))
		}
		return &tool.Failure{Kind: tool.Internal, Status: result.Status, Message: fmt.Sprintf(
			"%s answered %s, but the gateway cannot return the response: the select that its operator has set for this tool failed (%s); "+
				"do not repeat a call that changes something, and report this to the operator", t.Operation(), text.StatusLine(result.Status), answer.ShortReason(err))}
	}
	replaceBody(result, selected.B, selected)
	return nil
}

// keepFields removes the members that the model did not select from a JSON response.
func keepFields(fields *answer.Fields, result *tool.Result) {
	if !mediatype.IsJSON(result.MediaType()) {
		result.Note = "the argument " + tool.FieldsArgument + " had no effect, because the response is not JSON"
		return
	}
	kept := buffer.Get()
	var err error
	kept.B, result.Note, err = fields.Append(kept.B, result.Body)
	if err != nil {
		buffer.Put(kept)
		result.Note = "the argument " + tool.FieldsArgument + " had no effect, because the response is not valid JSON"
		return
	}
	replaceBody(result, kept.B, kept)
}

// replaceBody replaces the body of a result. The new body belongs to memory.
func replaceBody(result *tool.Result, body []byte, memory tool.Releaser) {
	result.Release()
	result.Body, result.Memory = body, memory
	for _, name := range [...]string{"Content-Length", "Etag", "Digest", "Content-Md5", "Content-Digest", "Repr-Digest"} {
		delete(result.Header, name) // they describe the original body
	}
}
