package mcp_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// polled returns the polls so far.
func polled(j *sitetest.JobsAPI) []string {
	j.Mu.Lock()
	defer j.Mu.Unlock()
	return j.Polls
}

// started returns how many jobs were started.
func started(j *sitetest.JobsAPI) int {
	j.Mu.Lock()
	defer j.Mu.Unlock()
	return j.Starts
}

// jobsSite runs a site in front of the API.
func jobsSite(t *testing.T, api *sitetest.JobsAPI, options string) *sitetest.Site {
	t.Helper()
	s := sitetest.NewSite(t)
	s.Write("jobs.yaml", sitetest.JobsDocument)
	s.Start(sitetest.JobsGlobal, sitetest.JobsBlock(sitetest.Upstream(t, api.ServeHTTP), options))
	return s
}

func TestTasks_poll_the_location_of_a_202(t *testing.T) {
	api := sitetest.NewJobsAPI()
	api.Refuse = 1
	s := jobsSite(t, api, "task_after 10s")
	id := sitetest.TasksOf(s).Begin("ann", "startJob")
	if got := sitetest.TasksOf(s).Ask("ann", "tasks/get", id); got.Status != "working" {
		t.Errorf("got %+v, want a task that works", got)
	}
	unknown := sitetest.TasksOf(s).Ask("ann", "tasks/get", "unknown").Error
	for _, method := range []string{"tasks/get", "tasks/cancel"} {
		if got := sitetest.TasksOf(s).Ask("bob", method, id).Error; got != unknown || got.Code != -32602 {
			t.Errorf("%s of another user: %+v, want what an unknown task gets: %+v", method, got, unknown)
		}
	}
	close(api.Release)
	if got := sitetest.TasksOf(s).EndOf("ann", id); got.Status != "completed" || got.Result == nil || !strings.Contains(got.Result.Text(), `"job":"done"`) {
		t.Errorf("got %+v, want the result of the job", got)
	}
	for _, poll := range polled(api) {
		if poll != "/jobs/1 of ann" {
			t.Errorf("polled %s, want it with the caller's own headers", poll)
		}
	}
}

func TestTasks_leave_a_location_of_another_origin(t *testing.T) {
	for _, location := range []string{"https://elsewhere.example/jobs/1", "//elsewhere.example/jobs/1", "file:///jobs/1", "", "http://u:p@127.0.0.1/jobs/1"} {
		t.Run(location, func(t *testing.T) {
			api := sitetest.NewJobsAPI()
			api.Location = location
			s := jobsSite(t, api, "task_after 10s")
			got := sitetest.TasksOf(s).Send("ann", sitetest.TaskCapability, "tools/call", "startJob", `"name":"startJob","arguments":{}`)
			if got.ResultType != "complete" || len(got.Content) == 0 || len(polled(api)) > 0 {
				t.Errorf("got %+v after the polls %q, want the 202 as the result", got, polled(api))
			}
		})
	}
}

// TestTasks_go_on_after_a_reload reloads the configuration while the API works.
func TestTasks_go_on_after_a_reload(t *testing.T) {
	api := sitetest.NewJobsAPI()
	s := sitetest.NewSite(t)
	s.Write("jobs.yaml", sitetest.JobsDocument)
	address := sitetest.Upstream(t, api.ServeHTTP)
	s.Start(sitetest.JobsGlobal, sitetest.JobsBlock(address, "task_after 50ms"))
	slow, job := sitetest.TasksOf(s).Begin("ann", "slow"), sitetest.TasksOf(s).Begin("ann", "startJob")
	if err := s.Load(sitetest.JobsGlobal, sitetest.JobsBlock(address, "task_after 60ms")); err != nil {
		t.Fatal(err)
	}
	if got := sitetest.TasksOf(s).Ask("ann", "tasks/get", slow); got.Status != "working" {
		t.Errorf("after the reload: %+v", got)
	}
	close(api.Release)
	if got := sitetest.TasksOf(s).EndOf("ann", slow); got.Status != "completed" || got.Result == nil || !strings.Contains(got.Result.Text(), `"slow":"done"`) {
		t.Errorf("slow: got %+v", got)
	}
	if got := sitetest.TasksOf(s).EndOf("ann", job); got.Status != "completed" {
		t.Errorf("job: got %+v", got)
	}
	if n := len(api.Began); n != 1 {
		t.Errorf("the slow call was made %d times", n)
	}
}

