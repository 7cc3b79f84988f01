package caddymodule_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// onceDocument has tools that create something: one whose API takes a key, and one with an argument that has the name of Fairway's.
const onceDocument = `openapi: 3.1.0
info: {title: Orders, version: 1.0.0}
paths:
  /orders:
    post:
      operationId: order
      requestBody: {required: true, content: {application/json: {schema: {type: object, required: [name], properties: {name: {type: string}, count: {type: integer}}}}}}
      responses: {"200": {description: ok, content: {application/json: {schema: {type: object}}}}}
  /payments:
    post:
      operationId: pay
      parameters: [{name: Idempotency-Key, in: header, required: true, schema: {type: string, format: uuid}}]
      requestBody: {required: true, content: {application/json: {schema: {type: object, properties: {name: {type: string}}}}}}
      responses: {"200": {description: ok, content: {application/json: {schema: {type: object}}}}}
  /own:
    post:
      operationId: own
      requestBody: {required: true, content: {application/json: {schema: {type: object, properties: {name: {type: string}, idempotency_key: {type: string}}}}}}
      responses: {"200": {description: ok, content: {application/json: {schema: {type: object}}}}}
  /orders/{name}:
    get:
      operationId: look
      parameters: [{name: name, in: path, required: true, schema: {type: string}}]
      responses: {"200": {description: ok, content: {application/json: {schema: {type: object}}}}}
`

// onceSite is an API with a gateway before it. The name of an order says what the API responds.
type onceSite struct {
	*sitetest.Site
	mu     sync.Mutex
	counts map[string]int // requests by name
	keys   []string       // that the API got
	bodies []string
	hold   chan struct{}
	site   func(toolset string) (global, block string)
}

func newOnceSite(t *testing.T, toolset, options string) *onceSite {
	t.Helper()
	s := &onceSite{counts: make(map[string]int), hold: make(chan struct{})}
	api := sitetest.Upstream(t, func(w http.ResponseWriter, r *http.Request) {
		content, _ := io.ReadAll(r.Body)
		var order struct {
			Name string `json:"name"`
		}
		_ = json.Unmarshal(content, &order)
		s.mu.Lock()
		s.counts[order.Name]++
		n, hold := s.counts[order.Name], s.hold
		s.keys, s.bodies = append(s.keys, r.Header.Get("Idempotency-Key")), append(s.bodies, string(content))
		s.mu.Unlock()
		switch {
		case order.Name == "held":
			<-hold
		case order.Name == "down" && n == 1:
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		case order.Name == "refused":
			http.Error(w, "no", http.StatusConflict)
			return
		case order.Name == "silent" && n == 1:
			<-r.Context().Done()
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"name":%q,"number":%d}`, order.Name, n)
	})
	s.Site = sitetest.NewSite(t)
	s.Write("orders.yaml", onceDocument)
	s.site = func(toolset string) (global, block string) {
		return "agents {\nstore bolt DIR/store.db\ntoolset orders DIR/orders.yaml {\n" + toolset + "\n}\n}",
			"test_user\nroute {\ntest_user\nmcp /mcp orders {\n" + options + "\n}\notc /otc orders {\n" + options + "\n}\nreverse_proxy " + api + "\n}"
	}
	s.Start(s.site(toolset))
	t.Cleanup(func() { close(s.hold) })
	return s
}

func (s *onceSite) count(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[name]
}

// A keyed is a request for a call, with the places where it has a key.
type keyed struct {
	tool, arguments        string
	user                   string
	header, meta, argument string // "" for no key; over OTC, header is the call_id
	id                     int
}

// An onceAnswer is what a client gets.
type onceAnswer struct {
	body      string
	failed    bool
	replayed  bool
	retryable bool
	reason    string
	id        string // of the call
}

func (s *onceSite) send(protocol string, k keyed) (a onceAnswer) {
	s.T.Helper()
	arguments := k.arguments
	if k.argument != "" {
		arguments = strings.TrimSuffix(arguments, "}") + fmt.Sprintf(`,"idempotency_key":%q}`, k.argument)
	}
	header := map[string]string{"X-Test-User": k.user}
	if protocol == "otc" {
		body := fmt.Sprintf(`{"tool_id":"Orders.%s","input":%s,"call_id":%q}`, k.tool, arguments, k.header)
		r := s.Post("/otc/call", body, header)
		a.body, a.replayed = r.Body, r.Header.Get("Idempotent-Replayed") == "true"
		a.failed = !strings.Contains(r.Body, `"success":true`)
		a.retryable = strings.Contains(r.Body, `"can_retry":true`)
		return a
	}
	meta := ""
	if k.meta != "" {
		meta = fmt.Sprintf(`"io.github.fairwayhq/idempotencyKey":%q`, k.meta)
	}
	if k.header != "" {
		header["Idempotency-Key"] = k.header
	}
	header["MCP-Protocol-Version"] = protocol
	if protocol == "2026-07-28" {
		header["Mcp-Method"], header["Mcp-Name"] = "tools/call", k.tool
		meta = strings.TrimPrefix(meta+`,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}`, ",")
	}
	r := s.Post("/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":{%s}}}`, k.id, k.tool, arguments, meta), header)
	var message struct {
		Result struct {
			Content jsontext.Value            `json:"content"`
			IsError bool                      `json:"isError"`
			Meta    map[string]jsontext.Value `json:"_meta"`
		} `json:"result"`
		Error jsontext.Value `json:"error"`
	}
	if err := json.Unmarshal([]byte(r.Body), &message); err != nil {
		s.T.Fatalf("%d %s: %v", r.Status, r.Body, err)
	}
	var failed struct {
		Retryable bool   `json:"retryable"`
		Reason    string `json:"reason"`
	}
	_ = json.Unmarshal(message.Result.Meta["io.github.fairwayhq/http"], &failed)
	return onceAnswer{
		body: string(message.Result.Content) + string(message.Error), failed: message.Result.IsError || message.Error != nil,
		replayed: string(message.Result.Meta["io.github.fairwayhq/replayed"]) == "true", retryable: failed.Retryable, reason: failed.Reason,
		id: string(message.Result.Meta["io.github.fairwayhq/call"]),
	}
}

