package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// orders is an API that counts the orders it is given, by their name.
type orders struct {
	*httptest.Server

	mu     sync.Mutex
	hold   chan struct{} // an order is answered when this is closed
	begun  int
	counts map[string]int
}

func startOrders(t *testing.T) *orders {
	t.Helper()
	o := &orders{hold: make(chan struct{}), counts: make(map[string]int)}
	o.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var order struct{ Name string }
		if err := json.NewDecoder(r.Body).Decode(&order); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		o.mu.Lock()
		o.begun++
		o.counts[order.Name]++
		n, hold := o.counts[order.Name], o.hold
		o.mu.Unlock()
		select {
		case <-hold:
		case <-r.Context().Done():
		case <-time.After(waitTimeout):
		}
		writeJSON(w, fmt.Sprintf(`{"name":%q,"number":%d}`, order.Name, n))
	}))
	t.Cleanup(o.Close)
	return o
}

// total returns how many orders have come, and of how many names.
func (o *orders) total() (begun, names int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.begun, len(o.counts)
}

// twice returns the names that were ordered more than once.
func (o *orders) twice() (names []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for name, n := range o.counts {
		if n > 1 {
			names = append(names, name)
		}
	}
	return names
}

const ordersDocument = `openapi: 3.1.0
info: {title: Orders, version: 1.0.0}
paths:
  /orders:
    post:
      operationId: order
      requestBody:
        required: true
        content: {application/json: {schema: {type: object, required: [name], properties: {name: {type: string}}}}}
      responses: {"200": {description: The order., content: {application/json: {schema: {type: object}}}}}
`

// ordersSite is the Caddyfile of a node before the API, with its store.
func ordersSite(address, store, idempotency string, api *orders) string {
	return fmt.Sprintf(`{
	admin off
	agents {
		toolset orders orders.yaml
		store %s
	}
}
http://%s {
	otc /otc orders {
		idempotency {
			%s
		}
	}
	reverse_proxy %s
}
`, store, address, idempotency, strings.TrimPrefix(api.URL, "http://"))
}

// A brittleNode is a Caddy that a test may kill.
type brittleNode struct {
	url   string
	log   *output
	cmd   *exec.Cmd
	ended chan struct{}
}

// startBrittle runs Caddy in dir, where orders.yaml is put.
func startBrittle(t *testing.T, dir, address, caddyfile string, environment ...string) *brittleNode {
	t.Helper()
	writeFile(t, filepath.Join(dir, "orders.yaml"), ordersDocument)
	config := filepath.Join(dir, "Caddyfile")
	writeFile(t, config, caddyfile)
	n := &brittleNode{url: "http://" + address, log: &output{}, ended: make(chan struct{})}
	n.cmd = exec.Command(caddy, "run", "--config", config, "--adapter", "caddyfile")
	n.cmd.Dir = dir
	n.cmd.Env = append(os.Environ(), "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir, "GORACE=halt_on_error=1")
	n.cmd.Env = append(n.cmd.Env, environment...)
	n.cmd.Stdout, n.cmd.Stderr = n.log, n.log
	if err := n.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = n.cmd.Wait()
		close(n.ended)
	}()
	t.Cleanup(func() {
		n.kill()
		if text := n.log.String(); strings.Contains(text, "DATA RACE") || strings.Contains(text, "panic") {
			t.Errorf("caddy's log:\n%s", text)
		} else if t.Failed() {
			t.Logf("caddy's log:\n%.20000s", text)
		}
	})
	waitFor(t, startTimeout, "the node to answer", func() bool {
		response, err := http.Get(n.url + "/otc/health")
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	return n
}

// kill ends the process as a crash does.
func (n *brittleNode) kill() {
	_ = n.cmd.Process.Signal(syscall.SIGKILL)
	<-n.ended
}

// An orderAnswer is what a client gets for an order.
type orderAnswer struct {
	status  int
	body    string
	success bool
	number  int // of the orders of that name
}

// order calls the tool with a call_id, which is the order's name too.
func (n *brittleNode) order(ctx context.Context, id string) (orderAnswer, error) {
	body := fmt.Sprintf(`{"request":{"call_id":%q,"tool_id":"Orders.order","input":{"name":%q}}}`, id, id)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, n.url+"/otc/call", strings.NewReader(body))
	if err != nil {
		return orderAnswer{}, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := stormClient.Do(request)
	if err != nil {
		return orderAnswer{}, err
	}
	defer response.Body.Close()
	var content bytes.Buffer
	if _, err := io.Copy(&content, response.Body); err != nil {
		return orderAnswer{}, err
	}
	var parsed struct {
		Success bool `json:"success"`
		Output  struct {
			Value struct {
				Number int `json:"number"`
			} `json:"value"`
		} `json:"output"`
	}
	if err := json.Unmarshal(content.Bytes(), &parsed); err != nil {
		return orderAnswer{}, fmt.Errorf("%d %s: %w", response.StatusCode, content.Bytes(), err)
	}
	return orderAnswer{response.StatusCode, content.String(), parsed.Success, parsed.Output.Value.Number}, nil
}

// stormClient keeps no connection, as a killed node would break those.
var stormClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
