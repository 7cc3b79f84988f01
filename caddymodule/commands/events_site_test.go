package commands_test

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
	"github.com/fairwayhq/fairway/internal/webhook"
)

// TestEvents_command lists events and refused requests.
func TestEvents_command(t *testing.T) {
	const key = "0123456789abcdef0123456789abcdef"
	s := sitetest.NewSite(t)
	s.Write("shop.yaml", "openapi: 3.1.0\ninfo: {title: Shop, version: '1'}\nwebhooks:\n  invoice.paid: {post: {requestBody: {content: {application/json: {schema: {type: object}}}}}}\n")
	admin := sitetest.StartAdmin(s, `{
	admin ADMIN
	persist_config off
	auto_https off
	storage file_system DIR/storage
	agents {
		store bolt DIR/store.db
		toolset shop DIR/shop.yaml
	}
}
http://127.0.0.1:PORT {
	bind 127.0.0.1
	route {
		agent_events /hooks/shop shop {
			verify standard whsec_`+base64.StdEncoding.EncodeToString([]byte(key))+`
		}
		respond API
	}
}
`)
	happen := func(key, id string) {
		body, stamp := `{"type":"invoice.paid","card":"4242"}`, strconv.FormatInt(time.Now().Unix(), 10)
		s.Request("POST", "/hooks/shop", body, "Webhook-Id", id, "Webhook-Timestamp", stamp, "Webhook-Signature", "v1,"+webhook.Sign([]byte(key), id, stamp, []byte(body)))
	}
	happen(key, "evt_1")
	happen(key, "evt_2")
	happen("another key of the shop", "evt_3")
	run := func(arguments ...string) (stdout, stderr string) {
		stdout, stderr, _ = command("agents", "", append(arguments, "--address", admin)...)
		return stdout, stderr
	}
	for arguments, want := range map[string]string{
		"--json=false":                  "invoice.paid 37 evt_2 evt_1",
		"--source shop --name invoice.": `"id":"evt_2" "size":37`,
		"--refused":                     `"reason":"wrong_signature" "count":1`,
		"--refused --json=false":        "wrong_signature 1",
		"--name other":                  "There are none",
		"--source other":                "no such source",
	} {
		out, errors := run(append([]string{"events"}, strings.Fields(arguments)...)...)
		for part := range strings.FieldsSeq(want) {
			if !strings.Contains(out+errors, part) {
				t.Errorf("%s: no %s in %s%s", arguments, part, out, errors)
			}
		}
		if strings.Contains(out, "4242") {
			t.Errorf("%s: a body in %s", arguments, out)
		}
	}
	out, _ := run("events", "--json")
	first, _, _ := strings.Cut(out, "\n")
	var event struct{ ID, Name string }
	if err := json.Unmarshal([]byte(first), &event); err != nil || event.ID != "evt_2" || strings.Count(out, "\n") != 2 {
		t.Errorf("error %v, the newest of %s is %+v", err, out, event)
	}
}
