package console_test

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/chromedp/chromedp"

	eventsmodule "github.com/fairwayhq/fairway/caddymodule/events"
	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/caddymodule/stores"
	"github.com/fairwayhq/fairway/events/serve"
	"github.com/fairwayhq/fairway/internal/identity"
	"github.com/fairwayhq/fairway/internal/seal"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
	"github.com/fairwayhq/fairway/internal/webhook"
)

const hookKey = "0123456789abcdef0123456789abcdef"

// eventsConsole is a site with a console that receives the events of a shop.
func eventsConsole(t *testing.T) *sitetest.Site {
	t.Helper()
	s := sitetest.NewSite(t)
	s.Write("shop.yaml", "openapi: 3.1.0\ninfo: {title: Shop, version: '1'}\nwebhooks:\n  invoice.paid: {post: {requestBody: {content: {application/json: {schema: {type: object}}}}}}\n  order.made: {post: {requestBody: {content: {application/json: {schema: {type: object}}}}}}\n")
	s.Start("agents {\nstore bolt DIR/store.db\ncalls {\narguments owner\n}\naudit {\nsink file DIR/audit.jsonl\n}\ntoolset shop {\nopenapi DIR/shop.yaml\n}\n}",
		"route {\nagent_events /hooks/shop shop {\nverify standard whsec_"+base64.StdEncoding.EncodeToString([]byte(hookKey))+"\nfor `event.owner == user.id`\n}\n"+
			"test_user\nagents_console {\nauditors eve\noperators olga\n}\nmcp TRIPS\nrespond API\n}")
	return s
}

// happen sends the webhook of an event, signed with a key.
func happen(s *sitetest.Site, key, id, name string) int {
	s.T.Helper()
	body, stamp := `{"type":"`+name+`","owner":"ada","card":"4242"}`, strconv.FormatInt(time.Now().Unix(), 10)
	return s.Request("POST", "/hooks/shop", body, "Webhook-Id", id, "Webhook-Timestamp", stamp, "Webhook-Signature", "v1,"+webhook.Sign([]byte(key), id, stamp, []byte(body))).Status
}

// subscribe subscribes ada to invoice.paid, with a webhook that reports the ids that it gets. It returns the id of the subscription.
func subscribe(t *testing.T) (id string, got <-chan string) {
	t.Helper()
	ids := make(chan string, 10)
	receiver := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if challenge := strictjson.MemberOf(body, "challenge"); challenge != nil {
			fmt.Fprintf(w, `{"challenge":%s}`, challenge)
			return
		}
		ids <- r.Header.Get("Webhook-Id")
	}))
	t.Cleanup(receiver.Close)
	running, err := caddy.ActiveContext().App("agents")
	if err != nil {
		t.Fatal(err)
	}
	section, err := site.Get[*eventsmodule.Section](running.(*site.App))
	if err != nil {
		t.Fatal(err)
	}
	records, err := site.Get[*stores.Section](running.(*site.App))
	if err != nil {
		t.Fatal(err)
	}
	source, _ := section.Source("shop")
	server := serve.New(serve.Options{
		Source: source, Name: "shop/mcp", Open: records.OpenStore, Sealer: seal.Derive([]string{hookKey}, "test"),
		Transport: serve.NewTransport(true, &tls.Config{RootCAs: receiver.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}),
		Delivered: func(context.Context, *serve.Delivery) error { return nil }, Failed: func(err error) { t.Error(err) },
	})
	section.Serve("shop", server)
	server.Start()
	t.Cleanup(server.Stop)
	if _, err := server.Subscribe(t.Context(), identity.Unknown("ada"), []byte(`{"name":"invoice.paid","delivery":{"mode":"webhook","url":"`+receiver.URL+`/hook?key=of-the-url","secret":"whsec_`+strings.Repeat("A", 43)+`="}}`)); err != nil {
		t.Fatal(err)
	}
	all, err := server.Subscriptions(t.Context(), "")
	if err != nil || len(all) != 1 {
		t.Fatalf("%d subscriptions, error %v", len(all), err)
	}
	return all[0].ID, ids
}

// eventsModel is what the page shows.
type eventsModel struct {
	Events []struct {
		ID, Name, Before string
		Size             int
		Body             map[string]any
	}
	Refused []struct {
		Reason string
		Count  int
	}
	Receivers []struct{ User, Receiver string }
}

