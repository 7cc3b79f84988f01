package toolcall

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"unicode/utf8"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/fairwayhq/fairway/caddymodule/toolcall/builtin"
	"github.com/fairwayhq/fairway/internal/answer"
	"github.com/fairwayhq/fairway/internal/answer/pages"
	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/mediatype"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/mcpadapter/elicit"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// A successful response is made smaller before an adapter gets it, in three steps: the operator's select
// chooses what the model needs, the argument fields what the model wants, and max_tokens limits the
// rest. Handlers of the site, such as oagent and its records, have seen the whole response.

// requestedFields returns the fields that a call asks for, nil if it wants the whole response.
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

// selectParts replaces a JSON response with what the operator's expression makes of it. Other responses
// stay as they are.
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
			"%s answered %s, but the gateway cannot give you the answer: the select that its operator has set for this tool failed (%s); "+
				"do not repeat a call that changes something, and report this to the operator", t.Operation(), text.StatusLine(result.Status), answer.ShortReason(err))}
	}
	replaceBody(result, selected.B, selected)
	return nil
}

// keepFields removes what the model did not ask for from a JSON response.
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

// replaceBody replaces the body of a result. Memory is what the new body belongs to.
func replaceBody(result *tool.Result, body []byte, memory tool.Releaser) {
	result.Release()
	result.Body, result.Memory = body, memory
	for _, name := range [...]string{"Content-Length", "Etag", "Digest", "Content-Md5", "Content-Digest", "Repr-Digest"} {
		delete(result.Header, name) // these describe the body of the API
	}
}

// cut shortens a response that is larger than limit bytes, and keeps the rest for next_page. Images,
// sound and other binary responses stay as they are.
func (c *Caller) cut(ctx context.Context, t *tool.Tool, result *tool.Result, limit int) {
	media := result.MediaType()
	isJSON := mediatype.IsJSON(media)
	if tool.WantsWholeResponse(ctx) || elicit.NeedsOf(t).Native {
		return // a result of MCP consists of blocks, which must not be cut
	}
	if !isJSON && !mediatype.IsText(media) && (media != "" || !utf8.Valid(result.Body)) {
		return
	}
	all := answer.Cut(result.Body, isJSON, limit)
	if len(all) == 0 {
		return
	}
	setPage(result, &all[0])
	if len(all) == 1 {
		return
	}
	if owner, err := c.pageOwner(ctx); err == nil {
		if result.Next, _, err = c.endpoint.App.Pages().Keep(ctx, owner, all[1:]); err != nil {
			c.logPageError("keeping the rest of a large response failed", err)
		}
	} else {
		c.logPageError("keeping the rest of a large response failed", err)
	}
	c.addNote(result, all[0].Note)
}

// setPage makes a page the body of a result.
func setPage(result *tool.Result, page *answer.Page) {
	replaceBody(result, page.Body, nil)
	if !page.JSON && mediatype.IsJSON(result.MediaType()) {
		result.Header.Set("Content-Type", "text/plain; charset=utf-8")
	}
}

// addNote notes which part of the response the body is, and how to get the next one.
func (c *Caller) addNote(result *tool.Result, part string) {
	note := "This is a part of the response: " + part
	if result.Next != "" {
		note += fmt.Sprintf(`; call %s with {"cursor":%q} for the next part`, c.tools.NameOf(tool.NextPage), result.Next)
	} else {
		note += "; the rest is not available, so ask for less if you need it"
	}
	if result.Note != "" {
		note = result.Note + ". " + note
	}
	result.Note = note
}

// nextPage runs next_page.
func (c *Caller) nextPage(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	cursor, _ := call.Arguments()[builtin.Cursor].(string)
	var page answer.Page
	owner, err := c.pageOwner(ctx)
	result := new(tool.Result)
	if err == nil {
		page, result.Next, err = c.endpoint.App.Pages().Page(ctx, owner, cursor)
	}
	switch {
	case errors.Is(err, pages.ErrUnknown):
		return nil, &tool.Failure{Kind: tool.InvalidArguments, Message: fmt.Sprintf(
			"the cursor is unknown or has expired: pages are kept for %.0f minutes and only for the caller who got them; call the tool again that returned it", pages.Lifetime.Minutes())}
	case err != nil:
		c.logPageError("reading a page of a large response failed", err)
		return nil, &tool.Failure{Kind: tool.Internal, Message: "the gateway cannot read the page; the reason is in its log. Call the tool again that returned the cursor"}
	}
	result.Status, result.Header, result.Body = http.StatusOK, make(http.Header, 1), page.Body
	result.Header.Set("Content-Type", "text/plain; charset=utf-8")
	if page.JSON {
		result.Header.Set("Content-Type", "application/json")
	}
	if result.Next != "" {
		c.addNote(result, page.Note)
	} else {
		result.Note = "This is the last part of the response: " + page.Note
	}
	return result, nil
}

// logPageError logs an error of the store of pages.
func (c *Caller) logPageError(message string, err error) {
	if entry := c.logger.Check(zapcore.ErrorLevel, message); entry != nil {
		entry.Write(zap.String("toolset", c.toolset), zap.String("endpoint", c.endpoint.Path), zap.Error(err))
	}
}

// pageOwner identifies who may read the pages of a response: the authenticated user at this endpoint,
// or else the client's address with the credentials that the client sends to the API.
func (c *Caller) pageOwner(ctx context.Context) (pages.Owner, error) {
	r, keeper := c.clientRequest, c.endpoint.App.Pages()
	if user := AuthenticatedUser(r); user != "" {
		return keeper.Owner(ctx, r.Host, c.endpoint.Path, "user", user)
	}
	address, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	if address == "" {
		var err error
		if address, _, err = net.SplitHostPort(r.RemoteAddr); err != nil {
			address = r.RemoteAddr
		}
	}
	return keeper.Owner(ctx, r.Host, c.endpoint.Path, "address", address, r.Header.Get("Authorization"))
}
