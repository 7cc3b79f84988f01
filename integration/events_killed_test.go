package integration

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/store/storetest"
)

// eventUsers are the users who get events, each those with its name.
var eventUsers = []string{"ada", "bob"}

// storedEvent is an event as clients get it.
type storedEvent struct {
	ID     string `json:"eventId"`
	Cursor string `json:"cursor"`
	Data   struct {
		User string `json:"user"`
	} `json:"data"`
}

// eventStorm sends events to nodes that are killed, and receives them in each way.
type eventStorm struct {
	t       *testing.T
	ctx     context.Context
	urls    []string // of the nodes
	permits chan struct{}
	sent    atomic.Int64
	hook    *httptest.Server

	mu       sync.Mutex
	accepted map[string][]string // ids of events that got a 2xx, by user
	got      map[string][]string // ids of events, by user and way
}

// receive records an event that a user has received.
func (s *eventStorm) receive(user, way string, e *storedEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Data.User != user {
		s.t.Errorf("%s gets the event %s of %s over %s", user, e.ID, e.Data.User, way)
	}
	s.got[user+" "+way] = append(s.got[user+" "+way], e.ID)
}

// hasAll reports whether a user has received all of its events.
func (s *eventStorm) hasAll(user, way string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	got := make(map[string]bool)
	for _, id := range s.got[user+" "+way] {
		got[id] = true
	}
	return !slices.ContainsFunc(s.accepted[user], func(id string) bool { return !got[id] })
}

