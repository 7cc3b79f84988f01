package mcpadapter

import (
	"context"
	"crypto/sha256"
	"net/http"

	"github.com/fairwayhq/fairway/mcpadapter/internal/jsonrpc"
	"github.com/fairwayhq/fairway/mcpadapter/internal/subscription"
	"github.com/fairwayhq/fairway/mcpadapter/library"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// subscribe serves resources/subscribe. From then on the session's streams notify the client when
// the resource changes (MCP 2025-11-25, Resources, Subscriptions).
func (q watchRequest) subscribe() *jsonrpc.Fault {
	uri, f := resourceRequest{q.message}.uri()
	if f != nil {
		return f
	}
	if !q.watchable(uri) {
		return resourceRequest{q.message}.noResource(uri)
	}
	if q.state == nil {
		return jsonrpc.Faultf(http.StatusOK, jsonrpc.InvalidRequest, "a subscription needs a session: open one with initialize and send its Mcp-Session-Id")
	}
	if !q.state.Subscribe(uri) {
		return jsonrpc.Faultf(http.StatusOK, jsonrpc.InvalidRequest, "this session watches %d resources, the limit: unsubscribe from one first", subscription.MaxWatched)
	}
	q.out.B = append(q.beginResult(), "}}"...)
	return nil
}

// unsubscribe serves resources/unsubscribe. An unknown subscription is not an error: another server
// may have accepted it.
func (q watchRequest) unsubscribe() *jsonrpc.Fault {
	uri, f := resourceRequest{q.message}.uri()
	if f != nil {
		return f
	}
	if q.state != nil {
		q.state.Unsubscribe(uri)
	}
	q.out.B = append(q.beginResult(), "}}"...)
	return nil
}

// watchable reports whether a resource with that URI exists and the caller may read it.
func (q watchRequest) watchable(uri string) bool {
	t, ok := q.catalog().Index().Find(uri)
	return ok && !t.Denied
}

// stamp returns the version of a resource, which changes when the resource changes: for a file its
// size and modification time; for an operation the ETag of the response, or else a hash of its body.
// ok is false if the version is unknown.
func (q watchRequest) stamp(ctx context.Context, uri string) (string, bool) {
	now := *q.message // use the current tools; those of the stream may be old
	now.ctx, now.params = ctx, params{}
	now.tools = q.site.Host.Tools()
	t, ok := now.catalog().Index().Find(uri)
	switch {
	case !ok || t.Denied:
		return "gone", true
	case t.Tool != nil:
		if now.caller == nil || now.tools != q.tools {
			now.caller = q.site.Host.Caller(now.tools)
		}
		key := q.polling
		key.URI = uri
		return q.server.polls.Version(ctx, key, func() (string, bool) { return watchRequest{message: &now}.operationStamp(t) })
	}
	return t.FileStamp()
}

// operationStamp calls the operation of a resource and returns the version of its response. It
// returns "gone" if the API responds with 404 or 410.
func (q watchRequest) operationStamp(t library.Target) (string, bool) {
	outcome := q.caller.Call(tool.ContextWithWholeResponse(q.ctx), t.Tool.Name, t.Call())
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
