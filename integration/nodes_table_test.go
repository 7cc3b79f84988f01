package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fairwayhq/fairway/store/storetest"
)

// nodesSite are two nodes that share a store and have no common disk.
type nodesSite struct {
	*killSite
	api   *httptest.Server
	done  atomic.Bool // jobs of the API are done
	store string
	a, b  *brittleNode
	at    string // address of a
}

func startNodesSite(t *testing.T, store string) *nodesSite {
	t.Helper()
	s := &nodesSite{killSite: newKillSite(t), at: freeAddress(t), store: store}
	s.api = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/items":
			items := make([]string, 8000)
			for i := range items {
				items[i] = fmt.Sprintf(`{"id":%d,"name":"item number %d"}`, i, i)
			}
			writeJSON(w, "["+strings.Join(items, ",")+"]")
		case r.URL.Path == "/jobs" || !s.done.Load():
			w.Header().Set("Location", "/jobs/1")
			w.WriteHeader(http.StatusAccepted)
		default:
			writeJSON(w, `{"job":"done"}`)
		}
	}))
	t.Cleanup(s.api.Close)
	s.gates.releaseAll()
	s.a, s.b = s.start(s.at), s.start(freeAddress(t))
	return s
}

// start starts a node with an empty disk.
func (s *nodesSite) start(address string) *brittleNode {
	s.t.Helper()
	dir := s.t.TempDir()
	writeFile(s.t, filepath.Join(dir, "agents.yaml"), hostedAgents)
	writeFile(s.t, filepath.Join(dir, "api.yaml"), `openapi: 3.1.0
info: {title: API, version: "1"}
paths:
  /items:
    get: {operationId: listItems, responses: {"200": {description: ok}}}
  /jobs:
    post: {operationId: startJob, responses: {"202": {description: accepted}}}
`)
	return startBrittle(s.t, dir, address, fmt.Sprintf(`{
	admin off
	agents {
		toolset api api.yaml
		toolset orders orders.yaml
		store %s
	}
}
http://%s {
%s	mcp /mcp api
	mcp /tasks api {
		task_after 100ms
		secret one-secret-of-all-nodes
	}
	otc /otc orders {
		agent buyer
	}
	reverse_proxy %s
}
`, s.store, address, agentsRoute(s.model.URL, s.killSite.api.URL), strings.TrimPrefix(s.api.URL, "http://")))
}

