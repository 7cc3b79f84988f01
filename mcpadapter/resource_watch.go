package mcpadapter

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"net/http"
	"slices"
	"time"

	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/mcpadapter/internal/catalog"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/mcpadapter/internal/session"
	"github.com/fairwayhq/fairway/mcpadapter/library"
	"github.com/fairwayhq/fairway/tools"
)

// maxBaseline is how long a subscription waits at most for the version of the resource.
const maxBaseline = 5 * time.Second

// subscribe serves resources/subscribe. From then on the session's streams notify the client when
// the resource changes (MCP 2025-11-25, Resources, Subscriptions).
func subscribe(q *request, w *response) *protocol.Fault {
	uri, f := uriOf(q)
	if f != nil {
		return f
	}
	if !watchable(q, uri) {
		return noResource(uri, q.version)
	}
	if q.state == nil {
		return protocol.Faultf(http.StatusOK, protocol.InvalidRequest, "a subscription needs a session: open one with initialize and send its Mcp-Session-Id")
	}
	again := slices.Contains(q.state.Watched(), uri)
	if !q.state.Subscribe(uri) {
		return protocol.Faultf(http.StatusOK, protocol.InvalidRequest, "this session watches %d resources, the limit: unsubscribe from one first", session.MaxWatched)
	}
	if !again {
		ctx, cancel := context.WithTimeout(q.ctx, maxBaseline)
		defer cancel()
		if stamp, ok := q.server.newPolling(q.site, q.owner(q.site)).stamp(ctx, uri); ok {
			q.state.Saw(uri, stamp) // so that polls notice a change from now on; else from the first poll on
		}
	}
	w.empty()
	return nil
}

// unsubscribe serves resources/unsubscribe. An unknown subscription is not an error: another server
// may have accepted it.
func unsubscribe(q *request, w *response) *protocol.Fault {
	uri, f := uriOf(q)
	if f != nil {
		return f
	}
	if q.state != nil {
		q.state.Unsubscribe(uri)
	}
	w.empty()
	return nil
}

// watchable reports whether a resource with that URI exists and the caller may read it.
func watchable(q *request, uri string) bool {
	t, ok := q.catalog().Index().Find(uri)
	return ok && !t.Denied
}

// A polling finds out the versions of the resources that a stream watches.
type polling struct {
	server *Server
	site   *Site
	key    library.PollKey // identifies the polls of the stream; the URI is set per poll
}

// newPolling returns the polling for a stream of the owner.
func (s *Server) newPolling(site *Site, owner share.Owner) *polling {
	key := library.PollKey{Client: string(owner), Identity: rand.Text()} // unique, so no other stream shares its polls
	if identity := site.Host.Identity(); identity != "" {
		key.Identity = identity + catalog.AccessKey(site.Access)
	}
	return &polling{s, site, key}
}

// stamp returns the version of a resource, which changes when the resource changes: for a file its
// size and modification time; for an operation the ETag of the response, or else a hash of its body.
// ok is false if the version is unknown.
func (p *polling) stamp(ctx context.Context, uri string) (string, bool) {
	toolset := p.site.Host.Tools() // the current tools; those of the stream may be old
	t, ok := p.server.catalogFor(p.site, toolset).Index().Find(uri)
	switch {
	case !ok || t.Denied:
		return "gone", true
	case t.Tool != nil:
		key := p.key
		key.URI = uri
		return p.server.polls.Version(ctx, key, func() (string, bool) {
			return operationStamp(ctx, p.site.Host.Caller(toolset), t)
		})
	}
	return t.FileStamp(ctx)
}

// operationStamp calls the operation of a resource and returns the version of its response. It
// returns "gone" if the API responds with 404 or 410.
func operationStamp(ctx context.Context, caller tools.Caller, t library.Target) (string, bool) {
	outcome := caller.Call(tools.ContextWithWholeResponse(ctx, tools.ForResource), t.Tool.Name, t.Call())
	defer outcome.Release()
	if outcome.Failure != nil {
		status := outcome.Failure.Status
		return "gone", status == http.StatusNotFound || status == http.StatusGone
	}
	if outcome.Result == nil {
		return "", true
	}
	if tag := outcome.Result.Header.Get("Etag"); tag != "" {
		return tag, true
	}
	sum := sha256.Sum256(outcome.Result.Body)
	return string(sum[:]), true
}
