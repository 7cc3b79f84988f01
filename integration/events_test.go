package integration

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/events"
	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/embedded"
)

const hookSecret = "0123456789abcdef0123456789abcdef"

// hooksDocument declares one event, and orders.yaml has none.
const hooksDocument = `{"openapi":"3.1.0","info":{"title":"Hooks","version":"1"},"paths":{"/report":{"post":{"operationId":"report","requestBody":{"content":
	{"application/json":{"schema":{"type":"object","properties":{"text":{"type":"string"}}}}}},"responses":{}}}},"webhooks":{"invoice.paid":{"post":{"requestBody":{"content":{"application/json":{}}}}}}}`

// hooksSite receives webhooks at /hooks/PRESET, each with a toolset and a log of its own.
func hooksSite(address, file string, presets ...string) string {
	toolsets, sources := "", ""
	for _, preset := range presets {
		toolsets += "toolset " + preset + " hooks.json\n"
		sources += "agent_events /hooks/" + preset + " " + preset + " {\nverify " + preset + " " + hookSecret + "\n}\n"
	}
	return fmt.Sprintf("{\nadmin off\nagents {\nstore bolt %s\ntoolset orders orders.yaml\n%s}\n}\nhttp://%s {\n%sotc /otc orders\nrespond API\n}\n", file, toolsets, address, sources)
}

