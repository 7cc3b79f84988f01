package caddymodule_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// jobsDocument describes an API whose work lasts.
const jobsDocument = `openapi: 3.1.0
info: {title: Jobs, version: 1.0.0}
paths:
  /jobs:
    post:
      operationId: startJob
      responses: {"202": {description: accepted}, "200": {description: done, content: {application/json: {}}}}
  /jobs/{id}:
    get:
      operationId: getJob
      parameters:
        - {name: id, in: path, required: true, schema: {type: string}}
      responses: {"200": {description: done, content: {application/json: {}}}}
  /slow:
    post:
      operationId: slow
      responses: {"200": {description: done, content: {application/json: {}}}}
    get:
      operationId: slowRead
      responses: {"200": {description: done, content: {application/json: {}}}}
`

// jobsAPI is the API of jobsDocument. Its work ends when it is released.
type jobsAPI struct {
	mu       sync.Mutex
	location string // of accepted jobs
	polls    []string
	starts   int
	refuse   int           // polls to refuse with 401
	began    chan struct{} // gets a value for each request for slow work
	canceled chan struct{} // gets a value for each that its client gives up
	release  chan struct{} // closed when all work ends
}

func newJobsAPI() *jobsAPI {
	return &jobsAPI{location: "/jobs/1", began: make(chan struct{}, 8), canceled: make(chan struct{}, 8), release: make(chan struct{})}
}

func (j *jobsAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.URL.Path == "/slow":
		_, _ = io.Copy(io.Discard, r.Body) // or the server does not notice who has gone
		j.began <- struct{}{}
		select {
		case <-j.release:
			_, _ = io.WriteString(w, `{"slow":"done"}`)
		case <-r.Context().Done():
			j.canceled <- struct{}{}
		}
		return
	case r.Method == http.MethodGet:
		j.mu.Lock()
		j.polls = append(j.polls, r.URL.Path+" of "+r.Header.Get("X-Test-User"))
		refused := len(j.polls) <= j.refuse
		j.mu.Unlock()
		if refused {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
	default:
		j.mu.Lock()
		j.starts++
		j.mu.Unlock()
	}
	select {
	case <-j.release:
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, `{"job":"done"}`)
			return
		}
	default:
	}
	w.Header().Set("Location", j.location)
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusAccepted)
}

// polled returns the polls so far.
func (j *jobsAPI) polled() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.polls
}

// started returns how many jobs were started.
func (j *jobsAPI) started() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.starts
}

const jobsGlobal = "agents {\n\tstore bolt DIR/store.db\n}"

func jobsBlock(api, options string) string {
	return "route {\ntest_user\nmcp /mcp DIR/jobs.yaml {\n" + options + "\n}\notc DIR/jobs.yaml {\npoll 1m\n}\nreverse_proxy " + api + "\n}"
}

// jobsSite runs a site in front of the API.
func jobsSite(t *testing.T, api *jobsAPI, options string) *site {
	t.Helper()
	s := newSite(t)
	s.write("jobs.yaml", jobsDocument)
	s.start(jobsGlobal, jobsBlock(upstream(t, api.ServeHTTP), options))
	return s
}

// taskState is a task, a result or an error.
type taskState struct {
	ResultType, TaskID, Status, StatusMessage string
	TTLMs                                     int
	Result                                    *result
	Content                                   []any
	Error                                     struct {
		Code    int
		Message string
	}
}

// taskCapability is what a client with tasks declares.
const taskCapability = `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`

// task sends a request of 2026-07-28 for a user. Name is what the header Mcp-Name repeats.
func (s *site) task(user, capabilities, method, name, params string) (got taskState) {
	s.t.Helper()
	if params != "" {
		params += ","
	}
	message := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":%s}}}`,
		method, params, capabilities)
	a := s.request(http.MethodPost, "/mcp", message, "Accept", "application/json, text/event-stream", "Mcp-Protocol-Version", "2026-07-28",
		"Mcp-Method", method, "Mcp-Name", name, "X-Test-User", user)
	var envelope struct{ Result, Error json.RawMessage }
	if err := json.Unmarshal([]byte(a.body), &envelope); err != nil {
		s.t.Fatalf("%v: %d %s", err, a.status, a.body)
	}
	if envelope.Error != nil {
		if err := json.Unmarshal(envelope.Error, &got.Error); err != nil {
			s.t.Fatal(err)
		}
		return got
	}
	if err := json.Unmarshal(envelope.Result, &got); err != nil {
		s.t.Fatal(err)
	}
	return got
}

