package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/ocp"
	"github.com/fairwayhq/fairway/ocp/openapi"
)

// currentTools returns the toolset's current tools as they are called, without the
// arguments that its credentials fill; nil if the document is not loaded. See
// declaredTools.
func currentTools(t *toolset, r *http.Request, next caddyhttp.Handler) *ocp.Toolset {
	return t.filled(declaredTools(t, r, next))
}

// declaredTools returns the toolset's current tools with all arguments that the
// document declares; nil if it is not loaded. A document of the site is fetched
// through next, the handlers behind the one that r has reached.
func declaredTools(t *toolset, r *http.Request, next caddyhttp.Handler) *ocp.Toolset {
	if !t.bySite {
		return t.loader.Toolset()
	}
	tools, err := t.loader.Ensure(r.Context(), fetchThrough(next, r, t.key.MaxDocument))
	if err != nil && !errors.Is(err, ocp.ErrNotLoaded) {
		return nil
	}
	return tools
}

// fetchThrough returns how a document of the site is fetched: by a GET through
// the handlers behind the one that outer has reached, on outer's host. It says
// nothing of outer's caller: the document is everybody's. The body of the answer
// may have at most limit bytes.
func fetchThrough(next caddyhttp.Handler, outer *http.Request, limit int64) openapi.SiteFetch {
	server, _ := outer.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	local := outer.Context().Value(http.LocalAddrContextKey)
	vars, _ := outer.Context().Value(caddyhttp.VarsCtxKey).(map[string]any)
	root, hasRoot := vars["root"]
	head := http.Request{
		Method: http.MethodGet,
		Host:   outer.Host,
		TLS:    outer.TLS,
		Proto:  outer.Proto, ProtoMajor: outer.ProtoMajor, ProtoMinor: outer.ProtoMinor,
		RemoteAddr: outer.RemoteAddr,
	}
	return func(ctx context.Context, path string, header http.Header) (int, http.Header, []byte, error) {
		target, err := url.ParseRequestURI(path)
		if err != nil {
			return 0, nil, nil, fmt.Errorf("the path of the document: %w", err)
		}
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		if local != nil {
			ctx = context.WithValue(ctx, http.LocalAddrContextKey, local)
		}
		r := head.WithContext(contextOfGateway(ctx))
		r.URL, r.RequestURI = target, path
		r.Header = header
		r.Header.Set("Accept-Encoding", "identity")
		r.Body = http.NoBody

		rec := newRecorder(r.Method, limit, cancel)
		defer rec.drop()
		r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), rec, server)
		if hasRoot {
			caddyhttp.SetVar(r.Context(), "root", root)
		}
		return fetchSite(next, rec, r, limit)
	}
}

func fetchSite(next caddyhttp.Handler, rec *recorder, r *http.Request, limit int64) (int, http.Header, []byte, error) {
	err := serve(next, rec, r)
	if handlerError, ok := errors.AsType[caddyhttp.HandlerError](err); ok && rec.status == 0 {
		return handlerError.StatusCode, rec.header, nil, nil
	}
	switch {
	case rec.tooLarge:
		return 0, nil, nil, openapi.ErrTooLarge
	case err != nil:
		return 0, nil, nil, err
	case rec.status == 0:
		return 0, nil, nil, errors.New("no handler behind this one answers it")
	}
	body, err := decodeBody(rec.header, rec.take(), limit)
	if err != nil {
		return 0, nil, nil, err
	}
	if body == nil {
		return rec.status, rec.header, nil, nil
	}
	// The document keeps the bytes, so the buffer does not go back to its pool.
	return rec.status, rec.header, body.B, nil
}
