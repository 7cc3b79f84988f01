package mcp

import (
	"net/http"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/caddymodule/internal/metrics"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/internal/identity"
	"github.com/fairwayhq/fairway/internal/respond"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/mcpadapter"
	"github.com/fairwayhq/fairway/tools"
)

// ServeHTTP handles requests for the endpoint and passes all others on.
func (m *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if m.Beside != nil {
		if served, err := m.Beside(w, r, next); served {
			return err
		}
	}
	rest, owned := m.Endpoint.Owns(r)
	if !owned || !route.IsMCPPath(rest) {
		return route.PassThrough(w, r, next)
	}
	if r.Method == http.MethodGet {
		if client := stdioClient(r); client != nil {
			client.serve(m, r, next)
			return nil
		}
	}
	if r.URL.RawQuery != "" {
		if err := route.CheckListQuery(r); err != nil {
			respond.WriteProblem(w, http.StatusBadRequest, "The query of the endpoint is not valid", err.Error())
			return nil
		}
	}
	toolset := m.Endpoint.Tools(r, next)
	if toolset == nil {
		return m.Endpoint.Parts.WriteUnavailable(w)
	}
	if release := route.BoundBody(m.Endpoint.App, r); release != nil {
		defer release()
	}
	h := &host{handler: m, request: r, next: next, tools: toolset, streams: r.Method != http.MethodPost}
	defer h.calls.End()
	m.server.ServeHTTP(w, r, h.site(rest))
	return nil
}

// A host runs the tool calls of one client request. It has everything that a plain call needs, in one
// allocation.
type host struct {
	handler *Handler
	request *http.Request
	next    caddyhttp.Handler
	tools   *tools.Toolset // when the request arrived
	streams bool           // the request opens a stream of messages
	calls   route.RequestCalls

	first   route.Caller // what Caller returns first
	started bool         // it has been returned
}

// site describes the surroundings of the request to the adapter: the user and the access token that
// earlier handlers have authenticated. Rest is the path below the endpoint.
func (h *host) site(rest string) mcpadapter.Site {
	r, endpoint := h.request, h.handler.Endpoint
	vars, _ := r.Context().Value(caddyhttp.VarsCtxKey).(map[string]any)
	site := mcpadapter.Site{
		Host: h,
		Rest: rest,
		User: route.AuthenticatedUser(r), Request: r,
		Access: endpoint.Access(r),
	}
	site.Address, _ = vars[caddyhttp.ClientIPVarKey].(string)
	site.Expires, _ = vars[identity.VarExpires].(time.Time)
	if login, ok := vars[identity.VarLogin].(*identity.Login); ok {
		site.Login = (*mcpadapter.Login)(login)
	}
	if h.streams {
		site.Base = strings.TrimSuffix(OriginalPath(r), rest)
		h.calls.Begin(route.AccessLogFields(r), endpoint.Parts.Name(), endpoint.Protocol)
	}
	if h.handler.TaskAfter > 0 {
		site.Owner = func() ([]string, bool) { return taskOwner(r, h.tools) }
		site.Detach = func(toolset *tools.Toolset) tools.Caller {
			return h.handler.detachedCaller(r, h.next, toolset, &h.calls)
		}
	}
	return site
}

// Tools implements mcpadapter.Host. A request may be a long-lived stream, so Tools looks up the tools each
// time they are needed.
func (h *host) Tools() *tools.Toolset {
	if current := h.handler.Endpoint.Current(h.request, h.next); current != nil {
		return current
	}
	return h.tools
}

// Caller implements mcpadapter.Host.
func (h *host) Caller(toolset *tools.Toolset) tools.Caller {
	endpoint := h.handler.Endpoint
	if h.streams {
		return endpoint.StreamCaller(h.request, h.next, toolset, &h.calls)
	}
	c := &h.first
	if h.started {
		c = new(route.Caller) // for a message that arrives on a stream
	} else {
		h.started = true
	}
	endpoint.BeginCaller(c, h.request, h.next, toolset, &h.calls)
	return c
}

// Identity implements mcpadapter.Host.
func (h *host) Identity() string { return apiIdentity(h.request) }

// callMessage returns the body of a request that calls a tool. See route.Endpoint.
func callMessage(_ *tools.Toolset, tool string, arguments []byte) (path string, body []byte) {
	body = append([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":`), strictjson.AppendString(nil, tool)...)
	body = append(append(body, `,"arguments":`...), arguments...)
	return "", append(body, "}}"...)
}

// OriginalPath returns the path that the client requested, before earlier handlers changed it.
func OriginalPath(r *http.Request) string {
	if original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok && original.URL != nil {
		return original.URL.Path
	}
	return r.URL.Path
}

// observe records a request of a client in the metrics.
func observe(o mcpadapter.Operation) {
	metrics.All.ObserveOperation(o.Method, o.Tool, o.Error, o.Revision, o.Duration)
}