// begin calls a tool, whose call becomes a task, and returns the id.
func (s *site) beginTask(user, tool string) string {
	s.t.Helper()
	got := s.task(user, taskCapability, "tools/call", tool, fmt.Sprintf(`"name":%q,"arguments":{}`, tool))
	if got.ResultType != "task" || got.TaskID == "" || got.Status != "working" || got.TTLMs <= 0 {
		s.t.Fatalf("no task: %+v", got)
	}
	return got.TaskID
}

func (s *site) askTask(user, method, id string) taskState {
	s.t.Helper()
	return s.task(user, taskCapability, method, id, fmt.Sprintf(`"taskId":%q`, id))
}

// endOf asks for a task until it has ended.
func (s *site) endOf(user, id string) (got taskState) {
	s.t.Helper()
	eventually(s.t, "the end of the task", func() bool {
		got = s.askTask(user, "tasks/get", id)
		return got.Status != "working"
	})
	return got
}

func TestTasks_poll_the_location_of_a_202(t *testing.T) {
	api := newJobsAPI()
	api.refuse = 1
	s := jobsSite(t, api, "task_after 10s")
	id := s.beginTask("ann", "startJob")
	if got := s.askTask("ann", "tasks/get", id); got.Status != "working" {
		t.Errorf("got %+v, want a task that works", got)
	}
	unknown := s.askTask("ann", "tasks/get", "unknown").Error
	for _, method := range []string{"tasks/get", "tasks/cancel"} {
		if got := s.askTask("bob", method, id).Error; got != unknown || got.Code != -32602 {
			t.Errorf("%s of another user: %+v, want what an unknown task gets: %+v", method, got, unknown)
		}
	}
	close(api.release)
	if got := s.endOf("ann", id); got.Status != "completed" || got.Result == nil || !strings.Contains(got.Result.text(), `"job":"done"`) {
		t.Errorf("got %+v, want the result of the job", got)
	}
	for _, poll := range api.polled() {
		if poll != "/jobs/1 of ann" {
			t.Errorf("polled %s, want it with the caller's own headers", poll)
		}
	}
}

func TestTasks_leave_a_location_of_another_origin(t *testing.T) {
	for _, location := range []string{"https://elsewhere.example/jobs/1", "//elsewhere.example/jobs/1", "file:///jobs/1", "", "http://u:p@127.0.0.1/jobs/1"} {
		t.Run(location, func(t *testing.T) {
			api := newJobsAPI()
			api.location = location
			s := jobsSite(t, api, "task_after 10s")
			got := s.task("ann", taskCapability, "tools/call", "startJob", `"name":"startJob","arguments":{}`)
			if got.ResultType != "complete" || len(got.Content) == 0 || len(api.polled()) > 0 {
				t.Errorf("got %+v after the polls %q, want the 202 as the result", got, api.polled())
			}
		})
	}
}

// TestTasks_go_on_after_a_reload reloads the configuration while the API works.
func TestTasks_go_on_after_a_reload(t *testing.T) {
	api := newJobsAPI()
	s := newSite(t)
	s.write("jobs.yaml", jobsDocument)
	address := upstream(t, api.ServeHTTP)
	s.start(jobsGlobal, jobsBlock(address, "task_after 50ms"))
	slow, job := s.beginTask("ann", "slow"), s.beginTask("ann", "startJob")
	if err := s.load(jobsGlobal, jobsBlock(address, "task_after 60ms")); err != nil {
		t.Fatal(err)
	}
	if got := s.askTask("ann", "tasks/get", slow); got.Status != "working" {
		t.Errorf("after the reload: %+v", got)
	}
	close(api.release)
	if got := s.endOf("ann", slow); got.Status != "completed" || got.Result == nil || !strings.Contains(got.Result.text(), `"slow":"done"`) {
		t.Errorf("slow: got %+v", got)
	}
	if got := s.endOf("ann", job); got.Status != "completed" {
		t.Errorf("job: got %+v", got)
	}
	if n := len(api.began); n != 1 {
		t.Errorf("the slow call was made %d times", n)
	}
}

