package console

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/go-json-experiment/json"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/calls"
	"github.com/fairwayhq/fairway/caddymodule/internal/siteroutes"
	guard "github.com/fairwayhq/fairway/caddymodule/oagent"
	"github.com/fairwayhq/fairway/caddymodule/replay"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/caddymodule/site"
)

// siteOf is what the pages are about, and where they are.
type siteOf struct {
	app    *app.App
	all    *guard.Guards // of the configuration
	calls  *calls.Section
	replay *replay.Section
	events eventLog // nil if no site can have events
	id     site.Site
	name   string
	server *caddyhttp.Server
	logger *zap.Logger
	base   string // path of all pages but the first, without a trailing slash
	home   string // path of the first page
}

// newSite returns the site of the console that is being provisioned.
func newSite(ctx caddy.Context, agents *app.App, path string) (s *siteOf, err error) {
	s = &siteOf{app: agents, id: site.At(ctx), name: siteroutes.SiteName(ctx), logger: ctx.Logger(), base: strings.TrimRight(path, "/")}
	s.home = s.base
	if s.base == "" {
		s.home, s.base = "/", defaultPath
	}
	s.server, _ = ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if s.all, err = site.Get[*guard.Guards](agents.Site); err != nil {
		return nil, err
	}
	if s.replay, err = site.Get[*replay.Section](agents.Site); err != nil {
		return nil, err
	}
	if s.events, _, err = site.Find[eventLog](agents.Site); err != nil {
		return nil, err
	}
	s.calls, err = site.Get[*calls.Section](agents.Site)
	return s, err
}

// owns reports whether a request is for the console, and returns the segments of its path below it.
func (s *siteOf) owns(r *http.Request) (rest []string, owned bool) {
	path := r.URL.Path
	if path == s.home {
		return nil, s.home != "/" || isPageRequest(r)
	}
	below, owned := strings.CutPrefix(path, s.base+"/")
	if !owned {
		return nil, path == s.base
	}
	if below = strings.TrimRight(below, "/"); below == "" {
		return nil, true
	}
	return strings.Split(below, "/"), true
}

// isPageRequest reports whether a browser requests a page.
func isPageRequest(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// guards returns the oagent handlers of the site.
func (s *siteOf) guards() []*guard.Handler { return s.all.At(s.id) }

// siteEndpoint is a tool endpoint of the site.
type siteEndpoint struct {
	*route.Endpoint
	id string // in paths of the console
}

// endpoints returns the tool endpoints of the site. Their ids are made from their paths.
func (s *siteOf) endpoints() []siteEndpoint {
	all := route.EndpointsOf(s.app, s.id)
	endpoints := make([]siteEndpoint, len(all))
	taken := make(map[string]bool, len(all))
	for i, e := range all {
		id := strings.Map(func(r rune) rune {
			switch {
			case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r >= 'A' && r <= 'Z', r == '_':
				return r
			}
			return '-'
		}, strings.Trim(e.Path, "/"))
		if id == "" {
			id = e.Protocol
		}
		for n, base := 2, id; taken[id]; n++ {
			id = base + "-" + strconv.Itoa(n)
		}
		taken[id] = true
		endpoints[i] = siteEndpoint{e, id}
	}
	return endpoints
}

// endpoint returns the endpoint with an id.
func (s *siteOf) endpoint(id string) (siteEndpoint, bool) {
	all := s.endpoints()
	i := slices.IndexFunc(all, func(e siteEndpoint) bool { return e.id == id })
	if i < 0 {
		return siteEndpoint{}, false
	}
	return all[i], true
}

// request is one request to the console.
type request struct {
	*http.Request
	api    bool     // the response is JSON
	rest   []string // segments of the path below the console, without api
	viewer viewer
}

// readBody reads the body of a request that changes or tries something: that of a program into wanted, of a browser into PostForm. The example
// shows programs what to send.
func (q *request) readBody(wanted any, example string) (err error) {
	invalid := &failure{http.StatusBadRequest, "Invalid form", "The form could not be read."}
	if q.api {
		invalid = &failure{http.StatusBadRequest, "Invalid JSON", "Send an object such as " + example + "."}
		err = json.UnmarshalRead(q.Body, wanted, json.RejectUnknownMembers(true))
	} else {
		err = q.ParseForm()
	}
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return &failure{http.StatusRequestEntityTooLarge, "Too large", "The request must have at most " + strconv.Itoa(maxForm) + " bytes."}
	}
	if err != nil {
		return invalid
	}
	return nil
}

// view returns the first segment of the path below the console, "" for the first page.
func (q *request) view() string {
	if len(q.rest) == 0 {
		return ""
	}
	return q.rest[0]
}

// isRead reports whether the request changes nothing.
func (q *request) isRead() bool { return q.Method == http.MethodGet || q.Method == http.MethodHead }

// origin returns the scheme and the host of the site, as the viewer's client has them.
func (q *request) origin() string {
	scheme := "http"
	if repl, ok := q.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		scheme, _ = repl.GetString("http.request.scheme")
	}
	if q.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + q.Host
}