func postHook(ctx context.Context, url, body string, header map[string]string) (int, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	for name, value := range header {
		r.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	response.Body.Close()
	return response.StatusCode, nil
}

// postStripe sends an event as Stripe does, with further members.
func (n *brittleNode) postStripe(ctx context.Context, id string, members ...string) (int, error) {
	body, now := `{`+strings.Join(append(members, `"id":"`+id+`","type":"invoice.paid"}`), ","), time.Now().Unix()
	mac := hmac.New(sha256.New, []byte(hookSecret))
	_, _ = fmt.Fprintf(mac, "%d.%s", now, body)
	return postHook(ctx, n.url+"/hooks/stripe", body, map[string]string{"Stripe-Signature": fmt.Sprintf("t=%d,v1=%s", now, hex.EncodeToString(mac.Sum(nil)))})
}

// TestEvents_signed_by_packages_of_providers sends webhooks that the providers' own npm packages have signed.
func TestEvents_signed_by_packages_of_providers(t *testing.T) {
	const body = `{ "id": "evt_1", "type": "invoice.paid", "action": "paid" }`
	var signed map[string]map[string]string
	decodeOutput(t, node(t, "sign.mjs", hookSecret, "evt_1", body), &signed)
	dir, address := t.TempDir(), freeAddress(t)
	writeFile(t, filepath.Join(dir, "hooks.json"), hooksDocument)
	site := strings.ReplaceAll(hooksSite(address, "store.db", "standard", "stripe", "github"), "verify standard "+hookSecret, "verify standard whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
	n := startBrittle(t, dir, address, site)
	for preset, header := range signed {
		if status, err := postHook(t.Context(), n.url+"/hooks/"+preset, body, header); err != nil || status != 200 {
			t.Errorf("%s: status %d, error %v", preset, status, err)
		}
		if status, err := postHook(t.Context(), n.url+"/hooks/"+preset, body+" ", header); err != nil || status != 401 {
			t.Errorf("%s, another body: status %d, error %v", preset, status, err)
		}
		waitFor(t, waitTimeout, "the event in the log of "+preset, func() bool {
			return strings.Contains(n.log.String(), `"toolset":"`+preset+`","event":"invoice.paid","id":"evt_1","result":"stored"`)
		})
	}
}

// TestEvents_of_a_killed_node kills a node again and again while webhooks arrive, each of them twice. Each event that got a 2xx is in the log, and
// starts one run of an agent.
func TestEvents_of_a_killed_node(t *testing.T) {
	t.Parallel()
	kills := 10
	if testing.Short() {
		kills = 3
	}
	const senders, each = 6, 60 // events between two kills
	dir, address := t.TempDir(), freeAddress(t)
	writeFile(t, filepath.Join(dir, "hooks.json"), hooksDocument)
	file := filepath.Join(dir, "store.db")
	var answered sync.Map
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(api.Close)
	writeFile(t, filepath.Join(dir, "clerk.yaml"), "kind: openagentspec:v1/agent\nname: clerk\ndescription: d\nintent: i\nowner: o\ncapabilities:\n  report: {user_identity: false, static_identity: bot}\n")
	writeFile(t, filepath.Join(dir, "model.yaml"), "conversations:\n  - steps:\n      - calls: [{name: report, arguments: {text: \"{input}\"}}]\n      - text: Done.\n")
	site := strings.NewReplacer("verify stripe "+hookSecret, "verify stripe "+hookSecret+"\non invoice.paid start clerk", "respond API",
		"@governed path /report /agents* /engagements*\noagent @governed clerk.yaml {\ntoolset stripe\nserve /agents\nengagements /engagements\nidentity bot header_up Authorization x\nmodel scripted {\nfile model.yaml\n}\n}\nreverse_proxy "+
			strings.TrimPrefix(api.URL, "http://")).Replace(hooksSite(address, file, "stripe"))
	for round := range kills {
		n := startBrittle(t, dir, address, site)
		var sent atomic.Int64
		var group sync.WaitGroup
		for sender := range senders {
			group.Go(func() {
				for i := 0; ; i++ {
					id := fmt.Sprintf("%d-%d-%d", round, sender, i/2) // each twice
					status, err := n.postStripe(t.Context(), id)
					if err != nil {
						return // the node is dead
					}
					if status != 200 {
						t.Errorf("status %d", status)
						return
					}
					answered.Store(id, true)
					sent.Add(1)
				}
			})
		}
		waitFor(t, waitTimeout, "the webhooks", func() bool { return sent.Load() >= each })
		n.kill()
		group.Wait()
	}
	n := startBrittle(t, dir, address, site)
	if status, err := n.postStripe(t.Context(), "last"); err != nil || status != 200 {
		t.Fatalf("status %d, error %v", status, err)
	}
	waitFor(t, waitTimeout, "the agent of the last event", func() bool {
		return strings.Contains(n.log.String(), `"msg":"started an agent for an event","agent":"clerk","event":"invoice.paid","id":"last"`)
	})
	n.kill()
	st, err := embedded.Open(file, embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	log := events.NewLog(events.Options{Source: "stripe", Open: func(context.Context) (store.Store, error) { return st, nil }})
	found := make(map[string]int)
	for after, more := events.Cursor(""), true; more; {
		read, next, _, err := log.Read(t.Context(), after, 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range read {
			found[e.ID]++
		}
		after, more = next, len(read) > 0
	}
	runs := 0
	if err := store.Scan(t.Context(), st, "", func(key string, _ store.Record) error {
		if strings.Contains(key, "/run/") {
			runs++
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if runs != len(found) {
		t.Errorf("%d events have started %d runs", len(found), runs)
	}
	for id := range answered.Range {
		if n := found[id.(string)]; n < 1 || n > 2 {
			t.Errorf("event %s is %d times in the log", id, n)
		}
	}
}

// TestEvents_reach_the_AI_SDK subscribes with the client of the AI SDK, and delivers to its webhook, also after the node was killed.
func TestEvents_reach_the_AI_SDK(t *testing.T) {
	program, dir, address := nodeProgram(t), t.TempDir(), freeAddress(t)
	if _, err := os.Stat(filepath.Join(nodeClients, "node_modules", "@ai-sdk")); err != nil {
		testkit.Missing(t, "the AI SDK is not installed: run npm ci --ignore-scripts in testdata/npm")
	}
	receiver := httptest.NewTLSServer(nil) // for its certificate
	t.Cleanup(receiver.Close)
	secret, err := x509.MarshalPKCS8PrivateKey(receiver.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writeFile(t, cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: receiver.Certificate().Raw})))
	writeFile(t, key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	writeFile(t, filepath.Join(dir, "hooks.json"), hooksDocument)
	site := strings.NewReplacer("verify stripe "+hookSecret, "verify stripe "+hookSecret+"\nfor `user.id == \"ada\"`", "respond API",
		"agent_auth /mcp* {\napi_key {\nkey ada "+hookSecret+"\n}\n}\nmcp /mcp stripe {\nsecret "+hookSecret+"\nevents {\nallow_private_receivers\n}\n}\nrespond API").
		Replace(hooksSite(address, filepath.Join(dir, "store.db"), "stripe"))
	n := startBrittle(t, dir, address, site, "SSL_CERT_FILE="+cert)
	client := exec.CommandContext(t.Context(), program, "events.mjs", n.url+"/mcp", hookSecret, "invoice.paid", cert, key)
	client.Dir = nodeClients
	in, err := client.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out := new(output)
	client.Stdout, client.Stderr = out, out
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	printed := func(text string) {
		t.Helper()
		waitFor(t, waitTimeout, "the client to print "+text, func() bool { return strings.Contains(out.String(), text) })
	}
	printed("subscribed")
	for _, id := range []string{"evt_1", "evt_2"} {
		if status, err := n.postStripe(t.Context(), id); err != nil || status != 200 {
			t.Fatalf("status %d, error %v", status, err)
		}
		printed(`{"eventId":"` + id + `","name":"invoice.paid"`)
		n.kill()
		n = startBrittle(t, dir, address, site, "SSL_CERT_FILE="+cert)
	}
	in.Close()
	if err := client.Wait(); err != nil {
		t.Errorf("the client: %v\n%s", err, out)
	}
}
