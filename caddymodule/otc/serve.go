package otc

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/otcadapter"
	"github.com/fairwayhq/fairway/tools"
)

// ServeHTTP handles requests for the endpoints and passes all others on.
func (o *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	rest, owned := o.endpoint.Owns(r)
	if !owned {
		return route.PassThrough(w, r, next)
	}
	if release := route.BoundBody(o.endpoint.App, r); release != nil {
		defer release()
	}
	h := &host{handler: o, request: r, next: next}
	o.server.ServeHTTP(w, r, rest, h.site())
	return nil
}

// A host runs the tool call of one client request. It has everything that the call needs, in one
// allocation.
type host struct {
	handler *Handler
	request *http.Request
	next    caddyhttp.Handler

	toolkits []otcadapter.Toolkit
	only     [1]otcadapter.Toolkit // storage for toolkits, of which most endpoints have one
	info     otcadapter.CallInfo
	caller   route.Caller
}

// site describes the surroundings of the request to the adapter: the current toolsets, the next
// handlers, and the user that earlier handlers have authenticated.
func (h *host) site() otcadapter.Site {
	r, endpoint := h.request, h.handler.endpoint
	route.MarkToolEndpoint(r)
	h.toolkits = append(h.only[:0], h.handler.toolkits...)
	for i, part := range endpoint.Parts.All {
		h.toolkits[i].Tools = part.Current(r, h.next)
	}
	site := otcadapter.Site{
		Toolkits: h.toolkits,
		Host:     h,
		User:     route.AuthenticatedUser(r),
		Owner:    route.OwnerOf(r),
		Access:   endpoint.Access(r),
	}
	if h.handler.HealthUpstream != "" {
		site.Upstream = h.handler.upstreamHealth(r, h.next)
	}
	return site
}

// Caller implements otcadapter.Host. The adapter requests one caller for each request.
func (h *host) Caller(toolkit int, info otcadapter.CallInfo) tools.Caller {
	h.info = info
	if repl, ok := h.request.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		repl.Map(h.placeholder)
	}
	endpoint, c := h.handler.endpoint, &h.caller
	endpoint.BeginPartCaller(c, endpoint.Parts.All[toolkit], h.request, h.next, h.toolkits[toolkit].Tools)
	c.Conceal = info.Conceal
	if info.HasID {
		c.CallID = info.CallID
	}
	return c
}

// placeholder returns the {http.otc.*} placeholders. Values that are not valid in a header are empty.
func (h *host) placeholder(key string) (any, bool) {
	name, ok := strings.CutPrefix(key, "http.otc.")
	if !ok {
		return nil, false
	}
	switch name {
	case "call_id":
		return withoutControls(h.info.CallID), true
	case "trace_id":
		return withoutControls(h.info.TraceID), true
	case "user_id_unverified":
		return withoutControls(h.info.UserID), true
	}
	return nil, false
}

// withoutControls returns the text, or "" if it has control characters.
func withoutControls(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return ""
	}
	return text
}

// maxHealthResponse limits how much of the API's health response is read, in bytes.
const maxHealthResponse = 64 << 10

// upstreamHealth returns a function that checks the API's health through the next handlers.
func (o *Handler) upstreamHealth(r *http.Request, next caddyhttp.Handler) otcadapter.UpstreamHealth {
	return func(ctx context.Context) error {
		fetch := route.FetchThrough(next, r, maxHealthResponse)
		status, _, _, err := fetch(ctx, o.HealthUpstream, make(http.Header))
		switch {
		case err != nil:
			return fmt.Errorf("GET %s: %w", o.HealthUpstream, err)
		case status < 200 || status >= 400:
			return fmt.Errorf("GET %s: status %d", o.HealthUpstream, status)
		}
		return nil
	}
}

// healthNeedsNext reports whether the health can only be determined by requests to the next handlers.
func (o *Handler) healthNeedsNext() bool {
	return o.HealthUpstream != "" || slices.ContainsFunc(o.endpoint.Parts.All, func(p *route.Part) bool { return p.Toolset.FromSite })
}

// servePublicHealth serves the health without the handlers around this one.
func (o *Handler) servePublicHealth(w http.ResponseWriter, r *http.Request) {
	h := &host{handler: o, request: r}
	o.server.ServeHTTP(w, r, otcadapter.HealthEndpoint, h.site())
}
