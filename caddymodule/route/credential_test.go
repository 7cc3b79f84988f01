package route

import (
	"net/http"
	"testing"

	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app/credential"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
	"github.com/fairwayhq/fairway/tools/security"
)

// TestSupplement: the toolset's credentials win over what an adapter adds to a
// call, which may have come with it, and both over the caller's headers and the
// arguments.
func TestSupplement(t *testing.T) {
	var got *http.Request
	i := invocation{handler: func(w http.ResponseWriter, r *http.Request) error {
		got = r
		return sitetest.HandlerAPI(w, r)
	}}
	set, err := credential.NewSet([]credential.Module{
		&credential.Header{Name: "Authorization", Value: "Bearer gateway"}, &credential.Header{Name: "X-Key", Value: "gateway"},
		&credential.Query{Name: "limit", Value: "20"},
	}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	i.toolset.Credentials = set
	i.supplement = &security.Supplement{
		Header: http.Header{"X-Key": {"adapter"}, "Mcp-Progress": {"1"}, "User-Agent": {"adapter"}},
		Query:  map[string][]string{"token": {"t"}, "limit": {"30"}},
	}
	result, err := i.run(t)
	if err != nil {
		t.Fatal(err)
	}
	result.Release()
	for name, want := range map[string]string{"Authorization": "Bearer gateway", "X-Key": "gateway", "Mcp-Progress": "1", "User-Agent": "adapter"} {
		if got := got.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if want := "/trips/7?token=t&limit=20"; got.RequestURI != want || got.URL.RequestURI() != want {
		t.Errorf("RequestURI %s, URL %s", got.RequestURI, got.URL)
	}
}
