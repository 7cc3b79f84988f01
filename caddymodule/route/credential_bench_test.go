package route

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sort"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/app/credential"
	"github.com/fairwayhq/fairway/caddymodule/app/credential/exchange"
	"github.com/fairwayhq/fairway/caddymodule/internal/metrics"
	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
	"github.com/fairwayhq/fairway/internal/tokenclient"
	"github.com/fairwayhq/fairway/tools"
)

// benchLogin is a login with one token of the identity provider.
type benchLogin struct{}

func (benchLogin) ProviderToken(context.Context, string, bool) (string, time.Time, error) {
	return "token-of-the-provider", time.Now().Add(time.Hour), nil
}

// BenchmarkCredential compares a call with a static credential with one that has a cached token for the user of a login. The two take turns, and the
// ratio is the median of the rounds.
func BenchmarkCredential(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"access_token":"token-of-the-api","token_type":"Bearer","expires_in":36000}`))
	}))
	b.Cleanup(server.Close)
	toolset, err := tools.Build([]byte(benchDocument), tools.BuildOptions{Name: "trips"})
	if err != nil {
		b.Fatal(err)
	}
	exchanged := &exchange.OAuth{TokenEndpoint: exchange.TokenEndpoint{TokenURL: server.URL, ClientID: "gateway"}, Grant: tokenclient.TokenExchange}
	if err := exchanged.Provision(caddy.Context{Context: b.Context()}); err != nil {
		b.Fatal(err)
	}
	outer := sitetest.EndpointRequest()
	caddyhttp.SetVar(outer.Context(), site.VarCaller, site.NewSessionCaller(benchLogin{}, "session-of-ada", "ada", time.Now().Add(time.Hour)))
	next := caddyhttp.HandlerFunc(sitetest.HandlerAPI)
	call := func(module credential.Module) func() {
		set, err := credential.NewSet([]credential.Module{module}, zap.NewNop())
		if err != nil {
			b.Fatal(err)
		}
		of := &app.Toolset{Name: "trips", Credentials: set, Limits: app.Limits{Timeout: app.DefaultTimeout, MaxResponse: app.DefaultMaxResponse}}
		part := &Part{Toolset: of, metrics: metrics.All.Of("trips", "mcp")}
		endpoint := &Endpoint{Protocol: "mcp", Logger: zap.NewNop(), Parts: &Parts{All: []*Part{part}, whole: part}, calls: noCalls{}}
		c := new(Caller)
		c.init(endpoint, part, next, outer, toolset, new(RequestCalls))
		return func() {
			outcome := c.Call(outer.Context(), "getTrip", []byte(`{"id":"7","limit":10}`))
			if outcome.Failure != nil {
				b.Fatal(outcome.Failure)
			}
			outcome.Release()
		}
	}
	static, cached := call(&credential.Header{Name: "Authorization", Value: "Bearer token-of-the-api"}), call(exchanged)
	const calls = 200
	round := func(one func()) float64 {
		began := time.Now()
		for range calls {
			one()
		}
		return float64(time.Since(began)) / calls
	}
	var ratios []float64
	for b.Loop() {
		first := round(static)
		ratios = append(ratios, round(cached)/first)
	}
	sort.Float64s(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "cached/static")
}