var onceProtocols = []string{"2025-11-25", "2026-07-28", "otc"}

// TestOnce_repeated_call has two requests, one after the other. The API gets as many as calls says.
func TestOnce_repeated_call(t *testing.T) {
	order := func(name, key string) keyed {
		return keyed{tool: "order", arguments: `{"name":"` + name + `"}`, user: "ann", header: key, id: 1}
	}
	with := func(k keyed, change func(*keyed)) keyed { change(&k); return k }
	s := newOnceSite(t, "timeout 1s\nidempotency argument\nallow `!has(arguments.name) || arguments.name != \"forbidden\"`", "")
	for _, c := range []struct {
		rule          string
		first, second keyed
		calls         int
		replayed      bool
		reason        string // of the second
		failed        bool   // the second
		text          string // in the second
		mcpOnly       bool
	}{
		{rule: "the same", first: order("same", "k1"), second: order("same", "k1"), calls: 1, replayed: true, text: "number"},
		{
			rule: "the same in another JSON form", first: order("form", "k2"), second: with(order("", "k2"), func(k *keyed) { k.arguments = `{ "name" : "f\u006frm" }` }),
			calls: 1, replayed: true,
		},
		{rule: "another key", first: order("key", "k3"), second: order("key", "k4"), calls: 2},
		{rule: "another user", first: order("user", "k5"), second: with(order("user", "k5"), func(k *keyed) { k.user = "ben" }), calls: 2},
		{rule: "no user", first: order("zoe", "k6"), second: with(order("zoe", "k6"), func(k *keyed) { k.user = "" }), calls: 2},
		{
			rule: "other arguments", first: order("other", "k7"), second: with(order("", "k7"), func(k *keyed) { k.arguments = `{"name":"other","count":2}` }),
			calls: 1, failed: true, reason: "idempotency_conflict", text: "another call",
		},
		{
			rule: "another tool", first: order("tool", "k8"), second: with(order("tool", "k8"), func(k *keyed) { k.tool = "own" }), calls: 1, failed: true,
			reason: "idempotency_conflict",
		},
		{rule: "invalid arguments", first: with(order("", "k9"), func(k *keyed) { k.arguments = `{"name":"invalid","count":"x"}` }), second: order("invalid", "k9"), calls: 1},
		{rule: "refused by a rule", first: order("forbidden", "k10"), second: order("forbidden", "k10"), failed: true, text: "rule"},
		{rule: "refused by the API", first: order("refused", "k11"), second: order("refused", "k11"), calls: 1, failed: true, replayed: true},
		{rule: "API not available", first: order("down", "k12"), second: order("down", "k12"), calls: 2, text: "number"},
		{rule: "timeout", first: order("silent", "k13"), second: order("silent", "k13"), calls: 1, failed: true, replayed: true, text: "k13"},
		{
			rule: "timeout of an API that takes the key", first: keyed{tool: "pay", arguments: `{"name":"silent"}`, user: "zoe", header: "k13"},
			second: keyed{tool: "pay", arguments: `{"name":"silent"}`, user: "zoe", header: "k13"}, calls: 2, text: "number",
		},
		{rule: "safe method", first: keyed{tool: "look", arguments: `{"name":"x"}`, user: "ann", meta: "k14", header: "unequal"}, second: keyed{tool: "look", arguments: `{"name":"x"}`, user: "ann", meta: "k14"}, calls: 2, mcpOnly: true},
		{rule: "no key", first: order("none", ""), second: order("none", ""), calls: 2},
		{rule: "in _meta", first: with(order("meta", ""), func(k *keyed) { k.meta = "k15" }), second: with(order("meta", ""), func(k *keyed) { k.meta = "k15"; k.id = 7 }), calls: 1, replayed: true, mcpOnly: true},
		{
			rule: "header, _meta and argument", first: order("places", `"k16"`), second: with(order("places", "k16"), func(k *keyed) { k.meta, k.argument = "k16", "k16" }),
			calls: 1, replayed: true, mcpOnly: true,
		},
		{rule: "in the argument", first: with(order("argument", ""), func(k *keyed) { k.argument = "k17" }), second: with(order("argument", ""), func(k *keyed) { k.argument = "k17" }), calls: 1, replayed: true, mcpOnly: true},
		{rule: "unequal", first: order("unequal", "k18"), second: with(order("unequal", "k18"), func(k *keyed) { k.argument = "k19" }), calls: 1, failed: true, text: "different", mcpOnly: true},
		{rule: "space in it", first: order("space", "k20"), second: with(order("space", ""), func(k *keyed) { k.meta = "a b" }), calls: 1, failed: true, text: "visible ASCII", mcpOnly: true},
		{rule: "too long", first: order("long", strings.Repeat("k", 255)), second: order("long", strings.Repeat("k", 256)), calls: 1, failed: true, text: "255", mcpOnly: true},
	} {
		for i, protocol := range onceProtocols {
			if c.mcpOnly && protocol == "otc" {
				continue
			}
			t.Run(c.rule+"/"+protocol, func(t *testing.T) {
				own := func(k keyed) keyed { // each protocol has calls of its own
					if k.header != "" && len(k.header) < 20 {
						k.header = strings.TrimSuffix(k.header, `"`) + fmt.Sprint("-", i) + strings.Repeat(`"`, strings.Count(k.header, `"`)/2)
					}
					for _, key := range []*string{&k.meta, &k.argument} {
						if *key != "" {
							*key += fmt.Sprint("-", i)
						}
					}
					if k.user != "" {
						k.user += fmt.Sprint(i)
					}
					return k
				}
				if c.rule == "too long" && i > 0 {
					t.Skip("the key has no room for the protocol")
				}
				s.mu.Lock()
				clear(s.counts)
				s.mu.Unlock()
				defer func(whole *sitetest.Site) { s.Site = whole }(s.Site)
				s.Site = s.With(t)
				first, second := s.send(protocol, own(c.first)), s.send(protocol, own(c.second))
				calls := 0
				for _, n := range s.counts {
					calls += n
				}
				if calls != c.calls {
					t.Errorf("the API got %d calls, want %d\nfirst %+v\nsecond %+v", calls, c.calls, first, second)
				}
				if first.replayed || second.replayed != c.replayed || second.failed != c.failed {
					t.Errorf("first %+v\nsecond %+v", first, second)
				}
				if protocol != "otc" && second.reason != c.reason {
					t.Errorf("reason %q, want %q: %+v", second.reason, c.reason, second)
				}
				if !strings.Contains(second.body, c.text) {
					t.Errorf("second %+v, want %q", second, c.text)
				}
				if protocol != "otc" && (second.id == "" || second.id == first.id) {
					t.Errorf("the id %s of the second call is not its own", second.id)
				}
				if c.replayed && protocol != "otc" && first.body != second.body {
					t.Errorf("first  %s\nsecond %s", first.body, second.body)
				}
			})
		}
	}
	for _, body := range s.bodies {
		if strings.Contains(body, "idempotency_key") {
			t.Errorf("the API got the argument: %s", body)
		}
	}
}