func TestTasks_cancel_ends_the_request(t *testing.T) {
	api := sitetest.NewJobsAPI()
	s := jobsSite(t, api, "task_after 50ms")
	id := sitetest.TasksOf(s).Begin("ann", "slow")
	if got := sitetest.TasksOf(s).Ask("ann", "tasks/cancel", id); got.ResultType != "complete" || got.Status != "" {
		t.Errorf("got %+v, want an empty result", got)
	}
	sitetest.Await(t, "the end of the request", closedAfter(api.Canceled))
	if got := sitetest.TasksOf(s).Ask("ann", "tasks/get", id); got.Status != "cancelled" || got.Result != nil {
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
	api := sitetest.NewJobsAPI()
	s := jobsSite(t, api, "task_after 50ms")
	if got := sitetest.TasksOf(s).Send("ann", `{}`, "tasks/get", "x", `"taskId":"x"`).Error; got.Code != -32021 {
		t.Errorf("tasks/get without the capability: %+v", got)
	}
	for _, revision := range []string{"2025-06-18", "2025-11-25"} {
		t.Run(revision, func(t *testing.T) {
			s := s.With(t)
			stream := sitetest.StreamsOf(s).Open(http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"startJob","arguments":{},"_meta":{"progressToken":"p"}}}`,
				"Content-Type", "application/json", "MCP-Protocol-Version", revision, "X-Test-User", "ann")
			lines := bufio.NewReader(stream.Body)
			if first := sitetest.Message(s.T, lines); !strings.Contains(first, "notifications/progress") || !strings.Contains(first, `"p"`) {
				t.Errorf("got %s, want progress", first)
			}
		})
	}
	close(api.Release)
	if got := s.Succeed("startJob", ""); !strings.Contains(got, `"job":"done"`) {
		t.Errorf("got %s, want the result of the job", got)
	}
}

// reviewedTrips runs a site where the user boss reviews each createTrip.
func reviewedTrips(t *testing.T) *sitetest.Site {
	t.Helper()
	s := sitetest.NewSite(t)
	s.Write("agent.yaml", sitetest.AgentDocument("desk", "  create-trip: {user_identity: false, input_restriction: {require_review: boss}}\n"))
	api := sitetest.Upstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.Copy(w, r.Body)
	})
	s.Start(sitetest.JobsGlobal, "route {\ntest_user\nmcp /mcp TRIPS {\ntask_after 10s\n}\notc TRIPS\noagent DIR/agent.yaml {\nreview_wait off\nreviews /reviews\nengagements /engagements\n}\nreverse_proxy "+api+"\n}")
	return s
}

// TestTasks_in_the_access_log wants the access log entry of a call that became a task to say so.
func TestTasks_in_the_access_log(t *testing.T) {
	for name, tool := range map[string]string{"lasting": "slow", "accepted": "startJob"} {
		t.Run(name, func(t *testing.T) {
			api := sitetest.NewJobsAPI()
			s := sitetest.NewSite(t)
			s.Write("jobs.yaml", sitetest.JobsDocument)
			block := strings.Replace(sitetest.JobsBlock(sitetest.Upstream(t, api.ServeHTTP), "task_after 10ms"), "route {", "route {\nlog_append result {http.tool.outcome}", 1)
			s.Start(sitetest.JobsGlobal, block)
			id := sitetest.TasksOf(s).Begin("ann", tool)
			entry := s.AccessLogEntry("/mcp", 1)
			got := [...]any{entry["outcome"], entry["result"], entry["tool"], entry["tool_call_count"]}
			if want := [...]any{"pending", "pending", tool, nil}; got != want {
				t.Errorf("outcome, placeholder, tool, count: got %v, want %v", got, want)
			}
			close(api.Release)
			if end := sitetest.TasksOf(s).EndOf("ann", id); end.Status != "completed" {
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
			got := sitetest.TasksOf(s).Send("ann", sitetest.TaskCapability, "tools/call", "createTrip", `"name":"createTrip","arguments":{"to":"Bern"}`)
			if got.ResultType != "task" || got.Status != "working" || got.StatusMessage == "" {
				t.Fatalf("got %+v, want a task that waits", got)
			}
			sitetest.ReviewsOf(s).DecideAll(decision)
			end := sitetest.TasksOf(s).EndOf("ann", got.TaskID)
			if end.Status != "completed" || end.Result == nil {
				t.Fatalf("got %+v, want a completed task", end)
			}
			if text, failed := end.Result.Text(), end.Result.IsError; !strings.Contains(text, want) || failed != (decision == "deny") {
				t.Errorf("got %q, failed: %t; want %q, failed: %t", text, failed, want, decision == "deny")
			}
		})
	}
}

// TestTasks_review_over_OTC repeats a call_id after the decision of the reviewer.
func TestTasks_review_over_OTC(t *testing.T) {
	s := reviewedTrips(t)
	call := func() sitetest.Response {
		return s.Request(http.MethodPost, "/otc/call", `{"request":{"call_id":"once","tool_id":"Trips.createTrip","input":{"to":"Bern"}}}`, "X-Test-User", "ann")
	}
	if a := call(); !strings.Contains(a.Body, `"success":false`) || !strings.Contains(a.Body, `"can_retry":true`) {
		t.Errorf("before the decision: %d %s", a.Status, a.Body)
	}
	sitetest.ReviewsOf(s).DecideAll("approve")
	for range 2 {
		if a := call(); !strings.Contains(a.Body, `"success":true`) || !strings.Contains(a.Body, `"Bern"`) {
			t.Errorf("after the decision: %d %s", a.Status, a.Body)
		}
	}
}

// TestTasks_202_over_OTC repeats a call_id whose first request has gone.
func TestTasks_202_over_OTC(t *testing.T) {
	api := sitetest.NewJobsAPI()
	s := jobsSite(t, api, "task_after 10s")
	call := func(ctx context.Context) (string, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/otc/call", strings.NewReader(`{"request":{"call_id":"once","tool_id":"Jobs.startJob","input":{}}}`))
		if err != nil {
			return "", err
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Test-User", "ann")
		response, err := sitetest.Client.Do(r)
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
	sitetest.Eventually(t, "a poll", func() bool { return len(polled(api)) > 0 })
	cancel()
	sitetest.Await(t, "the end of the first request", gone)
	close(api.Release)
	body, err := call(t.Context())
	if err != nil || !strings.Contains(body, `"success":true`) || !strings.Contains(body, `"job":"done"`) {
		t.Errorf("got %s, %v", body, err)
	}
	if n := started(api); n != 1 {
		t.Errorf("the job was started %d times", n)
	}
}
