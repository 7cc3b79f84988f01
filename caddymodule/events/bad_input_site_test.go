package events_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/caddymodule/stores"
	"github.com/fairwayhq/fairway/events/serve"
	"github.com/fairwayhq/fairway/internal/identity"
	"github.com/fairwayhq/fairway/internal/seal"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
	"github.com/fairwayhq/fairway/store"
)

// keys returns the keys of all records of the store, without the share of the process.
func keys(t *testing.T) []string {
	t.Helper()
	running, err := caddy.ActiveContext().App("agents")
	if err != nil {
		t.Fatal(err)
	}
	records, err := site.Get[*stores.Section](running.(*site.App))
	if err != nil {
		t.Fatal(err)
	}
	st, err := records.OpenStore(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all, err := st.Keys(t.Context(), "", "", store.MaxRead)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// rawRequest sends the head of a request and nothing of its body, and returns the status.
func rawRequest(s *sitetest.Site, head string) string {
	s.T.Helper()
	host := strings.TrimPrefix(s.URL, "http://")
	c, err := net.Dial("tcp", host)
	if err != nil {
		s.T.Fatal(err)
	}
	defer c.Close()
	_, _ = fmt.Fprintf(c, "POST /hooks/shop HTTP/1.1\r\nHost: %s\r\n%s\r\n", host, head)
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	status := make([]byte, len("HTTP/1.1 200"))
	_, _ = io.ReadFull(c, status)
	return strings.TrimPrefix(string(status), "HTTP/1.1 ")
}

// TestEvents_leave_nothing_behind_of_bad_input checks that each bad input gets a clear error, and that the store has no record more.
func TestEvents_leave_nothing_behind_of_bad_input(t *testing.T) {
	s := shopSite(t, stripe+forCustomer+"invalid refuse")
	good := paid("evt_1", "ada")
	if a := send(s, good); a.Status != http.StatusOK {
		t.Fatalf("the first event: %d %s", a.Status, a.Body)
	}
	private := make(chan struct{}, 1)
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { private <- struct{}{} }))
	t.Cleanup(target.Close)
	redirecting := httptest.NewTLSServer(http.RedirectHandler(target.URL, http.StatusTemporaryRedirect))
	t.Cleanup(redirecting.Close)
	running, _ := caddy.ActiveContext().App("agents")
	records, err := site.Get[*stores.Section](running.(*site.App))
	if err != nil {
		t.Fatal(err)
	}
	webhooks := serve.New(serve.Options{
		Source: sourceOf(t), Name: "shop/mcp", Open: records.OpenStore, Sealer: seal.Derive([]string{secret}, "test"),
		Transport: serve.NewTransport(true, &tls.Config{RootCAs: redirecting.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}),
	})
	status := func(a sitetest.Response) string { return fmt.Sprint(a.Status, " ", a.Header.Get("Content-Type")) }
	for name, c := range map[string]struct {
		input func() string
		want  string
	}{
		"wrong signature": {func() string {
			return status(send(s, good, "Stripe-Signature", sign(good, "another secret", time.Now())))
		}, "401 application/problem+json"},
		"replay": {func() string {
			return status(send(s, good, "Stripe-Signature", sign(good, secret, time.Now().Add(-time.Hour))))
		}, "401 application/problem+json"},
		"replay in time": {func() string { return status(send(s, good)) }, "200"}, // the API sends it again, if it has not got the response
		"1 GB":           {func() string { return rawRequest(s, "Content-Length: 1073741824\r\n") }, "413"},
		"slow body":      {func() string { return rawRequest(s, "Content-Length: 1000\r\n") }, "408"},
		"members of for": {func() string { return status(send(s, `{"id":"evt_2","type":"invoice.paid","data":{}}`)) }, "400 application/problem+json"},
		"redirect inwards": {func() string {
			_, err := webhooks.Subscribe(t.Context(), identity.Unknown("ada"), []byte(`{"name":"invoice.paid","delivery":{"mode":"webhook","url":"`+redirecting.URL+`","secret":"whsec_`+strings.Repeat("A", 43)+`="}}`))
			return fmt.Sprint(err)
		}, "receiver"},
	} {
		if name == "slow body" && testing.Short() {
			continue
		}
		before := keys(t)
		if got := c.input(); !strings.Contains(got, c.want) {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
		if after := keys(t); !slices.Equal(before, after) {
			t.Errorf("%s: the store has %q, and had %q", name, after, before)
		}
	}
	select {
	case <-private:
		t.Error("the redirect was followed")
	default:
	}
	if got := stored(t); got != "invoice.paid evt_1" {
		t.Errorf("stored: %s", got)
	}
}
