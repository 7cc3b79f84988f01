// Package files lets callers upload files for tool calls, so that files do not pass through a model. It has the option uploads of the
// app `agents`, and the directive agent_uploads, which takes the files (section.go), create_upload and links to large responses (tool.go),
// what MCP hosts use (mcp.go), and the files of a call (call.go). Package files of the module root keeps them.
package files

import (
	"cmp"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/bodies"
	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/caddymodule/mcp"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/caddymodule/stores"
	"github.com/fairwayhq/fairway/files"
	"github.com/fairwayhq/fairway/internal/fetch"
	"github.com/fairwayhq/fairway/store/keyedhash"
)

func init() {
	site.Register(func() site.Section { return new(Section) })
	caddy.RegisterModule(new(Handler))
	mcp.RegisterPart(func() mcp.Part { return new(part) })
	httpcaddyfile.RegisterHandlerDirective("agent_uploads", func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		h.Next() // consume directive name
		return new(Handler), directive.NewBlock(h.Dispenser).Read("agent_uploads", nil)
	})
}

// largestMaxSize limits max_size, because the request to the API is in memory.
const largestMaxSize = 256 << 20

// Config are the options of uploads.
type Config struct {
	// The public URL below which agent_uploads takes files, such as https://tools.example.com/uploads. Required.
	URL string `json:"url,omitempty"`

	// The largest file, in bytes; at most 256 MiB. Default: 16 MiB.
	MaxSize int64 `json:"max_size,omitempty"`

	// The number of files that one caller can have. Default: 100.
	MaxFiles int `json:"max_files,omitempty"`

	// The size of the files that one caller can have, in bytes. Default: 256 MiB.
	MaxTotal int64 `json:"max_total,omitempty"`

	// How long a URL can be used. Default: 15m.
	Redeem caddy.Duration `json:"redeem,omitempty"`

	// How long a file is kept. Default: 24h.
	Keep caddy.Duration `json:"keep,omitempty"`

	// The size above which a binary response becomes a link, in bytes. Default: 256 KiB.
	LinkAbove int64 `json:"link_above,omitempty"`
}

// Section has the files of a configuration.
type Section struct {
	// Files that callers upload for tool calls, at URLs of agent_uploads. Default: none.
	Uploads *Config `json:"uploads,omitempty"`

	store   files.Store
	bodies  *bodies.Section
	keys    keyedhash.Keys
	fetcher *fetch.Client // of files of ChatGPT
	logger  *zap.Logger
	path    string // of the URLs, with a final slash
	uris    string // begins the URIs of uploads
	served  bool   // a site has agent_uploads
}

// Options implements site.Section.
func (s *Section) Options(b *directive.Block) directive.Options {
	return directive.Options{"uploads": func() error {
		s.Uploads = new(Config)
		if err := b.Text(&s.Uploads.URL); err != nil {
			return err
		}
		b := directive.NewBlock(b.Dispenser)
		return b.Read("uploads", directive.Options{
			"max_size":   directive.To(b.Size, &s.Uploads.MaxSize),
			"max_files":  directive.To(b.Positive, &s.Uploads.MaxFiles),
			"max_total":  directive.To(b.Size, &s.Uploads.MaxTotal),
			"redeem":     directive.To(b.Period, &s.Uploads.Redeem),
			"keep":       directive.To(b.Period, &s.Uploads.Keep),
			"link_above": directive.To(b.Size, &s.Uploads.LinkAbove),
		})
	}}
}

