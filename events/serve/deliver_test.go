package serve

import (
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/events"
	"github.com/fairwayhq/fairway/internal/identity"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/samples"
	"github.com/fairwayhq/fairway/internal/webhook"
	"github.com/fairwayhq/fairway/store"
)

// webhookReceiver is a webhook that records what it accepts.
type webhookReceiver struct {
	*httptest.Server
	t       *testing.T
	secrets []string

	mu       sync.Mutex
	got      []string // ids of events, and types of controls
	requests int
	respond  func(id string) int // status; nil for 204
	echo     bool                // whether challenges are returned
}

func secretOf(letter string) string {
	return "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(letter, 32)))
}

func newReceiver(t *testing.T) *webhookReceiver {
	r := &webhookReceiver{t: t, secrets: []string{secretOf("a")}, echo: true}
	r.Server = httptest.NewTLSServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *webhookReceiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	id, stamp := q.Header.Get("webhook-id"), q.Header.Get("webhook-timestamp")
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests++
	for _, secret := range r.secrets {
		key, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		if want := "v1," + webhook.Sign(key, id, stamp, body); err != nil || !slices.Contains(strings.Fields(q.Header.Get("webhook-signature")), want) {
			r.t.Errorf("the signatures %q of %s lack %s, error %v", q.Header.Get("webhook-signature"), body, want, err)
		}
	}
	if kind := strictjson.Text(strictjson.MemberOf(body, "type")); kind != "" {
		valid(r.t, "control", jsontext.Value(body))
		if kind == "verification" && r.echo {
			fmt.Fprintf(w, `{"challenge":%s}`, strictjson.MemberOf(body, "challenge"))
		}
		if kind != "verification" {
			r.got = append(r.got, kind)
		}
		return
	}
	valid(r.t, "occurrence", jsontext.Value(body))
	if event := strictjson.Text(strictjson.MemberOf(body, "eventId")); id != event || !strings.HasPrefix(q.Header.Get("X-MCP-Subscription-Id"), "sub_") {
		r.t.Errorf("webhook-id %q of event %q, subscription %q", id, event, q.Header.Get("X-MCP-Subscription-Id"))
	}
	status := http.StatusNoContent
	if r.respond != nil {
		status = r.respond(id)
	}
	if w.WriteHeader(status); status < 300 {
		r.got = append(r.got, id)
	}
}

// set changes or reads the receiver while it serves requests.
func (r *webhookReceiver) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

func (r *webhookReceiver) received() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.got, " ")
}

func (r *webhookReceiver) wait(want string) {
	r.t.Helper()
	testkit.Eventually(r.t, "the receiver has "+want, func() bool { return r.received() == want })
}

// trust returns the change of options for a receiver.
func (r *webhookReceiver) trust(o *Options) {
	o.Transport = NewTransport(true, &tls.Config{RootCAs: r.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs})
}

// params are those of events/subscribe.
func (r *webhookReceiver) params(more string) []byte {
	return []byte(`{"name":"invoice.paid","delivery":{"mode":"webhook","url":"` + r.URL + `/hook?key=k","secret":"` + r.secrets[0] + `"}` + more + `}`)
}

// subscription is the result of events/subscribe.
type subscription struct {
	ID            string        `json:"id"`
	RefreshBefore time.Time     `json:"refreshBefore"`
	Cursor        events.Cursor `json:"cursor"`
	Truncated     bool          `json:"truncated"`
	Status        Status        `json:"deliveryStatus"`
}

func (r *webhookReceiver) subscribe(n *node, more string) (s subscription) {
	r.t.Helper()
	result, err := n.Subscribe(r.t.Context(), ada, r.params(more))
	if err != nil {
		r.t.Fatal(err)
	}
	if err := json.Unmarshal(valid(r.t, "subscribeResult", result), &s); err != nil {
		r.t.Fatal(err)
	}
	return s
}

