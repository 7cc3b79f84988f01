package sitetest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// JobsDocument describes an API whose work lasts.
const JobsDocument = `openapi: 3.1.0
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

// JobsAPI is the API of jobsDocument. Its work ends when it is released.
type JobsAPI struct {
	Mu       sync.Mutex
	Location string // of accepted jobs
	Polls    []string
	Starts   int
	Refuse   int           // polls to refuse with 401
	Began    chan struct{} // gets a value for each request for slow work
	Canceled chan struct{} // gets a value for each that its client gives up
	Release  chan struct{} // closed when all work ends
}

func NewJobsAPI() *JobsAPI {
	return &JobsAPI{Location: "/jobs/1", Began: make(chan struct{}, 8), Canceled: make(chan struct{}, 8), Release: make(chan struct{})}
}

func (j *JobsAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.URL.Path == "/slow":
		_, _ = io.Copy(io.Discard, r.Body) // or the server does not notice who has gone
		j.Began <- struct{}{}
		select {
		case <-j.Release:
			_, _ = io.WriteString(w, `{"slow":"done"}`)
		case <-r.Context().Done():
			j.Canceled <- struct{}{}
		}
		return
	case r.Method == http.MethodGet:
		j.Mu.Lock()
		j.Polls = append(j.Polls, r.URL.Path+" of "+r.Header.Get("X-Test-User"))
		refused := len(j.Polls) <= j.Refuse
		j.Mu.Unlock()
		if refused {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
	default:
		j.Mu.Lock()
		j.Starts++
		j.Mu.Unlock()
	}
	select {
	case <-j.Release:
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, `{"job":"done"}`)
			return
		}
	default:
	}
	w.Header().Set("Location", j.Location)
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusAccepted)
}

const JobsGlobal = "agents {\n\tstore bolt DIR/store.db\n}"

func JobsBlock(api, options string) string {
	return "route {\ntest_user\nmcp /mcp DIR/jobs.yaml {\n" + options + "\n}\notc DIR/jobs.yaml {\npoll 1m\n}\nreverse_proxy " + api + "\n}"
}

// TaskState is a task, a result or an error.
type TaskState struct {
	ResultType, TaskID, Status, StatusMessage string
	TTLMs                                     int
	Result                                    *Result
	Content                                   []any
	Error                                     struct {
		Code    int
		Message string
	}
}

// TaskCapability is what a client with tasks declares.
const TaskCapability = `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`

// Tasks are the tasks of the endpoint /mcp of a site.
type Tasks struct{ site *Site }

// TasksOf returns the tasks of a site.
func TasksOf(s *Site) Tasks { return Tasks{s} }

// Send sends a request of 2026-07-28 for a user. Name is what the header Mcp-Name repeats.
func (t Tasks) Send(user, capabilities, method, name, params string) (got TaskState) {
	t.site.T.Helper()
	if params != "" {
		params += ","
	}
	message := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":%s}}}`,
		method, params, capabilities)
	a := t.site.Request(http.MethodPost, "/mcp", message, "Accept", "application/json, text/event-stream", "Mcp-Protocol-Version", "2026-07-28",
		"Mcp-Method", method, "Mcp-Name", name, "X-Test-User", user)
	var envelope struct{ Result, Error json.RawMessage }
	if err := json.Unmarshal([]byte(a.Body), &envelope); err != nil {
		t.site.T.Fatalf("%v: %d %s", err, a.Status, a.Body)
	}
	if envelope.Error != nil {
		if err := json.Unmarshal(envelope.Error, &got.Error); err != nil {
			t.site.T.Fatal(err)
		}
		return got
	}
	if err := json.Unmarshal(envelope.Result, &got); err != nil {
		t.site.T.Fatal(err)
	}
	return got
}

// Begin calls a tool, whose call becomes a task, and returns the id.
func (t Tasks) Begin(user, tool string) string {
	t.site.T.Helper()
	got := t.Send(user, TaskCapability, "tools/call", tool, fmt.Sprintf(`"name":%q,"arguments":{}`, tool))
	if got.ResultType != "task" || got.Status != "working" {
		t.site.T.Fatalf("got a %q with the status %q, want a task that is working", got.ResultType, got.Status)
	}
	if got.TaskID == "" || got.TTLMs <= 0 {
		t.site.T.Fatalf("got the id %q and a lifetime of %d ms, want both", got.TaskID, got.TTLMs)
	}
	return got.TaskID
}

// Ask sends a request for a task.
func (t Tasks) Ask(user, method, id string) TaskState {
	t.site.T.Helper()
	return t.Send(user, TaskCapability, method, id, fmt.Sprintf(`"taskId":%q`, id))
}

// EndOf asks for a task until it has ended.
func (t Tasks) EndOf(user, id string) (got TaskState) {
	t.site.T.Helper()
	Eventually(t.site.T, "the end of the task", func() bool {
		got = t.Ask(user, "tasks/get", id)
		return got.Status != "working"
	})
	return got
}