// post sends an event as the API does: again and again to any node, until one has accepted it.
func (s *eventStorm) post(id, user string) {
	for try := 0; s.ctx.Err() == nil; try++ {
		n := &brittleNode{url: s.urls[(len(id)+try)%len(s.urls)]}
		if status, err := n.postStripe(s.ctx, id, `"user":"`+user+`"`); err == nil && status == http.StatusOK {
			s.sent.Add(1)
			s.mu.Lock()
			s.accepted[user] = append(s.accepted[user], id)
			s.mu.Unlock()
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// call calls a method of MCP as a user. The caller closes the body.
func (s *eventStorm) call(node int, user, method, params string) (io.ReadCloser, error) {
	body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{}},"name":"invoice.paid",` + params + `}}`
	r, err := http.NewRequestWithContext(s.ctx, http.MethodPost, s.urls[node%len(s.urls)]+"/mcp", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header = http.Header{
		"Content-Type": {"application/json"}, "Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {method}, "X-Api-Key": {hookSecret + user},
		"Accept": {"application/json, text/event-stream"},
	}
	response, err := stormClient.Do(r)
	if err != nil {
		return nil, err
	}
	return response.Body, nil
}

// poll returns the events after a cursor, and the next cursor. The cursor stays if the node is dead.
func (s *eventStorm) poll(node int, user, cursor string, wait int) (found []storedEvent, next string) {
	body, err := s.call(node, user, "events/poll", fmt.Sprintf(`"cursor":%q,"timeoutMs":%d`, cursor, wait))
	if err != nil {
		return nil, cursor
	}
	defer body.Close()
	var message struct {
		Result struct {
			Events    []storedEvent `json:"events"`
			Cursor    string        `json:"cursor"`
			Truncated bool          `json:"truncated"`
		} `json:"result"`
	}
	if err := json.NewDecoder(body).Decode(&message); err != nil || message.Result.Cursor == "" {
		return nil, cursor // the node died, or does not reach the store yet
	}
	if message.Result.Truncated {
		s.t.Errorf("a poll after %s is truncated", cursor)
	}
	return message.Result.Events, message.Result.Cursor
}

// follow receives the events of a user with polls, or from streams, until the test ends.
func (s *eventStorm) follow(user, way, cursor string) {
	for node := 0; s.ctx.Err() == nil; node++ {
		if way == "poll" {
			var found []storedEvent
			found, cursor = s.poll(node, user, cursor, 500)
			for i := range found {
				s.receive(user, way, &found[i])
			}
		} else if body, err := s.call(node, user, "events/stream", fmt.Sprintf(`"cursor":%q`, cursor)); err == nil {
			for lines := bufio.NewScanner(body); lines.Scan(); {
				data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
				var message struct {
					Params storedEvent `json:"params"`
				}
				if !ok || json.Unmarshal(data, &message) != nil || message.Params.ID == "" {
					continue
				}
				s.receive(user, way, &message.Params)
				cursor = message.Params.Cursor
			}
			body.Close()
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// ServeHTTP is the webhook of the user whose name is the path.
func (s *eventStorm) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var message struct {
		storedEvent
		Challenge string `json:"challenge,omitempty"`
	}
	if err != nil || json.Unmarshal(body, &message) != nil {
		return // the node is dead
	}
	if message.ID != "" {
		s.receive(strings.TrimPrefix(r.URL.Path, "/"), "webhook", &message.storedEvent)
	}
	_ = json.NewEncoder(w).Encode(map[string]string{"challenge": message.Challenge})
}

// order returns the events of a user in the log.
func (s *eventStorm) order(user, cursor string) (ids []string) {
	for {
		found, next := s.poll(0, user, cursor, 0)
		for i := range found {
			ids = append(ids, found[i].ID)
		}
		if next == cursor {
			return ids
		}
		cursor = next
	}
}

// TestEvents_storm_with_nodes_killed kills nodes on Redis again and again, while they receive, store and deliver events. Each event that got a 2xx reaches
// its user in each way, in one order for polls and streams, and no other user.
func TestEvents_storm_with_nodes_killed(t *testing.T) {
	t.Parallel()
	for name, nodes := range map[string]int{"one node": 1, "two nodes": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stormOfEvents(t, nodes)
		})
	}
}

func stormOfEvents(t *testing.T, count int) {
	t.Helper()
	const kills, senders, each = 6, 4, 40 // events before and after each kill
	redis, _ := storetest.Redis(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*waitTimeout)
	defer cancel()
	s := &eventStorm{t: t, ctx: ctx, permits: make(chan struct{}, 2*each*kills), accepted: make(map[string][]string), got: make(map[string][]string)}
	s.hook = httptest.NewTLSServer(s)
	t.Cleanup(s.hook.Close)
	dir, nodes := t.TempDir(), make([]*brittleNode, count)
	writeFile(t, filepath.Join(dir, "cert.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.hook.Certificate().Raw})))
	start := func(i int) {
		address := strings.TrimPrefix(s.urls[i], "http://")
		own := filepath.Join(dir, fmt.Sprint(i)) // of this node
		if err := os.MkdirAll(own, 0o700); err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(own, "hooks.json"), hooksDocument)
		site := strings.NewReplacer("verify stripe "+hookSecret, "verify stripe "+hookSecret+"\nfor `event.user == user.id`", "respond API",
			"agent_auth /mcp* {\napi_key {\nkey ada "+hookSecret+"ada\nkey bob "+hookSecret+"bob\n}\n}\nmcp /mcp stripe {\nsecret "+hookSecret+
				"\nevents {\nallow_private_receivers\n}\n}\nrespond API", "store bolt store.db", "store redis "+redis).Replace(hooksSite(address, "store.db", "stripe"))
		nodes[i] = startBrittle(t, own, address, site, "SSL_CERT_FILE="+filepath.Join(dir, "cert.pem"))
	}
	for range count {
		s.urls = append(s.urls, "http://"+freeAddress(t))
	}
	for i := range count {
		start(i)
	}
	_, first := s.poll(0, "ada", "", 0)
	var working sync.WaitGroup
	for _, user := range eventUsers {
		body, err := s.call(0, user, "events/subscribe", `"delivery":{"mode":"webhook","url":"`+s.hook.URL+"/"+user+`","secret":"whsec_`+strings.Repeat("A", 32)+`"}`)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(body); err != nil || !strings.Contains(string(text), `"active":true`) {
			t.Fatalf("subscribe: %s, error %v", text, err)
		}
		body.Close()
		for _, way := range []string{"poll", "stream"} {
			working.Go(func() { s.follow(user, way, first) })
		}
	}
	var sending sync.WaitGroup
	for sender := range senders {
		sending.Go(func() {
			for i := 0; ; i++ {
				if _, ok := <-s.permits; !ok {
					return
				}
				s.post(fmt.Sprintf("%d-%03d", sender, i), eventUsers[i%len(eventUsers)])
			}
		})
	}
	for kill := range kills {
		for range 2 * each {
			s.permits <- struct{}{}
		}
		waitFor(t, waitTimeout, "the webhooks", func() bool { return s.sent.Load() >= int64(each*(2*kill+1)) })
		nodes[kill%count].kill()
		start(kill % count)
	}
	close(s.permits)
	sending.Wait()
	for _, user := range eventUsers {
		for _, way := range []string{"poll", "stream", "webhook"} {
			waitFor(t, waitTimeout, "the events of "+user+" over "+way, func() bool { return s.hasAll(user, way) })
		}
	}
	for _, user := range eventUsers {
		want := s.order(user, first)
		for _, way := range []string{"poll", "stream"} {
			waitFor(t, waitTimeout, "all that the log has of "+user+" over "+way, func() bool {
				s.mu.Lock()
				defer s.mu.Unlock()
				return len(s.got[user+" "+way]) >= len(want)
			})
			s.mu.Lock()
			if got := s.got[user+" "+way]; !slices.Equal(got, want) {
				t.Errorf("%s gets over %s %q, want the order of the log: %q", user, way, got, want)
			}
			s.mu.Unlock()
		}
		last := make(map[string]string) // the latest new event of a sender
		seen := make(map[string]bool)
		for _, id := range want {
			sender, _, _ := strings.Cut(id, "-")
			if !seen[id] && id < last[sender] {
				t.Errorf("%s is after %s, which its sender has sent later", id, last[sender])
			}
			seen[id], last[sender] = true, max(last[sender], id)
		}
	}
	cancel()
	working.Wait()
}