func TestTasks_cancel_ends_the_request(t *testing.T) {
	api := newJobsAPI()
	s := jobsSite(t, api, "task_after 50ms")
	id := s.beginTask("ann", "slow")
	if got := s.askTask("ann", "tasks/cancel", id); got.ResultType != "complete" || got.Status != "" {
		t.Errorf("got %+v, want an empty result", got)
	}
	await(t, "the end of the request", closedAfter(api.canceled))
	if got := s.askTask("ann", "tasks/get", id); got.Status != "cancelled" || got.Result != nil {
		t.Errorf("got %+v, want a cancelled task", got)
	}
}

// closedAfter returns a channel that is closed when the other has a value.
func closedAfter(values <-chan struct{}) <-chan struct{} {
	closed := make(chan struct{})
	go func() {
		<-values
		close(closed)
	}()
	return closed
}

// TestTasks_for_clients_without_them wants a client that takes no tasks to wait, and to get
// progress.
func TestTasks_for_clients_without_them(t *testing.T) {
	api := newJobsAPI()
	s := jobsSite(t, api, "task_after 50ms")
	if got := s.task("ann", `{}`, "tasks/get", "x", `"taskId":"x"`).Error; got.Code != -32021 {
		t.Errorf("tasks/get without the capability: %+v", got)
	}
	for _, revision := range []string{"2025-06-18", "2025-11-25"} {
		t.Run(revision, func(t *testing.T) {
			s := s.with(t)
			stream := s.openStream(http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"startJob","arguments":{},"_meta":{"progressToken":"p"}}}`,
				"Content-Type", "application/json", "MCP-Protocol-Version", revision, "X-Test-User", "ann")
			lines := bufio.NewReader(stream.Body)
			if first := s.message(lines); !strings.Contains(first, "notifications/progress") || !strings.Contains(first, `"p"`) {
				t.Errorf("got %s, want progress", first)
			}
		})
	}
	close(api.release)
	if got := s.succeed("startJob", ""); !strings.Contains(got, `"job":"done"`) {
		t.Errorf("got %s, want the result of the job", got)
	}
}

// reviewedTrips runs a site where the user boss reviews each createTrip.
func reviewedTrips(t *testing.T) *site {
	t.Helper()
	s := newSite(t)
	s.write("agent.yaml", agentDocument("desk", "  create-trip: {user_identity: false, input_restriction: {require_review: boss}}\n"))
	api := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.Copy(w, r.Body)
	})
	s.start(jobsGlobal, "route {\ntest_user\nmcp /mcp TRIPS {\ntask_after 10s\n}\notc TRIPS\noagent DIR/agent.yaml {\nreview_wait off\nreviews /reviews\nengagements /engagements\n}\nreverse_proxy "+api+"\n}")
	return s
}

// decideAll decides on all reviews.
func (s *site) decideAll(decision string) {
	s.t.Helper()
	var listed struct{ Reviews []struct{ ID string } }
	a := s.request(http.MethodGet, "/reviews", "", "X-Test-User", "boss")
	if err := json.Unmarshal([]byte(a.body), &listed); err != nil || len(listed.Reviews) == 0 {
		s.t.Fatalf("reviews: %d %s", a.status, a.body)
	}
	for _, review := range listed.Reviews {
		if a := s.request(http.MethodPost, "/reviews/"+review.ID, `{"decision":"`+decision+`"}`, "X-Test-User", "boss"); a.status != http.StatusOK {
			s.t.Fatalf("decision: %d %s", a.status, a.body)
		}
	}
}

// TestTasks_in_the_access_log wants the access log entry of a call that became a task to say so.
func TestTasks_in_the_access_log(t *testing.T) {
	for name, tool := range map[string]string{"lasting": "slow", "accepted": "startJob"} {
		t.Run(name, func(t *testing.T) {
			api := newJobsAPI()
			s := newSite(t)
			s.write("jobs.yaml", jobsDocument)
			block := strings.Replace(jobsBlock(upstream(t, api.ServeHTTP), "task_after 10ms"), "route {", "route {\nlog_append result {http.tool.outcome}", 1)
			s.start(jobsGlobal, block)
			id := s.beginTask("ann", tool)
			entry := s.accessLogEntry("/mcp", 1)
			if entry["outcome"] != "pending" || entry["result"] != "pending" || entry["tool"] != tool || entry["tool_call_count"] != nil {
				t.Errorf("outcome %v, placeholder %v, tool %v, count %v", entry["outcome"], entry["result"], entry["tool"], entry["tool_call_count"])
			}
			close(api.release)
			if end := s.endOf("ann", id); end.Status != "completed" {
				t.Errorf("got %+v", end)
			}
		})
	}
}

// TestTasks_wait_for_a_review wants a task to end after the decision of the reviewer.
func TestTasks_wait_for_a_review(t *testing.T) {
	for decision, want := range map[string]string{"approve": `{"to":"Bern"}`, "deny": "denied"} {
		t.Run(decision, func(t *testing.T) {
			s := reviewedTrips(t)
			got := s.task("ann", taskCapability, "tools/call", "createTrip", `"name":"createTrip","arguments":{"to":"Bern"}`)
			if got.ResultType != "task" || got.Status != "working" || got.StatusMessage == "" {
				t.Fatalf("got %+v, want a task that waits", got)
			}
			s.decideAll(decision)
			end := s.endOf("ann", got.TaskID)
			if end.Status != "completed" || end.Result == nil || !strings.Contains(end.Result.text(), want) || end.Result.IsError != (decision == "deny") {
				t.Errorf("got %+v, want %s", end, want)
			}
		})
	}
}

// TestTasks_review_over_OTC repeats a call_id after the decision of the reviewer.
func TestTasks_review_over_OTC(t *testing.T) {
	s := reviewedTrips(t)
	call := func() answer {
		return s.request(http.MethodPost, "/otc/call", `{"request":{"call_id":"once","tool_id":"Trips.createTrip","input":{"to":"Bern"}}}`, "X-Test-User", "ann")
	}
	if a := call(); !strings.Contains(a.body, `"success":false`) || !strings.Contains(a.body, `"can_retry":true`) {
		t.Errorf("before the decision: %d %s", a.status, a.body)
	}
	s.decideAll("approve")
	for range 2 {
		if a := call(); !strings.Contains(a.body, `"success":true`) || !strings.Contains(a.body, `"Bern"`) {
			t.Errorf("after the decision: %d %s", a.status, a.body)
		}
	}
}

// TestTasks_202_over_OTC repeats a call_id whose first request has gone.
func TestTasks_202_over_OTC(t *testing.T) {
	api := newJobsAPI()
	s := jobsSite(t, api, "task_after 10s")
	call := func(ctx context.Context) (string, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/otc/call", strings.NewReader(`{"request":{"call_id":"once","tool_id":"Jobs.startJob","input":{}}}`))
		if err != nil {
			return "", err
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Test-User", "ann")
		response, err := client.Do(r)
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		return string(body), err
	}
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if body, err := call(ctx); err == nil {
			t.Errorf("the first request got %s", body)
		}
	}()
	eventually(t, "a poll", func() bool { return len(api.polled()) > 0 })
	cancel()
	await(t, "the end of the first request", gone)
	close(api.release)
	body, err := call(t.Context())
	if err != nil || !strings.Contains(body, `"success":true`) || !strings.Contains(body, `"job":"done"`) {
		t.Errorf("got %s, %v", body, err)
	}
	if n := api.started(); n != 1 {
		t.Errorf("the job was started %d times", n)
	}
}
