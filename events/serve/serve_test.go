package serve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/fairwayhq/fairway/events"
	"github.com/fairwayhq/fairway/internal/identity"
	"github.com/fairwayhq/fairway/internal/seal"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/samples"
	"github.com/fairwayhq/fairway/store"
)

var ada, bob = &identity.User{ID: "ada"}, &identity.User{ID: "bob"}

// shop is a source whose events belong to the user in their member owner.
type shop struct {
	log   *events.Log
	types atomic.Pointer[[]events.Type]
}

const invoice = `{"type":"object","properties":{"id":{"type":"string"},"owner":{"type":"string"},"amount":{"type":"integer"},"customer":{"type":"object","properties":{"id":{"type":"string"}}}}}`

func newShop(st store.Store) *shop {
	s := &shop{log: events.NewLog(events.Options{Source: "shop", Open: func(context.Context) (store.Store, error) { return st, nil }})}
	s.types.Store(&[]events.Type{
		{Name: "invoice.paid", Description: "A customer has paid.", Payload: jsontext.Value(invoice)},
		{Name: "invoice.sent"},
	})
	return s
}

func (s *shop) Types() []events.Type { return *s.types.Load() }
func (s *shop) Log() *events.Log     { return s.log }

func (s *shop) Visible(_ context.Context, e *events.Event, user *identity.User) bool {
	return strictjson.Text(strictjson.MemberOf(e.Body, "owner")) == user.ID
}

func (s *shop) Data(_ context.Context, e *events.Event, _ *identity.User) (jsontext.Value, bool) {
	return e.Body, strictjson.MemberOf(e.Body, "secret") == nil
}

// happen appends an event of a user.
func (s *shop) happen(t *testing.T, id, owner string, amount int) {
	t.Helper()
	body := fmt.Sprintf(`{"id":"%s","owner":"%s","amount":%d,"customer":{"id":"c%d"}}`, id, owner, amount, amount)
	if _, err := s.log.Append(t.Context(), &events.Event{ID: id, Name: "invoice.paid", Received: time.Now(), Body: jsontext.Value(body)}); err != nil {
		t.Fatal(err)
	}
}

// node is a Server with what it has reported.
type node struct {
	*Server
	mu     sync.Mutex
	counts map[string]int
	errors []string
	fail   error // of Delivered
}

func newNode(t *testing.T, st store.Store, source Source, change func(*Options)) *node {
	n := &node{counts: make(map[string]int)}
	o := Options{
		Source: source, Name: "shop", Open: func(context.Context) (store.Store, error) { return st, nil },
		Sealer: seal.Derive([]string{"secret"}, "test"), Transport: NewTransport(true, nil),
		Delivered: func(_ context.Context, d *Delivery) error {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.counts[fmt.Sprint(d.Mode, " ", !d.Failed)] += len(d.IDs)
			return n.fail
		},
		Failed: func(err error) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.errors = append(n.errors, err.Error())
		},
	}
	if change != nil {
		change(&o)
	}
	n.Server = New(o)
	return n
}

