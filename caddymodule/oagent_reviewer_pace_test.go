package caddymodule_test

import (
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/caddymodule/agents"
)

func init() {
	caddy.RegisterModule(testPace{})
	httpcaddyfile.RegisterHandlerDirective("test_pace", func(httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		return testPace{}, nil
	})
}

// testPace is a handler that has agents asked without long pauses.
type testPace struct{}

func (testPace) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.test_pace", New: func() caddy.Module { return new(testPace) }}
}

func (testPace) Provision(ctx caddy.Context) error {
	app, err := ctx.App("agents")
	if err != nil {
		return err
	}
	app.(*agents.App).ReviewPace = agents.ReviewPace{ScanInterval: 50 * time.Millisecond, OtherNodeDelay: 20 * time.Millisecond, RetryPause: 20 * time.Millisecond}
	return nil
}

func (testPace) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	return next.ServeHTTP(w, r)
}
