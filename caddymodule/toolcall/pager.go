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
	"github.com/fairwayhq/fairway/internal/mediatype"
	"github.com/fairwayhq/fairway/mcpadapter/elicit"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// pager gives a client a large response in pages: the first one as the response of the call, the others
// through the built-in tool next_page.
type pager struct {
	keeper        *pages.Keeper
	clientRequest *http.Request
	endpoint      string // path
	nextPageName  string // of next_page at the endpoint
	toolset       string
	logger        *zap.Logger
}

func (c *Caller) pager() *pager {
	return &pager{
		keeper: c.endpoint.App.Pages(), clientRequest: c.clientRequest, endpoint: c.endpoint.Path,
		nextPageName: c.tools.NameOf(tool.NextPage), toolset: c.toolset, logger: c.logger,
	}
}

// cut shortens a response that is larger than limit bytes, and keeps the rest for next_page. Images,
// sound and other binary responses are not changed.
func (p *pager) cut(ctx context.Context, t *tool.Tool, result *tool.Result, limit int) {
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
	if owner, err := p.owner(ctx); err == nil {
		if result.Next, _, err = p.keeper.Keep(ctx, owner, all[1:]); err != nil {
			p.logError("keeping the rest of a large response failed", err)
		}
	} else {
		p.logError("keeping the rest of a large response failed", err)
	}
	p.addNote(result, all[0].Note)
}

// setPage makes a page the body of a result.
func setPage(result *tool.Result, page *answer.Page) {
	replaceBody(result, page.Body, nil)
	if !page.JSON && mediatype.IsJSON(result.MediaType()) {
		result.Header.Set("Content-Type", "text/plain; charset=utf-8")
	}
}

// addNote adds a note about which part of the response the body is, and how to get the next one.
func (p *pager) addNote(result *tool.Result, part string) {
	note := "This is a part of the response: " + part
	if result.Next != "" {
		note += fmt.Sprintf(`; call %s with {"cursor":%q} for the next part`, p.nextPageName, result.Next)
	} else {
		note += "; the rest is not available: if you need it, request less data"
	}
	if result.Note != "" {
		note = result.Note + ". " + note
	}
	result.Note = note
}

// nextPage runs next_page.
func (p *pager) nextPage(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	cursor, _ := call.Arguments()[builtin.Cursor].(string)
	var page answer.Page
	owner, err := p.owner(ctx)
	result := new(tool.Result)
	if err == nil {
		page, result.Next, err = p.keeper.Page(ctx, owner, cursor)
	}
	switch {
	case errors.Is(err, pages.ErrUnknown):
		return nil, &tool.Failure{Kind: tool.InvalidArguments, Message: fmt.Sprintf(
			"the cursor is unknown or has expired: pages are kept for %.0f minutes and only for the caller who got them; call the tool that returned it again", pages.Lifetime.Minutes())}
	case err != nil:
		p.logError("reading a page of a large response failed", err)
		return nil, &tool.Failure{Kind: tool.Internal, Message: "the gateway cannot read the page; the reason is in its log. Call the tool that returned the cursor again"}
	}
	result.Status, result.Header, result.Body = http.StatusOK, make(http.Header, 1), page.Body
	result.Header.Set("Content-Type", "text/plain; charset=utf-8")
	if page.JSON {
		result.Header.Set("Content-Type", "application/json")
	}
	if result.Next != "" {
		p.addNote(result, page.Note)
	} else {
		result.Note = "This is the last part of the response: " + page.Note
	}
	return result, nil
}

// logError logs an error of the store of pages.
func (p *pager) logError(message string, err error) {
	if entry := p.logger.Check(zapcore.ErrorLevel, message); entry != nil {
		entry.Write(zap.String("toolset", p.toolset), zap.String("endpoint", p.endpoint), zap.Error(err))
	}
}

// owner identifies who may read the pages of a response: the authenticated user at this endpoint,
// or else the client's address with the credentials that the client sends to the API.
func (p *pager) owner(ctx context.Context) (pages.Owner, error) {
	if user := AuthenticatedUser(p.clientRequest); user != "" {
		return p.keeper.Owner(ctx, p.clientRequest.Host, p.endpoint, "user", user)
	}
	address, _ := caddyhttp.GetVar(p.clientRequest.Context(), caddyhttp.ClientIPVarKey).(string)
	if address == "" {
		var err error
		if address, _, err = net.SplitHostPort(p.clientRequest.RemoteAddr); err != nil {
			address = p.clientRequest.RemoteAddr
		}
	}
	return p.keeper.Owner(ctx, p.clientRequest.Host, p.endpoint, "address", address, p.clientRequest.Header.Get("Authorization"))
}