// valid holds a value to a definition of the derived schema.
func valid(t *testing.T, definition string, value any) []byte {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	file, ok := testkit.FindDocument(t, "schemas/mcp/mcp-events.derived.schema.json")
	if !ok {
		t.Log("not held to the schema, which is not here: the rest of the test counts")
		return data
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	schema, err := compiler.Compile(file + "#/$defs/" + definition)
	if err != nil {
		t.Fatal(err)
	}
	instance, err := jsonschema.UnmarshalJSON(strings.NewReader(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(instance); err != nil {
		t.Errorf("%s: %v\n%s", definition, err, data)
	}
	return data
}

// poll polls and returns the ids of the events, and the result.
func (n *node) poll(t *testing.T, user *identity.User, params string) (ids string, b batch) {
	t.Helper()
	result, err := n.Poll(t.Context(), user, []byte(params))
	if err != nil {
		t.Fatal(err)
	}
	valid(t, "pollResult", result)
	b = result.(batch)
	for _, o := range b.Events {
		ids += o.ID + " "
	}
	return strings.TrimSpace(ids), b
}

func TestList_has_types_with_their_filters(t *testing.T) {
	n := newNode(t, samples.Open(t), newShop(samples.Open(t)), nil)
	result, err := n.List(t.Context(), ada, []byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	got := string(valid(t, "listResult", result))
	for _, want := range []string{`"name":"invoice.paid"`, `"delivery":["poll","push","webhook"]`, `"customer.id":{"anyOf"`, `"additionalProperties":false`, `"name":"invoice.sent"`} {
		if !strings.Contains(got, want) {
			t.Errorf("the list has no %s: %s", want, got)
		}
	}
	many := make([]events.Type, pageSize+1)
	for i := range many {
		many[i].Name = fmt.Sprint("type", i)
	}
	source := n.Source.(*shop)
	source.types.Store(&many)
	n.Sealer = nil
	result, _ = n.List(t.Context(), ada, []byte(`{}`))
	if got := string(valid(t, "listResult", result)); !strings.Contains(got, `"nextCursor":"100"`) || strings.Contains(got, "webhook") {
		t.Errorf("the first page without webhooks: %s", got)
	}
	result, _ = n.List(t.Context(), ada, []byte(`{"cursor":"100"}`))
	if got := string(valid(t, "listResult", result)); !strings.Contains(got, "type100") || strings.Contains(got, "nextCursor") {
		t.Errorf("the last page: %s", got)
	}
}

func TestPoll_gives_each_user_its_events_in_order(t *testing.T) {
	st := samples.Open(t)
	source := newShop(st)
	n := newNode(t, st, source, nil)
	_, start := n.poll(t, ada, `{"name":"invoice.paid"}`)
	for i, owner := range []string{"ada", "bob", "ada", "ada"} {
		source.happen(t, fmt.Sprint("e", i), owner, i)
	}
	from := `{"name":"invoice.paid","cursor":"` + string(start.Cursor) + `"`
	again := newNode(t, st, newShop(st), nil) // after a restart, or on another node
	ids, b := again.poll(t, ada, from+`,"maxEvents":2}`)
	if ids != "e0 e2" || !b.HasMore || b.Truncated {
		t.Errorf("got %s, %+v", ids, b)
	}
	if ids, b = again.poll(t, ada, `{"name":"invoice.paid","cursor":"`+string(b.Cursor)+`"}`); ids != "e3" || b.HasMore {
		t.Errorf("then %s, %+v", ids, b)
	}
	if ids, last := again.poll(t, bob, from+`}`); ids != "e1" || last.Cursor != b.Cursor {
		t.Errorf("another user gets %s up to %s, want e1 up to %s", ids, last.Cursor, b.Cursor)
	}
	if ids, _ := again.poll(t, ada, `{"name":"invoice.sent","cursor":"`+string(start.Cursor)+`"}`); ids != "" {
		t.Errorf("another type has %s", ids)
	}
	for arguments, want := range map[string]string{
		`{"amount":2}`:                                "e2",
		`{"amount":[0,3.0]}`:                          "e0 e3",
		`{"customer.id":"c3","amount":3}`:             "e3",
		`{"customer.id":["c2","c3"],"owner":["bob"]}`: "",
	} {
		if ids, _ := again.poll(t, ada, from+`,"arguments":`+arguments+`}`); ids != want {
			t.Errorf("%s: got %q, want %q", arguments, ids, want)
		}
	}
}

func TestPoll_waits_for_an_event_of_the_user(t *testing.T) {
	st := samples.Open(t)
	source := newShop(st)
	n := newNode(t, st, source, nil)
	begun := time.Now()
	if ids, _ := n.poll(t, ada, `{"name":"invoice.paid","timeoutMs":50}`); ids != "" || time.Since(begun) < 50*time.Millisecond {
		t.Errorf("got %q after %s", ids, time.Since(begun))
	}
	time.AfterFunc(50*time.Millisecond, func() {
		source.happen(t, "e1", "bob", 1)
		source.happen(t, "e2", "ada", 1)
	})
	if ids, _ := n.poll(t, ada, `{"name":"invoice.paid","timeoutMs":30000}`); ids != "e2" || time.Since(begun) > 20*time.Second {
		t.Errorf("got %q after %s", ids, time.Since(begun))
	}
	ids, b := n.poll(t, ada, `{"name":"invoice.paid","maxAgeMs":1,"cursor":"1.0"}`)
	if ids != "" || !b.Truncated {
		t.Errorf("old events: %q, %+v", ids, b)
	}
}

// TestPoll_of_a_user_with_many_that_wait responds at once, and another user's still waits.
func TestPoll_of_a_user_with_many_that_wait(t *testing.T) {
	st := samples.Open(t)
	n := newNode(t, st, newShop(st), nil)
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer cancel()
	for range maxPolls {
		waiting.Go(func() { _, _ = n.Poll(ctx, ada, []byte(`{"name":"invoice.paid","timeoutMs":30000}`)) })
	}
	testkit.Eventually(t, "the polls wait", func() bool {
		n.Server.mu.Lock()
		defer n.Server.mu.Unlock()
		return n.polls[ada.ID] == maxPolls
	})
	begun := time.Now()
	if ids, _ := n.poll(t, ada, `{"name":"invoice.paid","timeoutMs":30000}`); ids != "" || time.Since(begun) > 20*time.Second {
		t.Errorf("got %q after %s", ids, time.Since(begun))
	}
	begun = time.Now()
	if n.poll(t, bob, `{"name":"invoice.paid","timeoutMs":50}`); time.Since(begun) < 50*time.Millisecond {
		t.Errorf("another user waited for %s", time.Since(begun))
	}
}

func TestErrors_have_codes_of_the_sketch_or_the_SEP(t *testing.T) {
	st := samples.Open(t)
	secret := `"secret":"whsec_` + strings.Repeat("A", 32) + `"`
	deliver := func(url, secret string) string {
		return `{"name":"invoice.paid","delivery":{"mode":"webhook","url":"` + url + `",` + secret + `}}`
	}
	type method = func(*Server, context.Context, *identity.User, []byte) (any, error)
	subscribe := (*Server).Subscribe
	for name, c := range map[string]struct {
		call   method
		user   *identity.User
		params string
		code   int
		data   string
	}{
		"no user":          {(*Server).Poll, &identity.User{}, `{"name":"invoice.paid"}`, -32012, ``},
		"list, no user":    {(*Server).List, &identity.User{}, `{}`, -32012, ``},
		"unknown":          {(*Server).Poll, ada, `{"name":"invoice.lost"}`, -32011, `{"kind":"event"}`},
		"type":             {(*Server).Poll, ada, `{"name":1}`, -32602, ``},
		"negative":         {(*Server).Poll, ada, `{"name":"invoice.paid","timeoutMs":-1}`, -32602, ``},
		"cursor":           {(*Server).Poll, ada, `{"name":"invoice.paid","cursor":"x"}`, -32602, ``},
		"list cursor":      {(*Server).List, ada, `{"cursor":"7"}`, -32602, ``},
		"unknown argument": {(*Server).Poll, ada, `{"name":"invoice.paid","arguments":{"colour":1}}`, -32602, ``},
		"object argument":  {(*Server).Poll, ada, `{"name":"invoice.paid","arguments":{"amount":{"$gt":1}}}`, -32602, ``},
		"arguments":        {(*Server).Poll, ada, `{"name":"invoice.paid","arguments":[]}`, -32602, ``},
		"mode":             {subscribe, ada, `{"name":"invoice.paid","delivery":{"mode":"carrier pigeon"}}`, -32014, `{"feature":"delivery","value":"carrier pigeon"}`},
		"http":             {subscribe, ada, deliver("http://a.test/", secret), -32602, ``},
		"user in the URL":  {subscribe, ada, deliver("https://a:b@a.test/", secret), -32602, ``},
		"fragment":         {subscribe, ada, deliver("https://a.test/#a", secret), -32602, ``},
		"short secret":     {subscribe, ada, deliver("https://a.test/", `"secret":"whsec_AAAA"`), -32602, ``},
		"no prefix":        {subscribe, ada, deliver("https://a.test/", `"secret":"`+strings.Repeat("A", 32)+`"`), -32602, ``},
		"no receiver":      {subscribe, ada, deliver(fmt.Sprintf("https://127.0.0.1:%d/", testkit.FreePort(t)), secret), -32015, `{"reason":"connection_refused"}`},
	} {
		for _, sepCodes := range []bool{false, true} {
			n := newNode(t, st, newShop(st), func(o *Options) { o.SEPCodes = sepCodes })
			_, err := c.call(n.Server, t.Context(), c.user, []byte(c.params))
			got, ok := err.(*Error) //nolint:errorlint // it is not wrapped
			want := c.code
			if sepCodes && want != -32602 {
				want -= 12
			}
			if !ok || got.Code != want {
				t.Errorf("%s: error %v, want code %d", name, err, want)
				continue
			}
			valid(t, "error", got)
			if data, _ := json.Marshal(got.Data, json.Deterministic(true)); c.data != "" && string(data) != c.data {
				t.Errorf("%s: data %s, want %s", name, data, c.data)
			}
		}
	}
}

// notices collects the notifications of a stream.
type notices struct {
	mu  sync.Mutex
	all []string
}

func (n *notices) send(method string, params []byte) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, strings.TrimPrefix(method, "notifications/events/")+" {"+string(params)+"}")
	return nil
}

func (n *notices) has(part string) func() bool {
	return func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return slices.ContainsFunc(n.all, func(s string) bool { return strings.Contains(s, part) })
	}
}

func TestStream_sends_events_in_order_until_the_type_is_gone(t *testing.T) {
	st := samples.Open(t)
	source := newShop(st)
	n := newNode(t, st, source, nil)
	run, err := n.Stream(t.Context(), ada, []byte(`{"name":"invoice.paid"}`))
	if err != nil {
		t.Fatal(err)
	}
	var got notices
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		run(t.Context(), got.send)
	}()
	testkit.Eventually(t, "the stream is active", got.has(`"truncated":false`))
	for i, owner := range []string{"ada", "bob", "ada"} {
		source.happen(t, fmt.Sprint("e", i), owner, i)
	}
	testkit.Eventually(t, "the last event", got.has(`"eventId":"e2"`))
	source.types.Store(&[]events.Type{{Name: "other"}})
	source.happen(t, "e3", "ada", 3)
	<-ended
	var order []string
	for _, s := range got.all {
		kind, params, _ := strings.Cut(s, " ")
		order = append(order, kind+strictjson.Text(strictjson.MemberOf([]byte(params), "eventId")))
		if kind == "event" {
			valid(t, "occurrence", jsontext.Value(params))
		}
	}
	if want := []string{"active", "evente0", "evente2", "terminated"}; !slices.Equal(order, want) {
		t.Errorf("got %v, want %v", order, want)
	}
	if !strings.Contains(got.all[3], `"kind":"event"`) {
		t.Errorf("the end: %s", got.all[3])
	}
}

// TestPoll_gives_nothing_that_is_not_recorded has an archive that is full.
func TestPoll_gives_nothing_that_is_not_recorded(t *testing.T) {
	st := samples.Open(t)
	source := newShop(st)
	n := newNode(t, st, source, nil)
	_, b := n.poll(t, ada, `{"name":"invoice.paid"}`)
	source.happen(t, "e1", "ada", 1)
	n.fail = errors.New("the archive is full")
	params := `{"name":"invoice.paid","cursor":"` + string(b.Cursor) + `"}`
	if _, err := n.Poll(t.Context(), ada, []byte(params)); !errors.Is(err, n.fail) {
		t.Errorf("got %v, want %v", err, n.fail)
	}
	n.fail = nil
	if ids, _ := n.poll(t, ada, params); ids != "e1" {
		t.Errorf("then %q, want e1", ids)
	}
}
