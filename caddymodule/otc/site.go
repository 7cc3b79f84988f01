package otc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/caddymodule/agents"
	"github.com/fairwayhq/fairway/caddymodule/toolcall"
	"github.com/fairwayhq/fairway/ocp/tool"
	"github.com/fairwayhq/fairway/otcadapter"
)

// adapterSite describes the surroundings of a request to the adapter: the current toolsets, the next
// handlers, and the user that earlier handlers have authenticated.
func (o *Handler) adapterSite(r *http.Request, next caddyhttp.Handler) otcadapter.Site {
	toolcall.MarkToolEndpoint(r)
	toolkits := make([]otcadapter.Toolkit, len(o.endpoint.Parts.All))
	for i, part := range o.endpoint.Parts.All {
		toolkits[i] = otcadapter.Toolkit{Tools: part.Current(r, next), InjectsCredentials: o.NoRequirements || len(part.Toolset.Credentials) > 0}
		if part.IsAgents() {
			toolkits[i].Name = agentToolkit
		}
	}
	site := otcadapter.Site{
		Toolkits: toolkits,
		Caller: func(i int, info otcadapter.CallInfo) tool.Caller {
			setPlaceholders(r, info)
			c := o.endpoint.PartCaller(o.endpoint.Parts.All[i], r, next, toolkits[i].Tools)
			if c.Conceal = info.Conceal; info.HasID {
				c.CallID = info.CallID
			}
			return c
		},
		User:   toolcall.AuthenticatedUser(r),
		Access: toolcall.AccessOf(r),
	}
	if o.HealthUpstream != "" {
		site.Upstream = o.upstreamHealth(r, next)
	}
	return site
}

// agentToolkit is the first part of the ids of agents as tools.
const agentToolkit = "Agents"

// setPlaceholders sets the {http.otc.*} placeholders. Values that are not valid in a header are
// omitted.
func setPlaceholders(r *http.Request, info otcadapter.CallInfo) {
	repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return
	}
	repl.Map(func(key string) (any, bool) {
		name, ok := strings.CutPrefix(key, "http.otc.")
		if !ok {
			return nil, false
		}
		switch name {
		case "call_id":
			return withoutControls(info.CallID), true
		case "trace_id":
			return withoutControls(info.TraceID), true
		case "user_id_unverified":
			return withoutControls(info.UserID), true
		}
		return nil, false
	})
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
		fetch := toolcall.FetchThrough(next, r, maxHealthResponse)
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
	sets := make([]*tool.Toolset, 0, len(o.endpoint.Parts.All))
	for _, part := range o.endpoint.Parts.All {
		set := part.Toolset.Loader.Toolset()
		if part.IsAgents() {
			continue
		}
		if part.Toolset.Key.Kind != agents.SourceFile || set == nil {
			return nil
		}
		sets = append(sets, set)
	}
	return otcadapter.CheckAuthorizationURLs(o.AuthorizationURLs, sets...)
}
