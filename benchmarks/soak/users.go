package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"
)

func userName(i int) string { return fmt.Sprintf("u%03d", i) }

func secretOf(user string) string { return "0123456789abcdef-" + user }

// outcomes of an action that are not the names of errors.
const (
	done    = "ok"
	refused = "node does not respond" // the node is dead, or died meanwhile
)

// user makes calls, one after the other.
type user struct {
	site    *site
	report  *report
	name    string
	random  *rand.Rand
	home    int       // the node that the user prefers
	node    int       // the node that the user calls
	away    time.Time // until when the user calls the other node
	cause   error     // why the user has left the other node
	number  int       // of the last thing
	session string    // of revision 2025-11-25; "" if there is none
	client  *http.Client
	closing context.Context // ends when nothing may be begun any more
}

func newUser(i int, s *site, r *report) *user {
	return &user{
		site: s, report: r, name: userName(i), random: rand.New(rand.NewPCG(uint64(i), 1)), home: i % 2, node: i % 2,
		client: &http.Client{
			Transport:     &http.Transport{MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Timeout:       30 * time.Second,
		},
	}
}

// actions are what users do, and how often.
var actions = []struct {
	name   string
	weight int
	act    func(u *user, ctx context.Context) string // returns the outcome
}{
	{"MCP 2025-06-18", 12, (*user).callOld},
	{"MCP 2025-11-25, session", 12, (*user).callSession},
	{"MCP 2026-07-28", 12, (*user).callNew},
	{"MCP tools/list of a document", 2, (*user).list},
	{"MCP task", 4, (*user).task},
	{"MCP stream", 1, (*user).stream},
	{"OTC with call_id", 16, (*user).otc},
	{"OCP", 10, (*user).ocp},
	{"REST guarded by oagent", 12, (*user).guarded},
	{"hosted run", 2, (*user).hosted},
	{"hosted run with a review", 1, (*user).reviewed},
	{"slow API", 2, (*user).slow},
	{"failing API", 4, (*user).failing},
}

// act acts until the first context ends. What is begun then may take until the second one ends.
func (u *user) act(acting, ctx context.Context) {
	total := 0
	for _, a := range actions {
		total += a.weight
	}
	u.closing = acting
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(acting, func() { time.AfterFunc(drain, cancel) })
	defer stop()
	for wait(acting, time.Duration(u.random.Int64N(int64(2*pace)))); acting.Err() == nil; wait(acting, time.Duration(u.random.Int64N(int64(2*pace)))) {
		pick := u.random.IntN(total)
		for _, a := range actions {
			if pick -= a.weight; pick < 0 {
				began := time.Now()
				if began.After(u.away) {
					u.node = u.home
				}
				outcome := a.act(u, ctx)
				u.report.acted(a.name, outcome, began, u.cause)
				break
			}
		}
	}
	u.client.CloseIdleConnections()
}

// thing returns the name of a thing that the action may create from now on.
func (u *user) thing(action string) string {
	u.number++
	name := fmt.Sprintf("%s-%d", u.name, u.number)
	u.report.tried(action, name)
	return name
}

// answer is a response.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// do sends a request. If the connection ends without a response, do repeats the request once on a new connection, as
// clients of HTTP do (RFC 9112, section 9.3.1): a reload closes idle connections, and on Linux also those that the
// old configuration has not accepted yet. The node has not read these requests, which the counts of the API prove.
// Requests to a node that may be killed are not repeated.
func (u *user) do(ctx context.Context, method, path, body string, header ...string) (*http.Response, error) {
	for repeated := false; ; repeated = true {
		r, err := http.NewRequestWithContext(ctx, method, u.site.nodes[u.node].url+path, strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		response, err := u.client.Do(r)
		if err == nil {
			return response, nil
		}
		if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) || repeated || u.report.troubled(time.Now()) {
			u.leave(err)
			return nil, err
		}
		u.report.event("repeated requests")
	}
}

// send sends a request to the node of the user. If the node is down, the user prefers the other one from now on.
func (u *user) send(ctx context.Context, as, method, path, body string, header ...string) (a answer, err error) {
	header = append([]string{"X-Api-Key", secretOf(as), "Accept", "application/json, text/event-stream"}, header...)
	if body != "" {
		header = append(header, "Content-Type", "application/json")
	}
	response, err := u.do(ctx, method, path, body, header...)
	if err != nil {
		return a, err
	}
	defer response.Body.Close()
	a.status, a.header = response.StatusCode, response.Header
	if a.body, err = io.ReadAll(io.LimitReader(response.Body, 32<<20)); err != nil {
		u.leave(err)
	}
	return a, err
}

// leave makes the user call the other node for some time.
func (u *user) leave(err error) {
	u.cause = err
	u.node = 1 - u.node
	u.away = time.Now().Add(10 * time.Second)
}

// documentedStatus are the statuses of errors to correct requests; see docs/errors.md.
var documentedStatus = []int{http.StatusNotFound, http.StatusTooManyRequests, http.StatusServiceUnavailable}

// failure returns the outcome for a response that is no success.
func (u *user) failure(what string, a answer, err error) string {
	if err != nil {
		return refused
	}
	outcome := fmt.Sprintf("status %d", a.status)
	if !slices.Contains(documentedStatus, a.status) {
		u.report.fault("%s: undocumented response %d %.300s", what, a.status, a.body)
	}
	return outcome
}

// message is a response of MCP.
type message struct {
	Result struct {
		IsError    bool
		ResultType string
		TaskID     string `json:"taskId"`
		Status     string
		Tools      []json.RawMessage
		Content    []struct{ Text string }
		Meta       struct {
			HTTP struct{ Retryable *bool } `json:"io.github.fairwayhq/http"`
		} `json:"_meta"`
	}
	Error *struct {
		Code    int
		Message string
	}
	body []byte
}

// documentedCodes are the JSON-RPC codes of docs/errors.md.
var documentedCodes = []int{-32700, -32600, -32601, -32602, -32603, -32020, -32021, -32022}

// mcp sends a message of MCP. A response that is an error of the protocol has an outcome.
func (u *user) mcp(ctx context.Context, path, method, params string, header ...string) (m message, a answer, outcome string) {
	a, err := u.send(ctx, u.name, http.MethodPost, path, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s}}`, method, params), header...)
	if err != nil || a.status != http.StatusOK {
		return m, a, u.failure("MCP "+method, a, err)
	}
	body := a.body
	if strings.HasPrefix(a.header.Get("Content-Type"), "text/event-stream") {
		for line := range bytes.Lines(a.body) { // the last event is the response
			if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok && bytes.Contains(data, []byte(`"id":1`)) {
				body = data
			}
		}
	}
	if err := json.Unmarshal(body, &m); err != nil {
		u.report.fault("MCP %s: %v: %.300s", method, err, a.body)
		return m, a, "unreadable"
	}
	m.body = body
	if m.Error != nil {
		if !slices.Contains(documentedCodes, m.Error.Code) {
			u.report.fault("MCP %s: undocumented code %d %s", method, m.Error.Code, m.Error.Message)
		}
		return m, a, fmt.Sprintf("code %d", m.Error.Code)
	}
	return m, a, done
}

// call calls the tool create by MCP.
func (u *user) call(ctx context.Context, extra string, header ...string) string {
	name := u.thing("MCP")
	m, _, outcome := u.mcp(ctx, "/mcp", "tools/call", fmt.Sprintf(`"name":"create","arguments":{"name":%q}%s`, name, extra), header...)
	switch {
	case outcome != done:
		return outcome
	case m.Result.IsError:
		return u.isError(m)
	}
	u.report.confirmed(name)
	return done
}

func (u *user) callOld(ctx context.Context) string {
	return u.call(ctx, "", "MCP-Protocol-Version", "2025-06-18")
}

const newMeta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{CAPABILITIES}}`

func (u *user) callNew(ctx context.Context) string {
	return u.call(ctx, strings.Replace(newMeta, "CAPABILITIES", "", 1), "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "create")
}

func (u *user) callSession(ctx context.Context) string {
	if outcome := u.open(ctx); outcome != done {
		return outcome
	}
	outcome := u.call(ctx, "", "MCP-Protocol-Version", "2025-11-25", "Mcp-Session-Id", u.session)
	if outcome != done {
		u.session = ""
	}
	return outcome
}

// open opens a session unless there is one.
func (u *user) open(ctx context.Context) string {
	if u.session != "" {
		return done
	}
	_, a, outcome := u.mcp(ctx, "/mcp", "initialize", `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"soak","version":"1"}`)
	if outcome != done {
		return outcome
	}
	if u.session = a.header.Get("Mcp-Session-Id"); u.session == "" {
		u.report.fault("initialize: no session: %.300s", a.body)
		return "no session"
	}
	return done
}

func (u *user) list(ctx context.Context) string {
	m, _, outcome := u.mcp(ctx, fmt.Sprintf("/doc%d", u.random.IntN(5)), "tools/list", "", "MCP-Protocol-Version", "2025-06-18")
	if outcome == done && len(m.Result.Tools) == 0 {
		u.report.fault("tools/list has no tools")
	}
	return outcome
}

// stream holds a stream of the server for some seconds.
func (u *user) stream(ctx context.Context) string {
	if outcome := u.open(ctx); outcome != done {
		return outcome
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(5+u.random.IntN(15))*time.Second)
	defer cancel()
	response, err := u.do(ctx, http.MethodGet, "/mcp", "", "X-Api-Key", secretOf(u.name), "Accept", "text/event-stream",
		"MCP-Protocol-Version", "2025-11-25", "Mcp-Session-Id", u.session)
	if err != nil {
		return refused
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		u.session = ""
		return u.failure("stream", answer{status: response.StatusCode}, nil)
	}
	io.Copy(io.Discard, response.Body)
	return done
}

// task starts a job as a task, and polls it to its end.
func (u *user) task(ctx context.Context) string {
	meta := strings.Replace(newMeta, "CAPABILITIES", `"extensions":{"io.modelcontextprotocol/tasks":{}}`, 1)
	headers := func(method, name string) []string {
		return []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", name}
	}
	name := u.thing("MCP task")
	m, _, outcome := u.mcp(ctx, "/tasks", "tools/call", fmt.Sprintf(`"name":"job","arguments":{"name":%q}%s`, name, meta), headers("tools/call", "job")...)
	id := m.Result.TaskID
	switch {
	case outcome != done:
		return outcome
	case id == "" && m.Result.IsError:
		return u.isError(m)
	case id == "":
		u.report.confirmed(name)
		return done // within task_after
	}
	for until := time.Now().Add(drain); time.Now().Before(until) && ctx.Err() == nil; wait(ctx, 300*time.Millisecond) {
		m, _, outcome = u.mcp(ctx, "/tasks", "tasks/get", fmt.Sprintf(`"taskId":%q%s`, id, meta), headers("tasks/get", id)...)
		switch {
		case outcome == refused, strings.HasPrefix(outcome, "status"):
			continue
		case outcome != done:
			return outcome
		case m.Result.Status == "completed":
			u.report.confirmed(name)
			return done
		case m.Result.Status == "failed":
			return "task failed"
		}
	}
	u.report.fault("a task did not end: %+v, %s", m, outcome)
	return "task did not end"
}

// otc calls the tool create with a call_id, and repeats the call until it has a response.
func (u *user) otc(ctx context.Context) string {
	name := u.thing("OTC")
	body := fmt.Sprintf(`{"request":{"call_id":%q,"tool_id":"Things.create","input":{"name":%q}}}`, name, name)
	outcome := ""
	for until := time.Now().Add(20 * time.Second); time.Now().Before(until) && ctx.Err() == nil; wait(ctx, 500*time.Millisecond) {
		a, err := u.send(ctx, u.name, http.MethodPost, "/otc/call", body)
		if err != nil || a.status != http.StatusOK {
			outcome = u.failure("OTC", a, err)
			continue
		}
		var result struct {
			Success bool
			Output  struct {
				Error struct {
					Message  string
					CanRetry bool `json:"can_retry"`
				}
			}
		}
		if err := json.Unmarshal(a.body, &result); err != nil {
			u.report.fault("OTC: %v: %.300s", err, a.body)
			return "unreadable"
		}
		if result.Success {
			u.report.confirmed(name)
			return done
		}
		outcome = u.failed("OTC", result.Output.Error.Message)
		if !result.Output.Error.CanRetry {
			return outcome
		}
	}
	return outcome
}

func (u *user) ocp(ctx context.Context) string {
	a, err := u.send(ctx, u.name, http.MethodGet, "/things/"+u.name, "", "OCP-Context-ID", "ocp-"+u.name, "OCP-Agent-Type", "ide-copilot", "OCP-Current-Goal", "see things")
	if err != nil || a.status != http.StatusOK {
		return u.failure("OCP", a, err)
	}
	return done
}

func (u *user) guarded(ctx context.Context) string {
	name := u.thing("guarded REST")
	a, err := u.send(ctx, u.name, http.MethodPost, "/guarded", fmt.Sprintf(`{"name":%q}`, name), "X-Engagement", fmt.Sprint(u.name, "-", u.number/20))
	if err == nil && a.status == http.StatusInternalServerError && bytes.Contains(a.body, []byte("#store")) {
		return "status 500, made" // documented in docs/oagent.md: the store failed after the call
	}
	if err != nil || a.status != http.StatusOK {
		return u.failure("guarded REST", a, err)
	}
	u.report.confirmed(name)
	return done
}

func (u *user) hosted(ctx context.Context) string   { return u.agent(ctx, "buyer") }
func (u *user) reviewed(ctx context.Context) string { return u.agent(ctx, "clerk") }

// agent runs a hosted agent, approves its reviews, and waits for its end.
func (u *user) agent(ctx context.Context, agent string) string {
	name, began := u.thing(agent), time.Now()
	a, err := u.send(ctx, u.name, http.MethodPost, "/agents/"+agent, fmt.Sprintf(`{"input":%q}`, name))
	if err != nil || a.status != http.StatusSeeOther {
		return u.failure("hosted agent", a, err)
	}
	location := a.header.Get("Location")
	var view struct {
		Status  string
		Text    string
		Reviews []struct{ Location string }
		Error   *struct{ Kind, Message string }
	}
	for until := time.Now().Add(2 * drain); time.Now().Before(until) && ctx.Err() == nil; wait(ctx, 400*time.Millisecond) {
		a, err := u.send(ctx, u.name, http.MethodGet, location, "", "Accept", "application/json")
		if err != nil || a.status != http.StatusOK {
			if outcome := u.failure("state of a run", a, err); outcome != refused && outcome != "status 503" {
				return outcome
			}
			continue
		}
		view.Reviews = nil
		if err := json.Unmarshal(a.body, &view); err != nil {
			u.report.fault("state of a run: %v: %.300s", err, a.body)
			return "unreadable"
		}
		switch view.Status {
		case "complete":
			if view.Text != ordered { // the outcome of the call is unknown, because the node was killed, or the store failed
				if !u.report.troubled(began) {
					u.report.fault("the order of a run failed: %.300s", view.Text)
				}
				return "order failed"
			}
			u.report.confirmed(name)
			return done
		case "error":
			if !u.report.troubled(began) {
				u.report.fault("a run ended with %+v", view.Error)
			}
			return "run ended with an error"
		}
		for _, review := range view.Reviews {
			a, err := u.send(ctx, "boss", http.MethodPost, review.Location+"/approve", "")
			if err == nil && a.status != http.StatusOK && a.status != http.StatusConflict && a.status != http.StatusServiceUnavailable {
				u.report.fault("decision: %d %.300s", a.status, a.body)
			}
		}
	}
	if u.closing.Err() == nil {
		u.report.fault("a run did not end: %+v", view)
	}
	return "run did not end"
}

func (u *user) slow(ctx context.Context) string    { return u.readTool(ctx, "slow") }
func (u *user) failing(ctx context.Context) string { return u.readTool(ctx, "failing") }

func (u *user) readTool(ctx context.Context, tool string) string {
	m, _, outcome := u.mcp(ctx, "/mcp", "tools/call", fmt.Sprintf(`"name":%q,"arguments":{}`, tool), "MCP-Protocol-Version", "2025-06-18")
	if outcome == done && m.Result.IsError {
		return u.isError(m)
	}
	return outcome
}
