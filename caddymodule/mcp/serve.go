package mcp

import (
	"net/http"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/caddymodule/agentauth"
	"github.com/fairwayhq/fairway/caddymodule/toolcall"
	"github.com/fairwayhq/fairway/internal/problem"
	"github.com/fairwayhq/fairway/mcpadapter"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// ServeHTTP handles requests for the endpoint and passes all others on.
func (m *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if discovery := (discoveryServer{m}); m.Discovery != nil && discovery.owns(r) {
		return discovery.serve(w, r, next)
	}
	rest, owned := m.Endpoint.Owns(r)
	if !owned || !toolcall.IsMCPPath(rest) {
		return toolcall.PassThrough(w, r, next)
	}
	if r.Method == http.MethodGet {
		if client := stdioClient(r); client != nil {
			client.serve(m, r, next)
			return nil
		}
	}
	if r.URL.RawQuery != "" {
		if err := toolcall.CheckListQuery(r); err != nil {
			problem.Write(w, http.StatusBadRequest, "The query of the endpoint is not valid", err.Error())
			return nil
		}
	}
	tools := m.Endpoint.Tools(r, next)
	if tools == nil {
		return m.Endpoint.Parts.WriteUnavailable(w)
	}
	calls := new(toolcall.RequestCalls)
	defer calls.End()
	m.server.ServeHTTP(w, r, m.adapterSite(r, next, rest, tools, calls))
	return nil
}

// adapterSite describes the surroundings of a request to the adapter: the tools, the next handlers,
// and the user that earlier handlers have authenticated. A request may be a long-lived stream,
// so the site looks up the tools each time they are needed. Calls records the tool calls of the
// request.
func (m *Handler) adapterSite(r *http.Request, next caddyhttp.Handler, rest string, tools *tool.Toolset, calls *toolcall.RequestCalls) mcpadapter.Site {
	site := mcpadapter.Site{
		Rest: rest,
		User: toolcall.AuthenticatedUser(r),
	}
	site.Address, _ = caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	site.Access = m.Endpoint.Access(r)
	site.Identity = func() string { return apiIdentity(r) }
	if login, ok := caddyhttp.GetVar(r.Context(), agentauth.VarLogin).(*agentauth.Login); ok {
		site.Login = (*mcpadapter.Login)(login)
	}
	site.Expires, _ = caddyhttp.GetVar(r.Context(), agentauth.VarExpires).(time.Time)
	site.Tools = func() *tool.Toolset {
		if current := m.Endpoint.Current(r, next); current != nil {
			return current
		}
		return tools
	}
	if m.TaskAfter > 0 {
		site.Owner = func() ([]string, bool) { return taskOwner(r, tools) }
		site.Detach = func(tools *tool.Toolset) tool.Caller { return m.detachedCaller(r, next, tools, calls) }
	}
	if r.Method == http.MethodPost {
		site.Caller = func(tools *tool.Toolset) tool.Caller { return m.Endpoint.Caller(r, next, tools, calls) }
		return site
	}
	site.Base = strings.TrimSuffix(originalPath(r), rest)
	calls.Begin(toolcall.AccessLogFields(r), m.Endpoint.Parts.Name(), m.Endpoint.Protocol)
	site.Caller = func(tools *tool.Toolset) tool.Caller { return m.Endpoint.StreamCaller(r, next, tools, calls) }
	return site
}

// originalPath returns the path that the client requested, before earlier handlers changed it.
func originalPath(r *http.Request) string {
	if original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok && original.URL != nil {
		return original.URL.Path
	}
	return r.URL.Path
}
