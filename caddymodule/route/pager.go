package route

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"unicode/utf8"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/result"
)

// pager gives a client a large response in pages: the first one as the response of the call, the others
// through the built-in tool next_page.
type pager struct {
	keeper        *result.PageKeeper
	clientRequest *http.Request
	endpoint      string // path
	nextPageName  string // of next_page at the endpoint
	toolset       string
	logger        *zap.Logger
}

func (c *Caller) pager() *pager {
	return &pager{
		keeper: c.endpoint.App.Pages, clientRequest: c.client.Request, endpoint: c.endpoint.Path,
		nextPageName: c.tools.NameOf(tools.NextPage), toolset: c.toolset, logger: c.logger,
	}
}

// cut shortens a response that is larger than limit bytes, and keeps the rest for next_page. Images,
// sound and other binary responses are not changed.
func (p *pager) cut(ctx context.Context, t *tools.Tool, response *tools.Result, limit int) {
	media := response.MediaType()
	isJSON := httpheader.IsJSON(media)
	if tools.WantsWholeResponse(ctx) || slices.Contains(t.Output.MediaTypes, result.NativeType) {
		return // a result of MCP consists of blocks, which must not be cut
	}
	if !isJSON && !httpheader.IsText(media) && (media != "" || !utf8.Valid(response.Body)) {
		return
	}
	all := result.CutPages(response.Body, isJSON, limit)
	if len(all) == 0 {
		return
	}
	setPage(response, &all[0])
	if len(all) == 1 {
		return
	}
	if owner, err := p.owner(ctx); err == nil {
		if response.Next, _, err = p.keeper.Keep(ctx, owner, OwnerOf(p.clientRequest), all[1:]); err != nil {
			p.logError("keeping the rest of a large response failed", err)
		}
	} else {
		p.logError("keeping the rest of a large response failed", err)
	}
	p.addNote(response, all[0].Note)
}

// setPage makes a page the body of a result.
func setPage(response *tools.Result, page *result.Page) {
	replaceBody(response, page.Body, nil)
	if !page.JSON && httpheader.IsJSON(response.MediaType()) {
		response.Header.Set("Content-Type", "text/plain; charset=utf-8")
	}
}

// addNote adds a note about which part of the response the body is, and how to get the next one.
func (p *pager) addNote(response *tools.Result, part string) {
	note := "This is a part of the response: " + part
	if response.Next != "" {
		note += fmt.Sprintf(`; call %s with {"cursor":%q} for the next part`, p.nextPageName, response.Next)
	} else {
		note += "; the rest is not available: if you need it, request less data"
	}
	if response.Note != "" {
		note = response.Note + ". " + note
	}
	response.Note = note
}

// nextPage runs next_page.
func (p *pager) nextPage(ctx context.Context, call *tools.Call) (*tools.Result, error) {
	cursor, _ := call.Arguments()[builtinCursor].(string)
	var page result.Page
	owner, err := p.owner(ctx)
	response := new(tools.Result)
	if err == nil {
		page, response.Next, err = p.keeper.Page(ctx, owner, cursor)
	}
	switch {
	case errors.Is(err, result.ErrUnknownPage):
		return nil, &tools.Failure{Kind: tools.InvalidArguments, Message: fmt.Sprintf(
			"the cursor is unknown or has expired: pages are kept for %.0f minutes and only for the caller who got them; call the tool that returned it again", result.PageLifetime.Minutes())}
	case err != nil:
		p.logError("reading a page of a large response failed", err)
		return nil, &tools.Failure{Kind: tools.Internal, Message: "the gateway cannot read the page; the reason is in its log. Call the tool that returned the cursor again"}
	}
	response.Status, response.Header, response.Body = http.StatusOK, make(http.Header, 1), page.Body
	response.Header.Set("Content-Type", "text/plain; charset=utf-8")
	if page.JSON {
		response.Header.Set("Content-Type", "application/json")
	}
	if response.Next != "" {
		p.addNote(response, page.Note)
	} else {
		response.Note = "This is the last part of the response: " + page.Note
	}
	return response, nil
}

// logError logs an error of the store of pages.
func (p *pager) logError(message string, err error) {
	if entry := p.logger.Check(zapcore.ErrorLevel, message); entry != nil {
		entry.Write(zap.String("toolset", p.toolset), zap.String("endpoint", p.endpoint), zap.Error(err))
	}
}

// owner identifies who may read the pages of a response: the authenticated user at this endpoint,
// or else the client's address with the credentials that the client sends to the API.
func (p *pager) owner(ctx context.Context) (result.PageOwner, error) {
	if user := AuthenticatedUser(p.clientRequest); user != "" {
		return p.keeper.Owner(ctx, httpheader.HostName(p.clientRequest.Host), p.endpoint, "user", user)
	}
	return p.keeper.Owner(ctx, httpheader.HostName(p.clientRequest.Host), p.endpoint, "address", ClientAddress(p.clientRequest), p.clientRequest.Header.Get("Authorization"))
}