// mcp sends a message of ann to an endpoint of a node.
func (n *brittleNode) mcp(t *testing.T, path, method, params string, header ...string) (*http.Response, string) {
	t.Helper()
	return n.as(t, "ann", "POST", path, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s}}`, method, params),
		append([]string{"Accept", "application/json, text/event-stream"}, header...)...)
}

// asTask sends a message of a client that takes tasks.
func (n *brittleNode) asTask(t *testing.T, method, name, params string) (got orderTask) {
	t.Helper()
	_, body := n.mcp(t, "/tasks", method, params+`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`,
		"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", name)
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return got
}

// nodesKinds are what one node creates and another one uses. Each function creates one, and returns what
// uses it.
var nodesKinds = map[string]func(s *nodesSite, t *testing.T, on *brittleNode) (use func(t *testing.T, on *brittleNode)){
	"session": func(_ *nodesSite, t *testing.T, on *brittleNode) func(*testing.T, *brittleNode) {
		response, body := on.mcp(t, "/mcp", "initialize", `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}`)
		id := response.Header.Get("Mcp-Session-Id")
		if id == "" {
			t.Fatalf("no session: %d %s", response.StatusCode, body)
		}
		return func(t *testing.T, on *brittleNode) {
			if response, body := on.mcp(t, "/mcp", "tools/list", "", "Mcp-Session-Id", id); response.StatusCode != http.StatusOK {
				t.Errorf("%d %s", response.StatusCode, body)
			}
		}
	},
	"page": func(_ *nodesSite, t *testing.T, on *brittleNode) func(*testing.T, *brittleNode) {
		_, body := on.mcp(t, "/mcp", "tools/call", `"name":"listItems","arguments":{}`)
		found := regexp.MustCompile(`cursor\\*":\s*\\*"([\w.-]+)`).FindStringSubmatch(body)
		if found == nil {
			t.Fatalf("no cursor: %.300s … %.600s", body, body[max(0, len(body)-600):])
		}
		return func(t *testing.T, on *brittleNode) {
			_, body := on.mcp(t, "/mcp", "tools/call", fmt.Sprintf(`"name":"next_page","arguments":{"cursor":%q}`, found[1]))
			if !strings.Contains(body, "item number") {
				t.Errorf("%.300s", body)
			}
		}
	},
	"task": func(s *nodesSite, t *testing.T, on *brittleNode) func(*testing.T, *brittleNode) {
		s.done.Store(false)
		begun := on.asTask(t, "tools/call", "startJob", `"name":"startJob","arguments":{}`)
		id := begun.Result.TaskID
		if id == "" {
			t.Fatalf("no task: %+v", begun)
		}
		return func(t *testing.T, on *brittleNode) {
			get := func() orderTask { return on.asTask(t, "tasks/get", id, fmt.Sprintf(`"taskId":%q`, id)) }
			if got := get(); got.Result.Status != "working" && !s.done.Load() {
				t.Errorf("before the job is done: %+v", got)
			}
			s.done.Store(true)
			waitFor(t, waitTimeout, "the end of the task", func() bool {
				got := get()
				return got.Result.Status == "completed" && strings.Contains(string(got.Result.Result), "done")
			})
		}
	},
	"review": func(_ *nodesSite, t *testing.T, on *brittleNode) func(*testing.T, *brittleNode) {
		location := on.begin(t, "clerk", "review/x")
		on.reaches(t, location, "awaiting-verification")
		return func(t *testing.T, on *brittleNode) {
			v := on.reaches(t, location, "awaiting-verification")
			on.approve(t, &v)
			if v = on.reaches(t, location, "complete"); v.Text != "Ordered." {
				t.Errorf("%+v", v)
			}
		}
	},
	"run": func(_ *nodesSite, t *testing.T, on *brittleNode) func(*testing.T, *brittleNode) {
		location := on.begin(t, "buyer", "run/x")
		return func(t *testing.T, on *brittleNode) {
			if v := on.reaches(t, location, "complete"); v.Text != "Ordered." {
				t.Errorf("%+v", v)
			}
		}
	},
	"Engagement": func(_ *nodesSite, t *testing.T, on *brittleNode) func(*testing.T, *brittleNode) {
		v := on.reaches(t, on.begin(t, "buyer", "engagement/x"), "complete")
		return func(t *testing.T, on *brittleNode) {
			if response, body := on.as(t, "ann", "GET", v.Audit, ""); response.StatusCode != http.StatusOK || !strings.Contains(body, "engagement/x") {
				t.Errorf("%s: %d %s", v.Audit, response.StatusCode, body)
			}
		}
	},
}

// TestNodes_each_with_each creates each kind on one node and uses it on another one, and on nodes of
// which one was restarted with an empty disk in between.
func TestNodes_each_with_each(t *testing.T) {
	t.Parallel() // it mostly waits
	storetest.OnShared(t, useEachWithEach)
}

// useEachWithEach uses the kinds of a node one after the other, because the node restarts in between.
func useEachWithEach(t *testing.T, server *storetest.SharedServer) {
	t.Parallel()
	s := startNodesSite(t, server.Option)
	node := map[string]**brittleNode{"a": &s.a, "b": &s.b}
	type created struct {
		name, on string
		use      func(*testing.T, *brittleNode)
	}
	var later []created
	for _, c := range []struct {
		from, to  string
		restarted bool // a is restarted in between
	}{{"a", "b", false}, {"b", "a", false}, {"a", "a", true}, {"a", "b", true}, {"b", "a", true}} {
		for kind, create := range nodesKinds {
			use := created{fmt.Sprintf("%s/%s-%s/restarted=%t", kind, c.from, c.to, c.restarted), c.to, create(s, t, *node[c.from])}
			if c.restarted {
				later = append(later, use)
				continue
			}
			t.Run(use.name, func(t *testing.T) { use.use(t, *node[use.on]) })
		}
	}
	s.a.stop(t)
	s.a = s.start(s.at)
	for _, use := range later {
		t.Run(use.name, func(t *testing.T) { use.use(t, *node[use.on]) })
	}
	if response, err := http.Get(s.a.url + "/health/ready"); err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("the restarted node: %v, %v", response, err)
	} else {
		_, _ = io.Copy(io.Discard, response.Body)
		response.Body.Close()
	}
}
