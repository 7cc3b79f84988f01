package route

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/tools/source"
)

// FetchThrough returns a function that fetches a document of the site. It sends a GET request
// for outer's host through next, the handlers after the one that outer has reached. The request
// carries nothing of outer's caller, because the document is the same for all callers. The body
// of the response may have at most limit bytes.
func FetchThrough(next caddyhttp.Handler, outer *http.Request, limit int64) source.SiteFetch {
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
		r := head.WithContext(withGatewayRequest(ctx))
		r.URL, r.RequestURI = target, path
		r.Header = header
		r.Header.Set("Accept-Encoding", "identity")
		r.Body = http.NoBody

		rec := NewRecorder(r.Method, limit, cancel)
		defer rec.Release()
		r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), rec, server)
		if hasRoot {
			caddyhttp.SetVar(r.Context(), "root", root)
		}
		return fetchSite(next, rec, r, limit)
	}
}

// fetchSite runs the request and returns the recorded response.
func fetchSite(next caddyhttp.Handler, rec *Recorder, r *http.Request, limit int64) (int, http.Header, []byte, error) {
	err := Serve(next, rec, r)
	if handlerError, ok := errors.AsType[caddyhttp.HandlerError](err); ok && rec.Status == 0 {
		return handlerError.StatusCode, rec.Headers, nil, nil
	}
	switch {
	case rec.TooLarge:
		return 0, nil, nil, source.ErrTooLarge
	case err != nil:
		return 0, nil, nil, err
	case rec.Status == 0:
		return 0, nil, nil, errors.New("no handler after this one responds to it")
	}
	body, err := DecodeBody(rec.Headers, rec.TakeBody(), limit)
	if err != nil {
		return 0, nil, nil, err
	}
	if body == nil {
		return rec.Status, rec.Headers, nil, nil
	}
	// The document keeps the bytes, so the buffer does not return to its pool.
	return rec.Status, rec.Headers, body.B, nil
}
