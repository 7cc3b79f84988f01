package mcpevents_test

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
	"github.com/fairwayhq/fairway/internal/webhook"
)

const shop = `openapi: 3.1.0
info: {title: Shop, version: "1"}
paths: {/orders: {get: {operationId: listOrders, responses: {"200": {description: ok}}}}}
webhooks:
  paid:
    post:
      summary: A customer has paid.
      requestBody:
        content:
          application/json:
            schema: {type: object, properties: {type: {const: invoice.paid}, owner: {type: string}, amount: {type: integer}}}
`

// start runs a site that receives events at /hooks and serves them at /mcp. A user gets those with its name as the owner.
func start(t *testing.T, options string) *sitetest.Site {
	t.Helper()
	s := sitetest.NewSite(t)
	s.Write("shop.yaml", shop)
	s.Start("agents {\nstore bolt DIR/store.db\naudit {\nsink file DIR/audit.jsonl\n}\ntoolset shop {\nopenapi DIR/shop.yaml\n}\n}",
		"agent_events /hooks shop {\nverify standard "+hookSecret+"\nfor `event.owner == user.id`\n}\n"+
			"agent_auth {\noptional\napi_key {\nkey ada 0123456789abcdef-ada\nkey bob 0123456789abcdef-bob\n}\n}\n"+
			"mcp /mcp shop {\nwatch_interval 50ms\n"+options+"\n}\nrespond API")
	return s
}

const key = "0123456789abcdef"

// hookSecret signs the webhooks of the API.
var hookSecret = "whsec_" + base64.StdEncoding.EncodeToString([]byte(key))

// happen sends the webhook of an event.
func happen(s *sitetest.Site, id, owner string, amount int) {
	s.T.Helper()
	body := fmt.Sprintf(`{"type":"invoice.paid","owner":"%s","amount":%d}`, owner, amount)
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	a := s.Request(http.MethodPost, "/hooks", body, "Content-Type", "application/json", "Webhook-Id", id, "Webhook-Timestamp", stamp,
		"Webhook-Signature", "v1,"+webhook.Sign([]byte(key), id, stamp, []byte(body)))
	if a.Status/100 != 2 {
		s.T.Fatalf("the webhook: %d %s", a.Status, a.Body)
	}
}

// call sends a request of 2026-07-28 as a user, and returns the response.
func call(s *sitetest.Site, user, method, params string) string {
	s.T.Helper()
	if params != "" {
		params = "," + params
	}
	a := s.Post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientCapabilities":{}}`+params+`}}`, headers(user, method))
	return a.Body
}

func headers(user, method string) map[string]string {
	header := map[string]string{"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
	if user != "" {
		header["X-API-Key"] = key + "-" + user
	}
	return header
}

func want(t *testing.T, got string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(got, part) {
			t.Errorf("got %s, want %s", got, part)
		}
	}
}

func TestEvents_are_served_to_the_users_who_may_see_them(t *testing.T) {
	s := start(t, "events")
	want(t, call(s, "ada", "server/discover", ""), `"io.modelcontextprotocol/events":{"listChanged":true}`, `"events":{}`)
	want(t, call(s, "ada", "events/list", ""), `"resultType":"complete"`, `"name":"invoice.paid"`, `"delivery":["poll","push"]`, `"amount":{"anyOf":[{"type":["integer"]}`)
	want(t, call(s, "", "events/list", ""), `-32012`)
	want(t, call(s, "ada", "events/subscribe", `"name":"invoice.paid","delivery":{"mode":"webhook"}`), `-32014`, `"feature":"delivery"`)
	want(t, call(s, "ada", "events/unsubscribe", `"name":"invoice.paid","delivery":{"mode":"webhook","url":"https://a.test"}`), `"result":{"resultType":"complete"`)
	begun := call(s, "ada", "events/poll", `"name":"invoice.paid"`)
	cursor := strictjson.Text(strictjson.MemberOf(strictjson.MemberOf([]byte(begun), "result"), "cursor"))
	happen(s, "e1", "ada", 1)
	happen(s, "e2", "bob", 2)
	want(t, call(s, "ada", "events/poll", `"name":"invoice.paid","cursor":"`+cursor+`"`), `"eventId":"e1"`, `"hasMore":false`)
	if got := call(s, "bob", "events/poll", `"name":"invoice.paid","cursor":"`+cursor+`"`); strings.Contains(got, `"e1"`) {
		t.Errorf("another user gets %s", got)
	}
	sitetest.Eventually(t, "the deliveries in the archive", func() bool {
		var found []string
		for _, e := range sitetest.Archived(s) {
			if e.Type == "event" && e.Event != "received" {
				found = append(found, e.Event+" "+e.User+" "+e.Name+" "+e.EventID+" "+e.Toolset)
			}
		}
		return strings.Join(found, ", ") == "polled ada invoice.paid e1 shop, polled bob invoice.paid e2 shop"
	})
}