// deliverer starts a node that delivers to the receiver.
func (r *webhookReceiver) deliverer(st store.Store, source *shop) *node {
	n := newNode(r.t, st, source, r.trust)
	n.pauses = []time.Duration{time.Millisecond, time.Millisecond, time.Millisecond}
	n.Start()
	r.t.Cleanup(n.Stop)
	return n
}

func TestSubscribe_delivers_events_of_the_user_until_unsubscribe(t *testing.T) {
	st, r := samples.Open(t), newReceiver(t)
	source := newShop(st)
	n := r.deliverer(st, source)
	s := r.subscribe(n, `,"arguments":{"amount":[1,2]}`)
	if left := time.Until(s.RefreshBefore); left < 59*time.Minute || left > time.Hour || !s.Status.Active {
		t.Errorf("got %+v, %s left", s, left)
	}
	source.happen(t, "e1", "ada", 1)
	source.happen(t, "e2", "bob", 1)
	source.happen(t, "e3", "ada", 3)
	source.happen(t, "e4", "ada", 2)
	r.wait("e1 e4")
	if again := r.subscribe(n, `,"arguments":{ "amount" : [1,2] },"cursor":"1.0","ttlMs":1`); again.ID != s.ID || again.Truncated || time.Until(again.RefreshBefore) < minTTL-time.Minute {
		t.Errorf("the refresh: %+v, want the id %s", again, s.ID)
	}
	all, err := n.Subscriptions(t.Context(), "")
	if err != nil || len(all) != 1 {
		t.Fatalf("subscriptions %v, error %v", all, err)
	}
	shown := *all[0]
	if text := fmt.Sprint(shown); strings.Contains(text, "key=k") || strings.Contains(text, "whsec") {
		t.Errorf("a secret is shown: %s", text)
	}
	if shown.Sealed != "" || shown.Receiver != r.URL {
		t.Errorf("got %+v", shown)
	}
	err = store.Scan(t.Context(), st, "", func(key string, record store.Record) error {
		if text := string(record.Value); strings.Contains(text, "key=k") || strings.Contains(text, strings.TrimPrefix(r.secrets[0], "whsec_")) {
			t.Errorf("a secret is in the record %s: %s", key, text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Redeliver(t.Context(), s.ID, s.Cursor); err != nil {
		t.Fatal(err)
	}
	r.wait("e1 e4 e1 e4")
	for range 2 {
		if _, err := n.Unsubscribe(t.Context(), ada, r.params(`,"arguments":{"amount":[1,2]}`)); err != nil {
			t.Fatal(err)
		}
	}
	source.happen(t, "e5", "ada", 1)
	later := r.subscribe(n, ``)
	source.happen(t, "e6", "ada", 6)
	r.wait("e1 e4 e1 e4 e6")
	if later.ID == s.ID {
		t.Error("another filter has the same id")
	}
	testkit.Eventually(t, "5 deliveries are counted", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.counts["webhook true"] == 5 && len(n.errors) == 0
	})
}

func TestSubscribe_replays_from_a_cursor_and_goes_on_after_a_restart(t *testing.T) {
	st, r := samples.Open(t), newReceiver(t)
	source := newShop(st)
	start, err := source.log.End(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	source.happen(t, "e1", "ada", 1)
	first := newNode(t, st, source, r.trust)
	first.Start()
	r.subscribe(first, `,"cursor":"`+string(start)+`"`)
	r.wait("e1")
	first.Stop()
	source.happen(t, "e2", "ada", 2)
	for range 2 { // two nodes
		r.deliverer(st, newShop(st))
	}
	r.wait("e1 e2")
	source.happen(t, "e3", "ada", 3)
	r.wait("e1 e2 e3")
	old := r.subscribe(first, `,"arguments":{"amount":9},"cursor":"1.0"`)
	r.wait("e1 e2 e3 gap")
	if !old.Truncated {
		t.Error("the gap is not reported")
	}
}

// TestDeliver_repeats_what_is_redelivered has an operator who redelivers while a request is in progress.
func TestDeliver_repeats_what_is_redelivered(t *testing.T) {
	st, r := samples.Open(t), newReceiver(t)
	source := newShop(st)
	n := r.deliverer(st, source)
	s := r.subscribe(n, ``)
	source.happen(t, "e1", "ada", 1)
	r.wait("e1")
	first := true
	respond := func(string) int {
		if first {
			if err := n.Redeliver(t.Context(), s.ID, s.Cursor); err != nil {
				t.Error(err)
			}
		}
		first = false
		return http.StatusNoContent
	}
	r.set(func() { r.respond = respond })
	source.happen(t, "e2", "ada", 2)
	r.wait("e1 e2 e1 e2")
}

func TestDeliver_tries_again_and_gives_up(t *testing.T) {
	for name, c := range map[string]struct {
		status, fails int // of the first event; how often
		got           string
		requests      int // with the verification
	}{
		"recovers":   {503, 3, "e1 e2", 6},
		"fails":      {500, 9, "e2", 6},
		"gone":       {410, 9, "e2", 3},
		"too large":  {413, 9, "e2", 3},
		"redirected": {302, 9, "e2", 6},
	} {
		t.Run(name, func(t *testing.T) {
			st, r := samples.Open(t), newReceiver(t)
			fails := c.fails
			r.respond = func(id string) int {
				if id == "e1" && fails > 0 {
					fails--
					return c.status
				}
				return http.StatusOK
			}
			source := newShop(st)
			n := r.deliverer(st, source)
			r.subscribe(n, ``)
			source.happen(t, "e1", "ada", 1)
			source.happen(t, "e2", "ada", 2)
			r.wait(c.got)
			r.set(func() {
				if r.requests != c.requests {
					t.Errorf("%d requests, want %d", r.requests, c.requests)
				}
			})
		})
	}
}

func TestDeliver_signs_with_both_secrets_after_a_change(t *testing.T) {
	st, r := samples.Open(t), newReceiver(t)
	source := newShop(st)
	n := r.deliverer(st, source)
	r.subscribe(n, ``)
	r.set(func() { r.secrets = []string{secretOf("b"), secretOf("a")} })
	r.subscribe(n, ``)
	r.subscribe(n, ``)
	source.happen(t, "e1", "ada", 1)
	r.wait("e1")
}

func TestDeliver_ends_with_the_type(t *testing.T) {
	st, r := samples.Open(t), newReceiver(t)
	source := newShop(st)
	n := r.deliverer(st, source)
	r.subscribe(n, ``)
	source.types.Store(&[]events.Type{{Name: "other"}})
	source.happen(t, "e1", "ada", 1)
	r.wait("terminated")
	testkit.Eventually(t, "the subscription is gone", func() bool {
		all, err := n.Subscriptions(t.Context(), "")
		return err == nil && len(all) == 0
	})
}

func TestErase_deletes_the_subscriptions_of_a_user(t *testing.T) {
	st, r := samples.Open(t), newReceiver(t)
	n := newNode(t, st, newShop(st), r.trust)
	s := r.subscribe(n, ``)
	if erased, err := n.Erase(t.Context(), st, "bob"); erased != 0 || err != nil {
		t.Errorf("another user: %d, error %v", erased, err)
	}
	exported, err := n.Export(t.Context(), st, "ada")
	if all, ok := exported.([]*Subscription); !ok || len(all) != 1 || all[0].ID != s.ID {
		t.Errorf("exported %v, error %v", exported, err)
	}
	if erased, err := n.Erase(t.Context(), st, "ada"); erased != 1 || err != nil {
		t.Errorf("%d, error %v", erased, err)
	}
	if left, err := n.Subscriptions(t.Context(), ""); len(left) != 0 || err != nil {
		t.Errorf("left %v, error %v", left, err)
	}
}

func TestCount_suspends_a_receiver_that_accepts_nothing_for_an_hour(t *testing.T) {
	s := Subscription{Status: Status{Active: true}}
	s.count("http_5xx")
	s.Status.FailedSince = s.Status.FailedSince.Add(-59 * time.Minute)
	if s.count("timeout"); !s.Status.Active || s.Status.LastError != "timeout" {
		t.Errorf("after 59 minutes: %+v", s.Status)
	}
	s.Status.FailedSince = s.Status.FailedSince.Add(-time.Minute)
	if s.count("http_5xx"); s.Status.Active {
		t.Errorf("after an hour: %+v", s.Status)
	}
	if s.count(""); s.Status.LastError != "" || !s.Status.FailedSince.IsZero() || s.Status.LastDelivery.IsZero() {
		t.Errorf("after a success: %+v", s.Status)
	}
}

func TestSubscribe_ends_a_suspension(t *testing.T) {
	st, r := samples.Open(t), newReceiver(t)
	n := newNode(t, st, newShop(st), r.trust)
	id := r.subscribe(n, ``).ID
	suspend := func(sub *Subscription) error {
		sub.Status = Status{LastError: "timeout", FailedSince: time.Now().Add(-suspendAfter)}
		return nil
	}
	if _, err := n.records(st).update(t.Context(), id, suspend); err != nil {
		t.Fatal(err)
	}
	if s := r.subscribe(n, ``).Status; !s.Active || s.LastError != "" || !s.FailedSince.IsZero() {
		t.Errorf("the first failure suspends it again: %+v", s)
	}
}

func TestSubscribe_refuses_receivers(t *testing.T) {
	redirecting := httptest.NewTLSServer(http.RedirectHandler("https://127.0.0.1/", http.StatusFound))
	t.Cleanup(redirecting.Close)
	for name, c := range map[string]struct {
		url     string
		private bool
		code    int
		reason  string
	}{
		"loopback":       {"https://127.0.0.1/", false, -32602, ""},
		"IPv6 loopback":  {"https://[::1]/", false, -32602, ""},
		"private":        {"https://10.1.2.3/", false, -32602, ""},
		"link-local":     {"https://169.254.169.254/latest", false, -32602, ""},
		"mapped":         {"https://[::ffff:10.0.0.1]/", false, -32602, ""},
		"unspecified":    {"https://0.0.0.0/", false, -32602, ""},
		"private by DNS": {"https://localhost/", false, -32602, ""},
		"redirect":       {redirecting.URL, true, -32015, "http_4xx"},
		"wrong answer":   {"", true, -32015, "challenge_failed"},
		"untrusted":      {redirecting.URL + "/untrusted", true, -32015, "tls_error"},
	} {
		t.Run(name, func(t *testing.T) {
			st, r := samples.Open(t), newReceiver(t)
			r.echo = false
			n := newNode(t, st, newShop(st), func(o *Options) {
				if r.trust(o); !c.private || strings.HasSuffix(c.url, "untrusted") {
					o.Transport = NewTransport(c.private, nil)
				}
			})
			if c.url == "" {
				c.url = r.URL
			}
			_, err := n.Subscribe(t.Context(), ada, []byte(`{"name":"invoice.paid","delivery":{"mode":"webhook","url":"`+c.url+`","secret":"`+secretOf("a")+`"}}`))
			refused, ok := err.(*Error) //nolint:errorlint // it is not wrapped
			if !ok || refused.Code != c.code || c.reason != "" && refused.Data["reason"] != c.reason {
				t.Errorf("got %v, want code %d and reason %q", err, c.code, c.reason)
			}
			if all, err := n.Subscriptions(t.Context(), ""); err != nil || len(all) != 0 {
				t.Errorf("it has left %v, error %v", all, err)
			}
		})
	}
}

func TestSubscribe_has_limits(t *testing.T) {
	st, r := samples.Open(t), newReceiver(t)
	n := newNode(t, st, newShop(st), r.trust)
	limit := func(amount int, user string) any {
		n.minute = 0
		_, err := n.Subscribe(t.Context(), map[string]*identity.User{"ada": ada, "bob": bob}[user], r.params(fmt.Sprintf(`,"arguments":{"amount":%d}`, amount)))
		if refused, ok := err.(*Error); ok { //nolint:errorlint // it is not wrapped
			return refused.Data["limit"]
		}
		return err
	}
	for i := range maxPerUser {
		if got := limit(i, "ada"); got != nil {
			t.Fatalf("subscription %d: %v", i, got)
		}
	}
	if got := limit(maxPerUser, "ada"); got != "subscriptions" {
		t.Errorf("one more: %v", got)
	}
	if got := limit(0, "ada"); got != nil {
		t.Errorf("a refresh: %v", got)
	}
	if _, err := n.Unsubscribe(t.Context(), ada, r.params(`,"arguments":{"amount":0}`)); err != nil {
		t.Fatal(err)
	}
	var added atomic.Int64
	var all sync.WaitGroup
	for i := range 5 { // at once, on nodes of their own
		other := newNode(t, st, n.Source, r.trust)
		all.Go(func() {
			if _, err := other.Subscribe(t.Context(), ada, r.params(fmt.Sprintf(`,"arguments":{"amount":%d}`, 100+i))); err == nil {
				added.Add(1)
			}
		})
	}
	if all.Wait(); added.Load() != 1 {
		t.Errorf("%d of 5 have got the last place", added.Load())
	}
	n.minute = time.Now().Unix() / 60
	n.verified = make(map[string]int)
	r.set(func() { r.echo = false })
	var err error
	for i := range maxVerifications + 1 {
		_, err = n.Subscribe(t.Context(), bob, r.params(fmt.Sprintf(`,"arguments":{"amount":%d}`, i)))
	}
	if refused, ok := err.(*Error); !ok || refused.Data["limit"] != "verifications" { //nolint:errorlint // it is not wrapped
		t.Errorf("too many receivers that do not respond: %v", err)
	}
}

func TestSubscriptions_are_of_one_endpoint(t *testing.T) {
	st, r := samples.Open(t), newReceiver(t)
	source := newShop(st)
	above := newNode(t, st, source, nil)
	below := newNode(t, st, source, func(o *Options) {
		r.trust(o)
		o.Name = above.Name + "/below"
	})
	r.subscribe(below, ``)
	for n, want := range map[*node]int{above: 0, below: 1} {
		if found, err := n.Subscriptions(t.Context(), ada.ID); err != nil || len(found) != want {
			t.Errorf("endpoint %s has %d subscriptions, want %d; error %v", n.Name, len(found), want, err)
		}
	}
}

func TestRecent_has_the_newest_events_of_the_user(t *testing.T) {
	st := samples.Open(t)
	source := newShop(st)
	n := newNode(t, st, source, nil)
	for i := range maxRecent + 105 {
		source.happen(t, fmt.Sprint("e", i), map[bool]string{true: "ada", false: "bob"}[i != 120], i)
	}
	got, err := n.Recent(t.Context(), ada, "invoice.paid")
	if err != nil {
		t.Fatal(err)
	}
	var b batch
	if err := json.Unmarshal(got, &b); err != nil || len(b.Events) != maxRecent || b.Events[0].ID != "e104" {
		t.Errorf("%d events, error %v: %s", len(b.Events), err, got)
	}
	if got, err := n.Recent(t.Context(), &identity.User{}, "invoice.paid"); err == nil {
		t.Errorf("without a user: %s", got)
	}
}

// TestStored_subscriptions_are_read reads the kept sample.
func TestStored_subscriptions_are_read(t *testing.T) {
	samples.Store(t, "event_subscriptions",
		func(st store.Store) error {
			r := newReceiver(t)
			r.subscribe(newNode(t, st, newShop(st), r.trust), `,"ttlMs":null`)
			return nil
		},
		func(st store.Store) (any, error) {
			n := newNode(t, st, newShop(st), nil)
			keys, err := st.Keys(t.Context(), n.records(st).key(""), "", 10)
			var read []any
			for _, key := range keys {
				sub, getErr := n.records(st).get(t.Context(), strings.TrimPrefix(key, n.records(st).key("")))
				if getErr != nil {
					return nil, getErr
				}
				to, unsealErr := n.unseal(sub)
				if unsealErr != nil {
					return nil, unsealErr
				}
				read = append(read, map[string]any{"subscription": sub, "target": to})
			}
			return read, err
		})
}
