package sitetest

import (
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/oagent/review"
)

// The directives test_user, test_pace and test_panic are handlers for tests.
func init() {
	for name, handler := range map[string]caddyhttp.MiddlewareHandler{"test_user": testUser{}, "test_pace": testPace{}, "test_panic": panics{}} {
		caddy.RegisterModule(handler.(caddy.Module))
		httpcaddyfile.RegisterHandlerDirective(name, func(httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) { return handler, nil })
	}
	httpcaddyfile.RegisterDirectiveOrder("test_user", httpcaddyfile.Before, "respond")
	httpcaddyfile.RegisterDirectiveOrder("test_panic", httpcaddyfile.Before, "respond")
}

// testUser takes X-Test-User for who has been authenticated, with the address
// X-Test-Email.
type testUser struct{}

func (testUser) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.test_user", New: func() caddy.Module { return new(testUser) }}
}

func (testUser) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	repl := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if user := r.Header.Get("X-Test-User"); user != "" {
		repl.Set("http.auth.user.id", user)
	}
	if email := r.Header.Get("X-Test-Email"); email != "" {
		repl.Set("http.auth.user.email", email)
	}
	return next.ServeHTTP(w, r)
}

// testPace has agents that review asked without long pauses.
type testPace struct{}

func (testPace) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.test_pace", New: func() caddy.Module { return new(testPace) }}
}

func (testPace) Provision(ctx caddy.Context) error {
	agents, err := site.Of(ctx)
	if err != nil {
		return err
	}
	guards, _, err := site.Find[interface{ SetPace(review.Pace) }](agents)
	if err != nil {
		return err
	}
	guards.SetPace(review.Pace{ScanInterval: 50 * time.Millisecond, OtherNodeDelay: 20 * time.Millisecond, RetryPause: 20 * time.Millisecond})
	return nil
}

func (testPace) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	return next.ServeHTTP(w, r)
}

// panics is a handler that panics.
type panics struct{}

func (panics) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.test_panic", New: func() caddy.Module { return new(panics) }}
}

func (panics) UnmarshalCaddyfile(*caddyfile.Dispenser) error { return nil }

func (panics) ServeHTTP(http.ResponseWriter, *http.Request, caddyhttp.Handler) error {
	panic("a fault of the handler")
}
