package otc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/otcadapter"
	"github.com/fairwayhq/fairway/tools"
)

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
	h.toolkits = h.only[:0]
	for _, part := range endpoint.Parts.All {
		toolkit := otcadapter.Toolkit{Tools: part.Current(r, h.next), InjectsCredentials: h.handler.NoRequirements || len(part.Toolset.Credentials) > 0}
		if part.IsAgents() {
			toolkit.Name = agentToolkit
		}
		h.toolkits = append(h.toolkits, toolkit)
	}
	site := otcadapter.Site{
		Toolkits: h.toolkits,
		Host:     h,
		User:     route.AuthenticatedUser(r),
		Owner:    route.OwnerOf(r),
		Access:   route.AccessOf(r),
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
	if c.Conceal = info.Conceal; info.HasID {
		c.CallID = info.CallID
	}
	return c
}

// agentToolkit is the first part of the ids of agents as tools.
const agentToolkit = "Agents"

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

// checkHealthUpstream returns an error if health_upstream is not a valid path.
func (o *Handler) checkHealthUpstream() error {
	switch path := o.HealthUpstream; {
	case path == "":
		return nil
	case !strings.HasPrefix(path, "/"):
		return fmt.Errorf("health_upstream %q must begin with a slash; it is a path of the API", path)
	case path == o.endpoint.Path || strings.HasPrefix(path, o.endpoint.Path+"/"):
		return errors.New("health_upstream is below the endpoint itself; give a path of the API")
	}
	return nil
}

// checkAuthorizationURLs returns an error for a URL whose security scheme is in none of the
// documents. It only checks if all documents are files, which have been read at this point. For
// others the server reports the error when they are loaded.
func (o *Handler) checkAuthorizationURLs() error {
	sets := make([]*tools.Toolset, 0, len(o.endpoint.Parts.All))
	for _, part := range o.endpoint.Parts.All {
		set := part.Toolset.Loader.Toolset()
		if part.IsAgents() {
			continue
		}
		if part.Toolset.Key.Kind != app.SourceFile || set == nil {
			return nil
		}
		sets = append(sets, set)
	}
	return otcadapter.CheckAuthorizationURLs(o.AuthorizationURLs, sets...)
}