func TestEvents_stream_over_HTTP(t *testing.T) {
	s := start(t, "events {\nerrors sep-3415\n}")
	want(t, call(s, "", "events/list", ""), `-32024`)
	var header []string
	for name, value := range headers("ada", "events/stream") {
		header = append(header, name, value)
	}
	stream := sitetest.StreamsOf(s).Open(http.MethodPost, `{"jsonrpc":"2.0","id":"s","method":"events/stream","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientCapabilities":{}},"name":"invoice.paid"}}`, append(header, "Content-Type", "application/json")...)
	lines := bufio.NewReader(stream.Body)
	want(t, sitetest.Message(t, lines), `"method":"notifications/events/active"`, `"truncated":false`, `"io.modelcontextprotocol/subscriptionId":"s"`)
	happen(s, "e1", "bob", 1)
	happen(s, "e2", "ada", 1)
	want(t, sitetest.Message(t, lines), `"method":"notifications/events/event"`, `"eventId":"e2"`, `"data":{"type":"invoice.paid","owner":"ada","amount":1}`, `"cursor":"`)
}

func TestEvents_are_resources_of_older_revisions(t *testing.T) {
	s := start(t, "events")
	header := map[string]string{"X-API-Key": key + "-ada"}
	a := s.Post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`, header)
	want(t, a.Body, `"io.modelcontextprotocol/events"`, `"events":{}`)
	header["Mcp-Session-Id"], header["MCP-Protocol-Version"] = a.Header.Get("Mcp-Session-Id"), "2025-11-25"
	old := func(method, params string) string {
		return s.Post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+params+`}}`, header).Body
	}
	want(t, old("events/list", ""), `"name":"invoice.paid"`)
	want(t, old("resources/list", ""), `"uri":"events://shop/invoice.paid"`)
	happen(s, "e1", "ada", 1)
	happen(s, "e2", "bob", 1)
	got := old("resources/read", `"uri":"events://shop/invoice.paid"`)
	if want(t, got, `"mimeType":"application/json"`, `e1`); strings.Contains(got, "e2") {
		t.Errorf("the resource has the event of another user: %s", got)
	}
	want(t, old("resources/subscribe", `"uri":"events://shop/invoice.paid"`), `"result":{}`)
	stream := sitetest.StreamsOf(s).Open(http.MethodGet, "", "X-API-Key", header["X-API-Key"], "Mcp-Session-Id", header["Mcp-Session-Id"], "MCP-Protocol-Version", "2025-11-25")
	lines := bufio.NewReader(stream.Body)
	happen(s, "e3", "ada", 1)
	want(t, sitetest.Message(t, lines), `notifications/resources/updated`, `events://shop/invoice.paid`)
}

func TestEvents_webhooks_need_the_secret_and_a_public_receiver(t *testing.T) {
	s := start(t, "secret 0123456789abcdef0123\nevents")
	want(t, call(s, "ada", "events/list", ""), `"delivery":["poll","push","webhook"]`)
	receiver := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(receiver.Close)
	subscribe := `"name":"invoice.paid","delivery":{"mode":"webhook","url":"` + receiver.URL + `","secret":"whsec_` + strings.Repeat("A", 32) + `"}`
	want(t, call(s, "ada", "events/subscribe", subscribe), `-32602`, `not public`)
	s = start(t, "secret 0123456789abcdef0123\nevents {\nallow_private_receivers\n}")
	want(t, call(s, "ada", "events/subscribe", subscribe), `-32015`, `"reason":"tls_error"`)
}

func TestEvents_options_that_cannot_work(t *testing.T) {
	receiving := "agent_events /hooks shop {\nverify standard " + hookSecret + "\n}\n"
	for options, want := range map[string]string{
		"mcp /mcp shop {\nevents\n}": "agent_events shop",
		receiving + "mcp /mcp shop {\nevents {\nallow_private_receivers\n}\n}": "allow_private_receivers secret",
	} {
		s := sitetest.NewSite(t)
		s.Write("shop.yaml", shop)
		if err := s.Load("agents {\ntoolset shop {\nopenapi DIR/shop.yaml\n}\n}", options+"\nrespond API"); err == nil || !testkit.ContainsAll(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", options, err, want)
		}
	}
}