// TestOnce_rights_are_checked_again has a rule that no longer allows the call. The stored result is not handed out.
func TestOnce_rights_are_checked_again(t *testing.T) {
	s := newOnceSite(t, "", "")
	calls := make(map[string]keyed)
	for _, protocol := range onceProtocols {
		calls[protocol] = keyed{tool: "order", arguments: `{"name":"lost"}`, user: "ann", header: protocol}
		if a := s.send(protocol, calls[protocol]); a.failed {
			t.Fatalf("%+v", a)
		}
	}
	if err := s.Load(s.site("allow `arguments.name != \"lost\"`")); err != nil {
		t.Fatal(err)
	}
	for protocol, call := range calls {
		if a := s.send(protocol, call); !a.failed || a.replayed || !strings.Contains(a.body, "rule") {
			t.Errorf("%s: %+v", protocol, a)
		}
	}
}

// TestOnce_response_with_credentials checks that the credentials of a call are not stored with its response.
func TestOnce_response_with_credentials(t *testing.T) {
	s := newOnceSite(t, "", "")
	const token = "token-0123456789"
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"order","arguments":{"name":"` + token + `"}}}`
	for _, want := range []string{`\"name\":\"` + token, "contained credentials"} {
		a := s.Post("/mcp", body, map[string]string{"Authorization": "Bearer " + token, "Idempotency-Key": "k1"})
		if !strings.Contains(a.Body, want) {
			t.Errorf("%s, want %s", a.Body, want)
		}
	}
	if n := s.count(token); n != 1 {
		t.Errorf("%d calls", n)
	}
}

