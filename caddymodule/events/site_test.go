package events_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/go-json-experiment/json/jsontext"

	eventsmodule "github.com/fairwayhq/fairway/caddymodule/events"
	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/events"
	"github.com/fairwayhq/fairway/internal/identity"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

const (
	secret = "0123456789abcdef0123456789abcdef"

	shop = `openapi: 3.1.0
info: {title: Shop, version: "1"}
webhooks:
  paid:
    post:
      summary: A customer has paid.
      requestBody:
        content:
          application/json:
            schema:
              type: object
              required: [data]
              properties:
                type: {const: invoice.paid}
                data: {type: object, required: [customer], properties: {customer: {type: string}, note: {type: string}}}
  secret.thing: {post: {requestBody: {content: {application/json: {}}}}}
  nothing: {get: {}}
`
	forCustomer = "for `event.data.customer == user.id || \"support\" in user.groups && event_name == \"invoice.paid\"`\n"
)

// shopSite runs a site that requires a login, with webhooks at /hooks/shop.
func shopSite(t *testing.T, options string) *sitetest.Site {
	t.Helper()
	s := sitetest.NewSite(t)
	s.Write("shop.yaml", shop)
	s.Write("made.json", `{"type":"object","required":["n"]}`)
	s.Start("agents {\nstore bolt DIR/store.db\ntoolset shop {\nopenapi DIR/shop.yaml\ninspect secrets\n}\n}",
		"agent_events /hooks/shop shop {\n"+options+"\n}\n"+sitetest.WithLogin+"tools_only\nrespond API")
	return s
}

const stripe = "verify stripe " + secret + "\n"

// sign returns the header Stripe-Signature.
func sign(body, key string, at time.Time) string {
	h := hmac.New(sha256.New, []byte(key))
	_, _ = fmt.Fprintf(h, "%d.%s", at.Unix(), body)
	return fmt.Sprintf("t=%d,v1=%s", at.Unix(), hex.EncodeToString(h.Sum(nil)))
}