func TestConsole_events(t *testing.T) {
	s := eventsConsole(t)
	receiver, got := subscribe(t)
	for id, name := range map[string]string{"evt_1": "invoice.paid", "evt_2": "order.made"} {
		if status := happen(s, hookKey, id, name); status != 200 {
			t.Fatalf("event %s: %d", id, status)
		}
	}
	for range 2 {
		if status := happen(s, "another key of the shop", "evt_3", "invoice.paid"); status != 401 {
			t.Fatalf("wrong signature: %d", status)
		}
	}
	for path, user := range map[string]string{"/console/events": "ada", "/console/events?source=other": "eve", "/console/events/more": "eve"} {
		if a := s.Request("GET", path, "", "X-Test-User", user); a.Status != 404 {
			t.Errorf("%s as %s: status %d, want 404", path, user, a.Status)
		}
	}
	if strings.Contains(s.View("ada", "/console/calls").Body, "/console/events") {
		t.Error("the navigation of a user has the page")
	}
	for user, isAuditor := range map[string]bool{"eve": true, "olga": false} {
		m := sitetest.ConsoleJSON[eventsModel](s, user, "/console/api/events")
		if len(m.Events) != 2 || len(m.Receivers) != 1 {
			t.Fatalf("%s sees %+v", user, m)
		}
		if len(m.Refused) != 1 || m.Refused[0].Reason != "wrong_signature" || m.Refused[0].Count != 2 {
			t.Errorf("%s sees the refused requests %+v", user, m.Refused)
		}
		if body := m.Events[0].Body; (body["owner"] == "ada") != isAuditor || body["card"] != nil {
			t.Errorf("%s sees the body %v", user, body)
		}
		if r := m.Receivers[0]; r.User != "ada" || !strings.HasPrefix(r.Receiver, "https://127.0.0.1:") || strings.Contains(r.Receiver, "hook") {
			t.Errorf("%s sees the receiver %+v", user, r)
		}
		page := s.View(user, "/console/events").Body
		checkHTML(t, "events", page)
		for text, want := range map[string]bool{"evt_1": true, "Redeliver": isAuditor, "of-the-url": false, "4242": false} {
			if strings.Contains(page, text) != want {
				t.Errorf("%s: the page has %s: %t, want %t", user, text, !want, want)
			}
		}
	}
	m := sitetest.ConsoleJSON[eventsModel](s, "eve", "/console/api/events?name=invoice.")
	if len(m.Events) != 1 || m.Events[0].ID != "evt_1" {
		t.Fatalf("the filter finds %+v", m)
	}
	if id := <-got; id != "evt_1" {
		t.Errorf("delivered %s", id)
	}
	again := url.Values{"source": {"shop"}, "after": {m.Events[0].Before}, "receiver": {receiver}}
	for name, c := range map[string]struct {
		user, member, value string
		header              []string
		status              int
	}{
		"operator":         {"olga", "source", "shop", nil, 404},
		"other source":     {"eve", "source", "other", nil, 404},
		"no cursor":        {"eve", "after", "", nil, 404},
		"not a cursor":     {"eve", "after", "x", nil, 404},
		"unknown receiver": {"eve", "receiver", "sub_x", nil, 404},
		"another site":     {"eve", "source", "shop", []string{"Sec-Fetch-Site", "cross-site"}, 403},
	} {
		changed := url.Values{"source": again["source"], "after": again["after"], "receiver": again["receiver"]}
		changed.Set(c.member, c.value)
		if a := form(s, "/console/events", changed.Encode(), append(c.header, "X-Test-User", c.user)...); a.Status != c.status {
			t.Errorf("%s: status %d, want %d", name, a.Status, c.status)
		}
	}
	a := form(s, "/console/events", again.Encode(), "X-Test-User", "eve")
	if a.Status != http.StatusOK || !strings.Contains(a.Body, `role="status"`) {
		t.Fatalf("status %d, no notice in %s", a.Status, a.Body)
	}
	if id := <-got; id != "evt_1" {
		t.Errorf("delivered again: %s", id)
	}
	s.Logged("delivering events again", `"by":"eve"`, receiver)
	sitetest.Eventually(t, "both events in the archive", func() bool {
		found, redelivered := make(map[string]int), false
		for _, e := range sitetest.Archived(s) {
			if e.Type == "event" && e.Event == "received" && len(e.Digest) == 64 && e.Toolset == "shop" {
				found[e.EventID+" "+e.Name] = e.Size
			}
			redelivered = redelivered || e.Event == "redelivered" && e.EventID == "evt_1" && e.User == "eve"
		}
		return redelivered && found["evt_1 invoice.paid"] > 0 && found["evt_2 order.made"] > 0 && len(found) == 2
	})
}

// TestConsole_without_events has no page of events.
func TestConsole_without_events(t *testing.T) {
	s := governedConsole(t)
	if a := s.Request("GET", "/console/events", "", "X-Test-User", "eve"); a.Status != 404 {
		t.Errorf("status %d, want 404", a.Status)
	}
	if strings.Contains(s.View("eve", "/console/agents").Body, "/console/events") {
		t.Error("the navigation has the page")
	}
}

func TestConsole_events_in_a_browser(t *testing.T) {
	s := eventsConsole(t)
	receiver, got := subscribe(t)
	for i := range 3 {
		happen(s, hookKey, "evt_"+strconv.Itoa(i), "invoice.paid")
		<-got
	}
	happen(s, "another key of the shop", "evt_x", "invoice.paid")
	b := newBrowser(t, s, "eve")
	b.visit("/console/events", "events")
	b.run(chromedp.Click(`//button[.="Redeliver"]`, chromedp.BySearch), chromedp.WaitVisible(`//p[@role="status" and contains(., "ada")]`, chromedp.BySearch))
	b.check("events-redelivered")
	if id := <-got; id != "evt_2" {
		t.Errorf("redelivered %s to %s", id, receiver)
	}
}
