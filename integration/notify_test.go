package integration

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/fairwayhq/fairway/store/storetest"
)

// webhook is the endpoint that nodes notify about reviews. It checks each notice.
type webhook struct {
	t    *testing.T
	url  string
	hold chan struct{} // until it is closed, notices are not accepted

	mu       sync.Mutex
	begun    map[string]int // requests, by the id of the review
	accepted map[string]int
	broken   map[string]int
	sender   map[string]string // address of the node that has sent the notice last
}

const webhookSecret = "0123456789abcdef-webhook"

func newWebhook(t *testing.T) *webhook {
	h := &webhook{t: t, hold: make(chan struct{}), begun: make(map[string]int), accepted: make(map[string]int), broken: make(map[string]int), sender: make(map[string]string)}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	h.url = server.URL
	return h
}

func (h *webhook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	id := r.Header.Get("Webhook-Id")
	mac := hmac.New(sha256.New, []byte(webhookSecret))
	mac.Write([]byte(id + "." + r.Header.Get("Webhook-Timestamp") + "." + string(body)))
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); err != nil || r.Header.Get("Webhook-Signature") != want {
		h.t.Errorf("the signature is %q, want %q; error %v", r.Header.Get("Webhook-Signature"), want, err)
	}
	var notice struct{ ID, Reviewer, Agent, Link string }
	if err := json.Unmarshal(body, &notice); err != nil || id == "" || notice.ID != id {
		h.t.Errorf("the notice %q is %s; error %v", id, body, err)
	}
	if notice.Reviewer != "boss" || notice.Agent != "clerk" {
		h.t.Errorf("the notice %q is to %q from the agent %q, want boss and clerk", id, notice.Reviewer, notice.Agent)
	}
	sender, ok := strings.CutSuffix(notice.Link, "/reviews/"+id)
	if !ok {
		h.t.Errorf("the link is %s", notice.Link)
	}
	h.mu.Lock()
	h.begun[id]++
	h.sender[id] = sender
	h.mu.Unlock()
	select {
	case <-h.hold:
		h.mu.Lock()
		h.accepted[id]++
		h.mu.Unlock()
	case <-r.Context().Done():
		h.mu.Lock()
		h.broken[id]++
		h.mu.Unlock()
	}
}

// brokenOff returns how often the sender of a notice has gone before its answer.
func (h *webhook) brokenOff(id string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.broken[id]
}

// counts returns how often notices about a review were begun and accepted.
func (h *webhook) counts(id string) (begun, accepted int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.begun[id], h.accepted[id]
}

// notifyingSite returns a site whose nodes notify h.
func notifyingSite(t *testing.T, h *webhook) *killSite {
	s := newKillSite(t)
	s.more = fmt.Sprintf("notify webhook %s {\n\tsecret %s\n\tlink http://ADDRESS/reviews/\n\ttimeout 5s\n}", h.url, webhookSecret)
	return s
}

// review begins a run that needs a review, and returns the id of the review.
func (n *brittleNode) review(t *testing.T, order string) string {
	t.Helper()
	v := n.reaches(t, n.begin(t, "clerk", order), "awaiting-verification")
	if len(v.Reviews) != 1 {
		t.Fatalf("state %+v", v)
	}
	return strings.TrimPrefix(v.Reviews[0].Location, "/reviews/")
}

// TestNotify_two_nodes checks that two nodes send each notice once.
func TestNotify_two_nodes(t *testing.T) {
	t.Parallel()
	storetest.OnShared(t, notifyOnce)
}

func notifyOnce(t *testing.T, server *storetest.SharedServer) {
	t.Parallel()
	h := newWebhook(t)
	close(h.hold)
	s := notifyingSite(t, h)
	nodes := []*brittleNode{
		s.start(t.TempDir(), freeAddress(t), server.Option), s.start(t.TempDir(), freeAddress(t), server.Option),
	}
	const each = 10
	var ids []string
	for i := range each {
		for j, n := range nodes {
			ids = append(ids, n.review(t, fmt.Sprintf("order-%d-%d", i, j)))
		}
	}
	for _, id := range ids {
		waitFor(t, waitTimeout, "the notice", func() bool { _, accepted := h.counts(id); return accepted > 0 })
	}
	// When the next notice of each node is there, both have looked at all reviews again.
	for _, n := range nodes {
		last := n.review(t, "last")
		waitFor(t, waitTimeout, "the last notice", func() bool { _, accepted := h.counts(last); return accepted > 0 })
	}
	for _, id := range ids {
		if begun, accepted := h.counts(id); begun != 1 || accepted != 1 {
			t.Errorf("the notice about %s was sent %d times and accepted %d times", id, begun, accepted)
		}
	}
}

// TestNotify_killed kills a node while it sends a notice. Another node, or the same one after it was started
// again, sends the notice with the same id.
//
//nolint:tparallel // the subtests wait for leases that end at the same time
func TestNotify_killed(t *testing.T) {
	t.Parallel()
	broken := map[string]*brokenNotice{"bolt": breakNotice(t, "bolt", 1)}
	for name, start := range storetest.Shared() { // the leases of all nodes that were killed end at the same time
		broken[name] = breakNotice(t, start(t).Option, 2)
	}
	for name, n := range broken {
		t.Run(name, n.isSentAgain)
	}
}

// brokenNotice is a notice whose sender was killed before the webhook accepted it.
type brokenNotice struct {
	*webhook
	id string // of the review
}

// breakNotice kills one of the nodes while it sends a notice. If it is the only one, it is started again.
func breakNotice(t *testing.T, store string, count int) *brokenNotice {
	t.Helper()
	h := newWebhook(t)
	s := notifyingSite(t, h)
	dir, address := t.TempDir(), freeAddress(t)
	nodes := []*brittleNode{s.start(dir, address, store)}
	for len(nodes) < count {
		nodes = append(nodes, s.start(t.TempDir(), freeAddress(t), store))
	}
	id := nodes[0].review(t, "order")
	waitFor(t, waitTimeout, "the notice", func() bool { begun, _ := h.counts(id); return begun == 1 })
	for _, n := range nodes {
		if h.sender[id] == n.url {
			n.kill()
		}
	}
	waitFor(t, waitTimeout, "the end of the connection", func() bool { return h.brokenOff(id) == 1 })
	close(h.hold)
	if count == 1 {
		s.start(dir, address, store)
	}
	return &brokenNotice{h, id}
}

func (b *brokenNotice) isSentAgain(t *testing.T) {
	waitFor(t, 3*waitTimeout, "the notice of the other node", func() bool { _, accepted := b.counts(b.id); return accepted > 0 })
	if begun, accepted := b.counts(b.id); begun != 2 || accepted != 1 {
		t.Errorf("the notice was sent %d times and accepted %d times", begun, accepted)
	}
}