// send sends a webhook.
func send(s *sitetest.Site, body string, header ...string) sitetest.Response {
	s.T.Helper()
	r, err := http.NewRequest(http.MethodPost, s.URL+"/hooks/shop", strings.NewReader(body))
	if err != nil {
		s.T.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Stripe-Signature", sign(body, secret, time.Now()))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return s.Do(r)
}

func sourceOf(t *testing.T) *eventsmodule.Source {
	t.Helper()
	app, err := caddy.ActiveContext().App("agents")
	if err != nil {
		t.Fatal(err)
	}
	section, err := site.Get[*eventsmodule.Section](app.(*site.App))
	if err != nil {
		t.Fatal(err)
	}
	source, ok := section.Source("shop")
	if !ok {
		t.Fatal("no source")
	}
	return source
}

// stored returns the names and ids of the events in the log.
func stored(t *testing.T) string {
	t.Helper()
	found, _, _, err := sourceOf(t).Log().Read(t.Context(), "", 100)
	if err != nil {
		t.Fatal(err)
	}
	all := make([]string, len(found))
	for i, e := range found {
		all[i] = e.Name + " " + e.ID
	}
	return strings.Join(all, ", ")
}

func paid(id, customer string) string {
	return `{ "id":"` + id + `", "type":"invoice.paid", "data":{"customer":"` + customer + `","note":"x"} }`
}

// TestEvents_bad_input sends requests that are refused, and leave nothing behind.
func TestEvents_bad_input(t *testing.T) {
	s := shopSite(t, stripe+forCustomer+"invalid refuse\nmax_body 64KiB")
	good := paid("evt_1", "ada")
	for name, c := range map[string]struct {
		body   string
		header []string
		status int
		reason string
	}{
		"no signature":            {good, []string{"Stripe-Signature", ""}, 401, "no_signature"},
		"wrong secret":            {good, []string{"Stripe-Signature", sign(good, "another secret of the shop", time.Now())}, 401, "wrong_signature"},
		"signature of other body": {good + " ", []string{"Stripe-Signature", sign(good, secret, time.Now())}, 401, "wrong_signature"},
		"replayed":                {good, []string{"Stripe-Signature", sign(good, secret, time.Now().Add(-time.Hour))}, 401, "wrong_time"},
		"not JSON":                {"paid", nil, 400, "no_json"},
		"does not fit":            {`{"id":"evt_2","type":"invoice.paid","data":{}}`, nil, 400, "invalid"},
		"too large":               {good + strings.Repeat(" ", 64<<10), nil, 413, "too_large"},
		"many":                    {"[" + strings.Repeat("1,", 200) + "1]", nil, 400, "no_json"},
	} {
		if a := send(s, c.body, c.header...); a.Status != c.status || !strings.Contains(a.Header.Get("Content-Type"), "problem") {
			t.Errorf("%s: %d %s, want %d", name, a.Status, a.Body, c.status)
		}
		s.Logged("refused a webhook", c.reason)
	}
	if a := s.Get("/hooks/shop"); a.Status != 405 {
		t.Errorf("GET: %d", a.Status)
	}
	if got := stored(t); got != "" {
		t.Errorf("stored %s", got)
	}
	for _, other := range []string{"/hooks/shop/", "/hooks", "/Hooks/shop"} {
		if a := s.Get(other); a.Status != 401 {
			t.Errorf("%s: %d, want the login", other, a.Status)
		}
	}
	if strings.Contains(s.Log(), secret) || strings.Contains(s.Log(), `"customer"`) {
		t.Error("the log has a secret or a body")
	}
}

// TestEvents_large_and_slow_bodies has bodies that are refused before they end.
func TestEvents_large_and_slow_bodies(t *testing.T) {
	s := shopSite(t, stripe)
	connect := func(head string) net.Conn {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_, _ = fmt.Fprintf(c, "POST /hooks/shop HTTP/1.1\r\nHost: %s\r\n%s\r\n", strings.TrimPrefix(s.URL, "http://"), head)
		return c
	}
	status := func(c net.Conn) string {
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		head := make([]byte, 12)
		_, _ = io.ReadFull(c, head)
		return string(head)
	}
	if got := status(connect("Content-Length: 1073741824\r\n")); got != "HTTP/1.1 413" {
		t.Errorf("1 GiB: %s", got)
	}
	c := connect("Transfer-Encoding: chunked\r\n")
	go func() {
		for range 1 << 14 {
			if _, err := fmt.Fprintf(c, "10000\r\n%s\r\n", strings.Repeat(" ", 1<<16)); err != nil {
				return
			}
		}
	}()
	if got := status(c); got != "HTTP/1.1 413" {
		t.Errorf("1 GiB without a length: %s", got)
	}
	if testing.Short() {
		return
	}
	if got := status(connect("Content-Length: 1000\r\n")); got != "HTTP/1.1 408" {
		t.Errorf("a slow body: %s", got)
	}
}

func TestEvents_are_stored_once(t *testing.T) {
	s := shopSite(t, "verify stripe "+secret+" an-older-secret-of-the-shop\nevent made {\nschema DIR/made.json\nrename thing.made\n}\nevent secret.thing {\nhide\n}\n"+forCustomer)
	for _, c := range []struct{ body, result string }{
		{paid("evt_1", "ada"), "stored"},
		{paid("evt_1", "ada"), "duplicate"},
		{`{"id":"evt_2","type":"unknown"}`, "undeclared"},
		{`{"id":"evt_3","type":"made"}`, "does not fit"}, // stored with a warning
		{`{"id":"evt_4","type":"secret_thing"}`, "stored"},
	} {
		if a := send(s, c.body); a.Status != 200 || a.Body != "" {
			t.Errorf("%s: %d %s", c.body, a.Status, a.Body)
		}
		s.Logged(c.result)
	}
	old := paid("evt_5", "bob")
	if a := send(s, old, "Stripe-Signature", sign(old, "an-older-secret-of-the-shop", time.Now())); a.Status != 200 {
		t.Errorf("the previous secret: %d %s", a.Status, a.Body)
	}
	const want = "invoice.paid evt_1, thing.made evt_3, secret.thing evt_4, invoice.paid evt_5"
	if got := stored(t); got != want {
		t.Errorf("stored %s, want %s", got, want)
	}
	s.Logged("an event of the document cannot be received", "nothing", "neither post nor put")
	var names []string
	for _, typ := range sourceOf(t).Types() {
		names = append(names, typ.Name+": "+typ.Description)
	}
	if got := strings.Join(names, ", "); got != "invoice.paid: A customer has paid., thing.made: " {
		t.Errorf("the types are %s", got)
	}
	s.Start("agents {\nstore bolt DIR/store.db\ntoolset shop {\nopenapi DIR/shop.yaml\n}\n}", "agent_events /hooks/shop shop {\n"+stripe+"}\nrespond API")
	if got := stored(t); got != want {
		t.Errorf("after a reload: %s", got)
	}
}

// TestSource_visible has events with and without the members that the expression reads.
func TestSource_visible(t *testing.T) {
	shopSite(t, stripe+forCustomer+"event secret.thing {\nhide\n}\nevent invoice.paid {\nselect .data\ndescribe \"Paid.\"\n}")
	source := sourceOf(t)
	event := func(name, body string) *events.Event {
		return &events.Event{ID: "1", Name: name, Body: jsontext.Value(body), Received: time.Now()}
	}
	of := event("invoice.paid", paid("1", "ada"))
	for name, c := range map[string]struct {
		event *events.Event
		user  *identity.User
		want  bool
	}{
		"the customer":      {of, &identity.User{ID: "ada"}, true},
		"another":           {of, &identity.User{ID: "bob"}, false},
		"a group":           {of, &identity.User{ID: "bob", Groups: []string{"support"}}, true},
		"unknown groups":    {of, identity.Unknown("bob"), false},
		"no user":           {event("invoice.paid", paid("1", "")), &identity.User{}, false},
		"a missing member":  {event("invoice.paid", `{"data":{}}`), &identity.User{ID: "ada"}, false},
		"a missing object":  {event("invoice.paid", `{}`), &identity.User{ID: "ada"}, false},
		"no object":         {event("invoice.paid", `[1]`), &identity.User{ID: "ada"}, false},
		"another type":      {event("invoice.paid", `{"data":{"customer":1}}`), &identity.User{ID: "1"}, false},
		"a hidden event":    {event("secret.thing", paid("1", "ada")), &identity.User{ID: "ada"}, false},
		"an undeclared one": {event("other", paid("1", "ada")), &identity.User{ID: "ada"}, false},
	} {
		if got := source.Visible(t.Context(), c.event, c.user); got != c.want {
			t.Errorf("%s: visible %t, want %t", name, got, c.want)
		}
	}
	data, ok := source.Data(t.Context(), event("invoice.paid", `{"data":{"customer":"ada","note":"ghp_0123456789abcdefghijklmnopqrstuvwxyzAB"}}`), &identity.User{ID: "ada"})
	if !ok || !strings.HasPrefix(string(data), `{"customer":"ada"`) || strings.Contains(string(data), "ghp_0123456789") {
		t.Errorf("the data is %s, %t: want the selected member with a masked secret", data, ok)
	}
	if data, ok := source.Data(t.Context(), event("invoice.paid", `[]`), &identity.User{ID: "ada"}); ok {
		t.Errorf("select failed, and the data is %s", data)
	}
}

func TestSource_without_for_is_for_no_user(t *testing.T) {
	shopSite(t, stripe)
	if sourceOf(t).Visible(t.Context(), &events.Event{Name: "invoice.paid", Body: []byte(`{}`)}, &identity.User{ID: "ada"}) {
		t.Error("the event is visible")
	}
}

func TestHandler_rejects_options(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("shop.yaml", shop)
	global := "agents {\nstore bolt DIR/store.db\ntoolset shop DIR/shop.yaml\n}"
	handle := func(options string) string { return "agent_events /hooks/shop shop {\n" + options + "\n}" }
	for want, block := range map[string]string{
		"verify is missing":                    handle(""),
		"the secret of the webhook is missing": handle("verify stripe \"\""),
		"needs at least 16":                    handle("verify stripe short"),
		"public_url is missing":                handle("verify square " + secret),
		"public_url has no effect":             handle(stripe + "public_url https://api.example.com/hooks/shop"),
		"unknown toolset":                      "agent_events /hooks/shop store {\n" + stripe + "}",
		"two agent_events":                     handle(stripe) + "\nagent_events /hooks/more shop {\n" + stripe + "}",
		"document has none of this name":       handle(stripe + "event invoice.payed {\nhide\n}"),
		"no such file":                         handle(stripe + "event made {\nschema DIR/none.json\n}"),
		"select":                               handle(stripe + "event invoice.paid {\nselect .[\n}"),
		"have no effect with hide":             handle(stripe + "event invoice.paid {\nhide\nselect .data\n}"),
		"two events have the name":             handle(stripe + "event secret.thing {\nrename invoice.paid\n}"),
		"at most 1 MiB":                        handle(stripe + "max_body 2MiB"),
		"without *":                            "agent_events /hooks/* shop {\n" + stripe + "}",
		"at most 365 days":                     handle(stripe + "retention 4000d"),
		"no oagent handler":                    handle(stripe + "on invoice.paid start clerk"),
		"there is no such event":               handle(stripe + "on invoice.lost start clerk"),
		"name a path":                          "agent_events / shop {\n" + stripe + "}",
	} {
		if err := s.Load(global, block); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", want, err)
			_ = caddy.Stop()
		}
	}
}

func TestHandler_rejects_a_caddyfile(t *testing.T) {
	for want, line := range map[string]string{
		"unknown preset":                    "verify strip " + secret,
		"takes a preset":                    "verify stripe",
		"not replaced":                      "verify stripe $SECRET",
		"unrecognized verify stripe":        "verify stripe " + secret + " {\nprefix X\n}",
		"takes one expression":              "for event.id == user.id",
		"does not compile":                  "for `event.id ==`",
		"type int":                          "for `1`",
		"changes nothing":                   "event invoice.paid",
		"event invoice.paid is given twice": "event invoice.paid {\nhide\n}\nevent invoice.paid {\nhide\n}",
		"on takes an event":                 "on invoice.paid clerk",
		"on a is given twice":               "on a start b\non a start c",
		"use store or refuse":               "invalid keep",
	} {
		_, _, err := sitetest.Adapt("http://localhost {\nagent_events /hooks/shop shop {\n" + line + "\n}\n}")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