// TestOnce_call_in_progress is waited for, on the same node as on others.
func TestOnce_call_in_progress(t *testing.T) {
	for _, protocol := range onceProtocols {
		t.Run(protocol, func(t *testing.T) {
			s := newOnceSite(t, "timeout off", "")
			call := keyed{tool: "order", arguments: `{"name":"held"}`, user: "ann", header: "k"}
			answers := make(chan onceAnswer, 3)
			for range cap(answers) {
				go func() { answers <- s.send(protocol, call) }()
			}
			sitetest.Eventually(t, "the call", func() bool { return s.count("held") > 0 })
			s.hold <- struct{}{}
			replayed := 0
			for range cap(answers) {
				a := <-answers
				if a.replayed {
					replayed++
				}
				if a.failed || !strings.Contains(a.body, `number`) {
					t.Errorf("%+v", a)
				}
			}
			if n := s.count("held"); n != 1 || replayed != cap(answers)-1 {
				t.Errorf("%d calls, %d replayed", n, replayed)
			}
		})
	}
}

// TestOnce_waits_up_to_the_limit_of_the_call and then says that the call is in progress.
func TestOnce_waits_up_to_the_limit_of_the_call(t *testing.T) {
	s := newOnceSite(t, "timeout 2s", "")
	for _, protocol := range onceProtocols {
		call := keyed{tool: "order", arguments: `{"name":"held"}`, user: "ann", header: protocol}
		first, before := make(chan onceAnswer, 1), s.count("held")
		go func() { first <- s.send(protocol, call) }()
		sitetest.Eventually(t, "the call", func() bool { return s.count("held") > before })
		if a, b := s.send(protocol, call), <-first; !a.failed || !b.failed || !strings.Contains(b.body, "did not respond within") {
			t.Errorf("%s: %+v\n%+v", protocol, a, b)
		}
		if n := s.count("held"); n != before+1 {
			t.Errorf("%s: %d calls", protocol, n-before)
		}
	}
}

