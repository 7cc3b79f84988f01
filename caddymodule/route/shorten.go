package route

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/build"
	"github.com/fairwayhq/fairway/tools/result"
)

// A successful response is shortened in three steps before an adapter gets it: the operator's select and
// the model's argument fields choose parts of it, and max_tokens limits its size (pager.go). Handlers of
// the site, such as oagent with its records, process the whole response.

// unwrap replaces the result of an MCP server with its value, for callers that do not understand such results and for
// steps that choose parts of the value. A caller that understands them gets errors and questions as they are.
func unwrap(ctx context.Context, t *tools.Tool, response *tools.Result, isShaped bool) error {
	native := tools.WantsNativeResult(ctx)
	if native && !isShaped || response.MediaType() != result.NativeType {
		return nil
	}
	if err := t.Unwrap(response); err != nil && !native {
		return err
	}
	return nil
}

// requestedFields returns the fields that a call selects, or nil if it selects the whole response.
func requestedFields(call *tools.Call) (*result.Fields, error) {
	list := call.Fields()
	if list == "" {
		return nil, nil
	}
	fields, err := result.ParseFields(list)
	if err != nil {
		return nil, &tools.Failure{
			Kind: tools.InvalidArguments, Message: fmt.Sprintf("%s: argument %s: %v", call.Tool.Name, tools.FieldsArgument, err),
			Problems: []tools.Problem{{Path: text.Pointer(tools.FieldsArgument), Message: err.Error()}},
		}
	}
	return fields, nil
}

// selectMemory limits the memory of all select expressions of the process.
var selectMemory = result.NewMemory(func(u share.Usage) {
	caddy.Log().Named("agents").Warn("select expressions use most of their memory",
		zap.Int64("used", u.Used), zap.Int64("limit", u.Limit), zap.String("largest_owner", string(u.Largest)))
})

// SelectLimit returns the limit of a select expression that runs for the caller of a request.
func SelectLimit(r *http.Request) result.Limit {
	return result.Limit{Memory: selectMemory, Owner: OwnerOf(r)}
}

// selectParts replaces a JSON response with the result of the operator's expression. Other responses are
// not changed.
func (c *Caller) selectParts(ctx context.Context, t *tools.Tool, query *result.Query, response *tools.Result) error {
	if !httpheader.IsJSON(response.MediaType()) {
		return nil
	}
	selected := buffer.Get()
	var err error
	selected.B, err = query.Append(ctx, SelectLimit(c.client.Request), selected.B, response.Body)
	if err != nil {
		buffer.Put(selected)
		if errors.Is(err, result.ErrNotJSON) {
			return nil
		}
		origin := "the configuration of the gateway"
		if t.Output.SelectDeclared {
			origin = "the document of the API (" + build.ShapeExtension + ")"
		}
		if entry := c.logger.Check(zapcore.ErrorLevel, "select failed"); entry != nil {
			entry.Write(zap.String("tool", t.Name), zap.String("toolset", c.toolset), zap.String("select", query.String()), zap.String("set_by", origin),
				zap.Int("size", len(response.Body)), zap.Error(err))
		}
		return &tools.Failure{Kind: tools.Internal, Status: response.Status, Message: fmt.Sprintf(
			"%s answered %s, but the gateway cannot return the response: the select that %s sets for this tool failed (%s); "+
				"do not repeat a call that changes something, and report this to the operator", t.Operation(), text.StatusLine(response.Status), origin, result.ShortReason(err))}
	}
	replaceBody(response, selected.B, selected)
	return nil
}

// keepFields removes the members that the model did not select from a JSON response.
func keepFields(fields *result.Fields, response *tools.Result) {
	if !httpheader.IsJSON(response.MediaType()) {
		response.Note = "the argument " + tools.FieldsArgument + " had no effect, because the response is not JSON"
		return
	}
	kept := buffer.Get()
	var err error
	kept.B, response.Note, err = fields.Append(kept.B, response.Body)
	if err != nil {
		buffer.Put(kept)
		response.Note = "the argument " + tools.FieldsArgument + " had no effect, because the response is not valid JSON"
		return
	}
	replaceBody(response, kept.B, kept)
}

// replaceBody replaces the body of a result. The new body belongs to memory.
func replaceBody(response *tools.Result, body []byte, memory tools.Releaser) {
	response.Release()
	response.Body, response.Memory = body, memory
	for _, name := range [...]string{"Content-Length", "Etag", "Digest", "Content-Md5", "Content-Digest", "Repr-Digest"} {
		delete(response.Header, name) // they describe the original body
	}
}
