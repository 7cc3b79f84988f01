package connections_test

import (
	"net/http"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	_ "github.com/fairwayhq/fairway/caddymodule"
	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/connections"
	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

func TestMain(m *testing.M) { sitetest.Main(m) }

func init() {
	caddy.RegisterModule(renewAtOnce{})
	httpcaddyfile.RegisterHandlerDirective("test_renew_at_once", func(httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) { return renewAtOnce{}, nil })
}

// renewAtOnce is a handler after which tokens are renewed however new they are.
type renewAtOnce struct{}

func (renewAtOnce) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.test_renew_at_once", New: func() caddy.Module { return new(renewAtOnce) }}
}

func (renewAtOnce) Provision(ctx caddy.Context) error {
	agents, err := app.Of(ctx)
	if err != nil {
		return err
	}
	agents.AccountsAt(site.At(ctx)).(*connections.Handler).SetRecently(0)
	return nil
}

func (renewAtOnce) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	return next.ServeHTTP(w, r)
}