// TestOnce_key_for_the_API is a UUID that is the same for a repetition and differs between users, unless the caller gives one.
func TestOnce_key_for_the_API(t *testing.T) {
	for _, protocol := range onceProtocols {
		t.Run(protocol, func(t *testing.T) {
			s := newOnceSite(t, "", "")
			const own = "0e0b3f0a-6a3e-4d0c-8a34-0e53c3dd7c11"
			for _, k := range []keyed{
				{arguments: `{"name":"down"}`, user: "ann", header: "k1"},
				{arguments: `{"name":"down"}`, user: "ann", header: "k1"}, // the first fails
				{arguments: `{"name":"x"}`, user: "ben", header: "k1"},
				{arguments: `{"name":"x"}`, user: "ann", header: "k2"},
				{arguments: `{"name":"x","Idempotency_Key":"` + own + `"}`, user: "ann", header: "k3"},
			} {
				k.tool = "pay"
				s.send(protocol, k)
			}
			keys := s.keys
			if len(keys) != 5 {
				t.Fatalf("the API got %q", keys)
			}
			if keys[0] != keys[1] || len(keys[0]) != len(own) || keys[0][14] != '4' {
				t.Errorf("keys of one call: %q and %q, want one UUID", keys[0], keys[1])
			}
			if keys[2] == keys[0] || keys[3] == keys[0] || keys[4] != own {
				t.Errorf("the API got %q", keys)
			}
		})
	}
}

// TestOnce_argument_is_listed where it has an effect.
func TestOnce_argument_is_listed(t *testing.T) {
	for _, toolset := range []string{"", "idempotency argument"} {
		s := newOnceSite(t, toolset, "")
		var list struct {
			Result struct {
				Tools []struct {
					Name        string `json:"name"`
					InputSchema struct {
						Properties map[string]struct {
							Description string `json:"description"`
						} `json:"properties"`
					} `json:"inputSchema"`
				} `json:"tools"`
			} `json:"result"`
		}
		if err := json.Unmarshal([]byte(s.ToolList()), &list); err != nil {
			t.Fatal(err)
		}
		for _, tool := range list.Result.Tools {
			argument, listed := tool.InputSchema.Properties["idempotency_key"]
			want := tool.Name == "own" || toolset != "" && (tool.Name == "order" || tool.Name == "pay")
			if listed != want || strings.Contains(argument.Description, "same key") == (tool.Name == "own") && listed {
				t.Errorf("with %q, %s lists the argument: %t, %q", toolset, tool.Name, listed, argument.Description)
			}
		}
		if otc := s.Get("/otc/tools").Body; strings.Count(otc, "idempotency_key") > 2 { // of the tool own, in both forms
			t.Errorf("OTC lists the argument: %s", otc)
		}
		// An argument of the operation with this name goes to the API, and is no key.
		for range 2 {
			s.send("2025-11-25", keyed{tool: "own", arguments: `{"name":"own"}`, user: "ann", argument: "k"})
		}
		if n := s.count("own"); n != 2 || !strings.Contains(s.bodies[0], `"idempotency_key":"k"`) {
			t.Errorf("%d calls, %q", n, s.bodies)
		}
	}
}

