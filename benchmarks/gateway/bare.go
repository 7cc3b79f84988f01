package main

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func init() {
	caddy.RegisterModule(bare{})
	httpcaddyfile.RegisterHandlerDirective("bare", func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		b := new(bare)
		return b, b.UnmarshalCaddyfile(h.Dispenser)
	})
	httpcaddyfile.RegisterDirectiveOrder("bare", httpcaddyfile.Before, "reverse_proxy")
}

// bare does the least that a handler must do to turn a POST into another request: it reads the body, sends an
// inner request through the next handlers, as caddymodule/route does, and writes the response that it has
// recorded. It knows no MCP: the inner request is always GET URL. What a tool call takes beyond it is the cost
// of MCP, of the tools and of what the gateway guarantees.
type bare struct {
	URL string `json:"url"`
}

// CaddyModule returns the Caddy module information.
func (bare) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.bare", New: func() caddy.Module { return new(bare) }}
}

// UnmarshalCaddyfile parses the directive. Syntax:
//
//	bare [<matcher>] <URL>
func (b *bare) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if !d.AllArgs(&b.URL) {
		return d.ArgErr()
	}
	return nil
}

// maxBody limits the body of the request, in bytes, as max_body of mcp does by default.
const maxBody = 4 << 20

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// ServeHTTP implements caddyhttp.MiddlewareHandler.
func (b *bare) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	message, body := buffers.Get().(*bytes.Buffer), buffers.Get().(*bytes.Buffer)
	message.Reset()
	body.Reset()
	defer buffers.Put(message)
	defer buffers.Put(body)
	if _, err := message.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody)); err != nil {
		return caddyhttp.Error(http.StatusBadRequest, err)
	}
	target, err := url.Parse(b.URL)
	if err != nil {
		return err
	}
	rec := &recorder{header: make(http.Header, 8), body: body}
	if err := next.ServeHTTP(rec, innerRequest(r, target, rec)); err != nil {
		return err
	}
	w.Header()["Content-Type"] = []string{"application/json"}
	w.Header()["Content-Length"] = []string{strconv.Itoa(body.Len())}
	w.WriteHeader(rec.status)
	_, err = w.Write(body.Bytes())
	return err
}

// innerRequest makes a request with the headers of the client's request that are not about its body, and with
// a replacer, variables and route state of its own.
func innerRequest(outer *http.Request, target *url.URL, rec *recorder) *http.Request {
	header := make(http.Header, len(outer.Header)+1)
	for name, values := range outer.Header {
		switch name {
		case "Content-Type", "Content-Length", "Accept", "Mcp-Protocol-Version":
		default:
			header[name] = append([]string(nil), values...)
		}
	}
	header["Accept-Encoding"] = []string{"identity"}
	inner := (&http.Request{
		Method: http.MethodGet, URL: target, RequestURI: target.RequestURI(), Header: header, Body: http.NoBody,
		Host: outer.Host, RemoteAddr: outer.RemoteAddr, TLS: outer.TLS,
		Proto: outer.Proto, ProtoMajor: outer.ProtoMajor, ProtoMinor: outer.ProtoMinor,
	}).WithContext(outer.Context())
	server, _ := outer.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	return caddyhttp.PrepareRequest(inner, caddy.NewReplacer(), rec, server)
}

// recorder keeps a response.
type recorder struct {
	header http.Header
	body   *bytes.Buffer
	status int
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 && status >= http.StatusOK {
		r.status = status
	}
}

func (r *recorder) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(p)
}

func (r *recorder) ReadFrom(source io.Reader) (int64, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.ReadFrom(source)
}