// Provision checks the options.
func (s *Section) Provision(ctx caddy.Context, a *site.App) error {
	c := s.Uploads
	if c == nil {
		return nil
	}
	records, err := site.Get[*stores.Section](a)
	if err != nil {
		return err
	}
	if s.bodies, err = site.Get[*bodies.Section](a); err != nil {
		return err
	}
	if c.URL, err = caddy.NewReplacer().ReplaceOrErr(c.URL, true, true); err != nil {
		return err
	}
	to, err := url.Parse(strings.TrimRight(c.URL, "/") + "/")
	if err != nil || to.Scheme != "https" && to.Scheme != "http" || to.Host == "" || len(to.Path) < 2 || to.RawQuery+to.Fragment != "" || to.User != nil {
		return errors.New("uploads needs the public URL of agent_uploads with a path, such as https://tools.example.com/uploads")
	}
	c.URL, s.path, s.uris, s.logger, c.LinkAbove = to.String(), to.Path, "mcp-file://"+to.Host+"/", ctx.Logger(), cmp.Or(c.LinkAbove, 256<<10)
	s.store = files.Store{
		Open: records.OpenStore, MaxSize: cmp.Or(c.MaxSize, 16<<20), MaxFiles: cmp.Or(c.MaxFiles, 100), MaxTotal: cmp.Or(c.MaxTotal, 256<<20),
		Redeem: cmp.Or(time.Duration(c.Redeem), 15*time.Minute), Keep: cmp.Or(time.Duration(c.Keep), 24*time.Hour),
	}
	if max(s.store.Redeem, s.store.Keep) > 365*24*time.Hour {
		return errors.New("uploads: redeem and keep are at most 365d")
	}
	if min(s.store.MaxSize, int64(s.store.MaxFiles), int64(s.store.Redeem), int64(s.store.Keep), c.LinkAbove) < 0 || s.store.MaxSize > min(s.store.MaxTotal, largestMaxSize) {
		return errors.New("uploads: limits must not be negative, and max_size is at most max_total and 256MiB")
	}
	dialer := &net.Dialer{Timeout: fetchTime, ControlContext: fetch.OnlyPublic}
	transport := &http.Transport{DialContext: dialer.DialContext, TLSHandshakeTimeout: fetchTime, IdleConnTimeout: fetchTime}
	s.fetcher = fetch.New(fetch.Options{MaxSize: s.store.MaxSize, Timeout: fetchTime, Transport: transport})
	records.Users.Add("uploads", &s.store)
	return nil
}

// Start implements site.Starter.
func (s *Section) Start() error {
	if s.Uploads != nil && !s.served {
		return errors.New("uploads has no effect without agent_uploads in the site of its URL")
	}
	return nil
}

// Handler takes the files of uploads, and returns those of links, at the URLs of the option uploads. A URL is the only credential. The
// handler runs before all others, and Caddy's access log omits its requests, so that no span and no log has a URL.
type Handler struct{ section *Section }

// CaddyModule returns the Caddy module information.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.agent_uploads", New: func() caddy.Module { return new(Handler) }}
}

// Provision finds the option uploads.
func (h *Handler) Provision(ctx caddy.Context) (err error) {
	if h.section, err = site.SectionOf[*Section](ctx); err != nil {
		return err
	}
	if h.section.Uploads == nil {
		return errors.New("agent_uploads has no effect without the option uploads: { agents { uploads https://tools.example.com/uploads } }")
	}
	h.section.served = true
	return nil
}

// ServeHTTP serves the URLs.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	secret, ok := strings.CutPrefix(r.URL.Path, h.section.path)
	if !ok {
		return next.ServeHTTP(w, r)
	}
	caddyhttp.SetVar(r.Context(), caddyhttp.LogSkipVar, true)
	if release := h.section.bodies.Bound(r, route.OwnerOf); release != nil {
		defer release()
	}
	if handle, f, err := h.section.store.Serve(w, r, secret); err != nil {
		h.section.logger.Error("an uploaded file cannot be stored or read", zap.Error(err))
	} else if f != nil {
		h.section.logger.Info("a file was uploaded", zap.String("upload", handle), zap.String("type", f.Type), zap.Int64("size", f.Size),
			zap.String("sha256", f.SHA256), zap.String("client", route.ClientAddress(r)))
	}
	return nil
}

// Interface guards
var (
	_ site.Starter                = (*Section)(nil)
	_ route.Uploads               = (*Section)(nil)
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