// TestOnce_header_in_a_batch is an error, because a batch has several calls. Its calls can have keys in their _meta.
func TestOnce_header_in_a_batch(t *testing.T) {
	s := newOnceSite(t, "", "")
	const call = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"order","arguments":{"name":"batch"},"_meta":{"io.github.fairwayhq/idempotencyKey":"k"}}}`
	batch := "[" + fmt.Sprintf(call, 1) + "," + fmt.Sprintf(call, 2) + "]"
	header := map[string]string{"MCP-Protocol-Version": "2025-03-26", "Idempotency-Key": "k"}
	if a := s.Post("/mcp", batch, header); strings.Count(a.Body, "Idempotency-Key is for one call") != 2 || s.count("batch") != 0 {
		t.Errorf("%s, %d calls", a.Body, s.count("batch"))
	}
	delete(header, "Idempotency-Key")
	if a := s.Post("/mcp", batch, header); strings.Count(a.Body, `replayed":true`) != 1 || s.count("batch") != 1 {
		t.Errorf("%s, %d calls", a.Body, s.count("batch"))
	}
}

// TestOnce_off makes each call, and refuses an argument that would have no effect.
func TestOnce_off(t *testing.T) {
	s := newOnceSite(t, "", "idempotency off")
	for _, protocol := range onceProtocols {
		before := s.count("off")
		for range 2 {
			s.send(protocol, keyed{tool: "order", arguments: `{"name":"off"}`, user: "ann", header: "k"})
		}
		if n := s.count("off") - before; n != 2 {
			t.Errorf("%s: %d calls", protocol, n)
		}
	}
	if err := s.Load(s.site("idempotency argument")); err == nil || !strings.Contains(err.Error(), "no effect") {
		t.Errorf("error %v", err)
	}
}

// TestOnce_replay_in_the_log_of_calls is an entry of its own.
func TestOnce_replay_in_the_log_of_calls(t *testing.T) {
	s := newOnceSite(t, "", "")
	for range 2 {
		s.send("2025-11-25", keyed{tool: "order", arguments: `{"name":"logged"}`, user: "ann", header: "k"})
	}
	if outcome := s.AccessLogEntry("/mcp", 2)["outcome"]; outcome != "replayed" {
		t.Errorf("the outcome in the access log is %v", outcome)
	}
}

// TestOnce_review has a call that waits for a review. Its repetitions get the same review, and then one result.
func TestOnce_review(t *testing.T) {
	for _, protocol := range onceProtocols {
		t.Run(protocol, func(t *testing.T) {
			s := newOnceSite(t, "", "")
			s.Write("agent.yaml", sitetest.AgentDocument("desk", "\n  order: {user_identity: false, input_restriction: {require_review: boss}}\n"))
			global, block := s.site("")
			block = strings.Replace(block, "reverse_proxy", "oagent DIR/agent.yaml {\nreview_wait off\nreviews /reviews\n}\nreverse_proxy", 1)
			if err := s.Load(global, strings.Replace(block, "route {", "route {\ntest_pace", 1)); err != nil {
				t.Fatal(err)
			}
			call := keyed{tool: "order", arguments: `{"name":"reviewed"}`, user: "ann", header: "k"}
			for range 2 {
				if a := s.send(protocol, call); a.replayed || !a.retryable || s.count("reviewed") != 0 {
					t.Errorf("before the decision: %+v", a)
				}
			}
			sitetest.ReviewsOf(s.Site).DecideAll("approve")
			first, second := s.send(protocol, call), s.send(protocol, call)
			if n := s.count("reviewed"); n != 1 {
				t.Errorf("%d calls after the decision", n)
			}
			if first.failed || first.replayed {
				t.Errorf("after the decision: %+v", first)
			}
			if second.failed || !second.replayed {
				t.Errorf("the repetition: %+v", second)
			}
		})
	}
}

// TestOnce_call_does_not_become_a_task, because a client that cannot wait repeats it.
func TestOnce_call_does_not_become_a_task(t *testing.T) {
	s := newOnceSite(t, "", "")
	global, block := s.site("")
	if err := s.Load(global, strings.Replace(block, "mcp /mcp orders {", "mcp /mcp orders {\ntask_after 1ms", 1)); err != nil {
		t.Fatal(err)
	}
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"order","arguments":{"name":"task"},"task":{}}}`
	a := s.Post("/mcp", call, map[string]string{"MCP-Protocol-Version": "2025-11-25", "Idempotency-Key": "k"})
	if !strings.Contains(a.Body, "cannot be a task") || s.count("task") != 0 {
		t.Errorf("%s, %d calls", a.Body, s.count("task"))
	}
}
