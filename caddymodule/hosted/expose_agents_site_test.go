package hosted_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// exposed runs a site whose endpoints serve its hosted agents as tools.
func exposed(t *testing.T, agent, endpoints, options string, respond func(*modelserver.Request) modelserver.Step) *sitetest.HostedSite {
	t.Helper()
	s := sitetest.NewHostedSite(t, agent, respond)
	s.Start("agents {\n\tstore bolt DIR/store.db\n}", exposedBlock(s, endpoints, options))
	return s
}

func exposedBlock(s *sitetest.HostedSite, endpoints, options string) string {
	s.T.Helper()
	return strings.Replace(s.Block(options), "oagent DIR", endpoints+"\noagent DIR", 1)
}

const bothEndpoints = "mcp /mcp TRIPS {\nexpose_agents\nmax_streams 10\n}\notc /otc TRIPS {\nexpose_agents\n}"

// agentResult is the result of a call of an agent.
type agentResult struct {
	Content           []struct{ Text string }
	StructuredContent struct {
		Status, Text, Engagement string
		Questions                []struct{ ID, Text string }
		Exposes                  json.RawMessage
	}
	IsError       bool
	ResultType    string
	TaskID        string
	RequestState  string
	InputRequests map[string]struct {
		Method string
		Params struct{ Message string }
	}
	Tools []struct {
		Name, Description string
		InputSchema       json.RawMessage
		Annotations       struct{ ReadOnlyHint bool }
	}
}

// mcpResult sends a request of 2026-07-28 for a user.
func mcpResult(s *sitetest.Site, user, capabilities, method, name, params string) (got agentResult) {
	s.T.Helper()
	a := mcp2026(s, user, capabilities, method, name, params)
	var envelope struct {
		Result json.RawMessage
		Error  *struct{ Message string }
	}
	if err := json.Unmarshal([]byte(a.Body), &envelope); err != nil || envelope.Error != nil {
		s.T.Fatalf("%v: %d %s", err, a.Status, a.Body)
	}
	if err := json.Unmarshal(envelope.Result, &got); err != nil {
		s.T.Fatal(err)
	}
	return got
}

func mcp2026(s *sitetest.Site, user, capabilities, method, name, params string) sitetest.Response {
	s.T.Helper()
	if params != "" {
		params += ","
	}
	message := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":%s}}}`,
		method, params, capabilities)
	header := []string{"Accept", "application/json, text/event-stream", "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method, "X-Test-User", user}
	if name != "" {
		header = append(header, "Mcp-Name", name)
	}
	return s.Request(http.MethodPost, "/mcp", message, header...)
}

// callAgent calls an agent as a tool of mcp.
func callAgent(s *sitetest.Site, user, capabilities, agent, input string) agentResult {
	s.T.Helper()
	return mcpResult(s, user, capabilities, "tools/call", agent, fmt.Sprintf(`"name":%q,"arguments":{"input":%q}`, agent, input))
}

func TestExpose_mcp(t *testing.T) {
	s := exposed(t, sitetest.AgentDocument("trip-desk", tripAgent)+"exposes: {last: recent._name}\n", bothEndpoints, "",
		sitetest.Play(sitetest.Calls("get-trip", `{"id":"7"}`), modelserver.Step{Text: "Trip 7 is on time."}))
	found := false
	for _, listed := range mcpResult(s.Site, "ann", "{}", "tools/list", "", "").Tools {
		if listed.Name != "trip_desk" {
			continue
		}
		found = true
		if want := `{"type":"object","properties":{"input":{"type":"string","description":"The message to the agent."}},"required":["input"],"additionalProperties":false}`; string(listed.InputSchema) != want {
			t.Errorf("input schema %s, want %s", listed.InputSchema, want)
		}
		if listed.Annotations.ReadOnlyHint || listed.Description == "" {
			t.Errorf("listed as %+v", listed)
		}
	}
	if !found {
		t.Fatal("the agent is not listed", mcp2026(s.Site, "ann", "{}", "tools/list", "", "").Body, s.Log())
	}
	got := callAgent(s.Site, "ann", "{}", "trip_desk", "Is trip 7 on time?")
	answer := got.StructuredContent
	if got.IsError || len(got.Content) == 0 {
		t.Fatalf("got %+v, want a text without an error", got)
	}
	about := [...]string{answer.Status, answer.Text, string(answer.Exposes), got.Content[0].Text}
	if want := [...]string{"complete", "Trip 7 is on time.", `{"last":"get-trip"}`, "Trip 7 is on time."}; about != want {
		t.Fatalf("got %q, want %q", about, want)
	}
	if v := s.State("ann", answer.Engagement); v.Text != answer.Text || v.Agent != "trip-desk" {
		t.Errorf("Engagement of the caller: %+v", v)
	}
	if a := s.As("bob", "GET", answer.Engagement, ""); a.Status != http.StatusNotFound {
		t.Errorf("another user sees the Engagement: %d", a.Status)
	}
	if received := s.API.Received(); len(received) != 1 || received[0].URL.Path != "/trips/7" {
		t.Errorf("the API received %v", received)
	}
}

func TestExpose_otc(t *testing.T) {
	release := make(chan struct{})
	s := exposed(t, sitetest.AgentDocument("trip-desk", tripAgent), "otc /otc TRIPS {\nexpose_agents trip-desk\ntimeout 1s\n}", "", func(*modelserver.Request) modelserver.Step {
		<-release
		return modelserver.Step{Text: "Trip 7 is on time."}
	})
	if list := s.As("ann", "GET", "/otc/tools", ""); !strings.Contains(list.Body, "Agents.trip_desk@1.0.0") {
		t.Errorf("the list has no agent: %s", list.Body)
	}
	const body = `{"tool_id":"Agents.trip_desk","call_id":"c-1","input":{"input":"Is trip 7 on time?"}}`
	if first := s.As("ann", "POST", "/otc/call", body); !strings.Contains(first.Body, `"can_retry":true`) {
		t.Fatalf("call whose agent takes long: %d %s", first.Status, first.Body)
	}
	close(release)
	repeat := func(user string) (last sitetest.Response) {
		sitetest.Eventually(t, "the end of the call", func() bool {
			last = s.As(user, "POST", "/otc/call", body)
			return !strings.Contains(last.Body, `"can_retry":true`)
		})
		return last
	}
	if second := repeat("ann"); !strings.Contains(second.Body, `"text":"Trip 7 is on time."`) {
		t.Errorf("repeated call: %d %s", second.Status, second.Body)
	}
	if n := len(s.Models.Requests()); n != 1 {
		t.Errorf("the model got %d requests, want 1, since all calls are of one run", n)
	}
	if other := repeat("bob"); len(s.Models.Requests()) != 2 {
		t.Errorf("a call of another user with the same call_id: %s, %d requests to the model", other.Body, len(s.Models.Requests()))
	}
}

const wholeClient = `{"elicitation":{"form":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`

// askUser is a message of the model that asks the user.
var askUser = modelserver.Step{Calls: []modelserver.Call{{ID: "1", Name: "ask-user", Arguments: `{"question":"Which trip?"}`}}}

func TestExpose_questions(t *testing.T) {
	s := exposed(t, sitetest.AgentDocument("desk", tripAgent), bothEndpoints, "", sitetest.Play(askUser, modelserver.Step{Text: "Trip 7."}))
	got := callAgent(s.Site, "ann", "{}", "desk", "Go")
	if c := got.StructuredContent; got.IsError || len(c.Questions) != 1 {
		t.Fatalf("client without forms: got %+v, want a question", got)
	}
	if c := got.StructuredContent; c.Questions[0].Text != "Which trip?" || c.Status != "awaiting-additional-input" {
		t.Fatalf("client without forms: got %q with the status %s, want Which trip? with awaiting-additional-input", c.Questions[0].Text, c.Status)
	}
	if v := s.View(s.As("ann", "POST", got.StructuredContent.Engagement, `{"input":"The seventh"}`, "Prefer", "wait=60")); v.Text != "Trip 7." {
		t.Errorf("answered at the Engagement: %+v", v)
	}
	got = callAgent(s.Site, "ann", `{"elicitation":{}}`, "desk", "Go")
	if got.ResultType != "input_required" || got.InputRequests["answer"].Params.Message != "Which trip?" {
		t.Fatalf("client with forms: %+v", got)
	}
	again := func(user, action string) sitetest.Response {
		return mcp2026(s.Site, user, `{"elicitation":{}}`, "tools/call", "desk", fmt.Sprintf(
			`"name":"desk","arguments":{"input":"Go"},"requestState":%q,"inputResponses":{"answer":{"action":%q,"content":{"answer":"The seventh"}}}`, got.RequestState, action))
	}
	if a := again("bob", "accept"); strings.Contains(a.Body, "Trip 7.") {
		t.Errorf("another user answered: %s", a.Body)
	}
	if a := again("ann", "accept"); !strings.Contains(a.Body, `"text":"Trip 7."`) {
		t.Errorf("answered: %s", a.Body)
	}
	requests := s.Models.Requests()
	messages := requests[len(requests)-1].Messages
	if last := messages[len(messages)-1]; last.Text != "The seventh" {
		t.Errorf("the model got %+v", last)
	}
	got = callAgent(s.Site, "ann", `{"elicitation":{}}`, "desk", "Go")
	again("ann", "decline")
	requests = s.Models.Requests()
	messages = requests[len(requests)-1].Messages
	if last := messages[len(messages)-1]; last.Role != "tool" || !strings.Contains(last.Text, "does not want") {
		t.Errorf("the model got %+v", last)
	}
}

const taskEndpoint = "mcp /mcp TRIPS {\nexpose_agents\ntask_after 10s\n}"

// agentTask calls the agent desk, whose call becomes a task, and returns its id.
func agentTask(s *sitetest.HostedSite, user, capabilities string) string {
	s.T.Helper()
	got := callAgent(s.Site, user, capabilities, "desk", "Go")
	if got.ResultType != "task" || got.TaskID == "" {
		s.T.Fatalf("no task: %+v", got)
	}
	return got.TaskID
}

func TestExpose_tasks(t *testing.T) {
	release := make(chan struct{})
	s := exposed(t, sitetest.AgentDocument("desk", tripAgent), taskEndpoint, "", func(*modelserver.Request) modelserver.Step {
		<-release
		return modelserver.Step{Text: "Trip 7."}
	})
	id := agentTask(s, "ann", sitetest.TaskCapability)
	if got := sitetest.TasksOf(s.Site).Ask("bob", "tasks/get", id); got.Error.Code == 0 {
		t.Errorf("another user sees the task: %+v", got)
	}
	if got := sitetest.TasksOf(s.Site).Ask("ann", "tasks/get", id); got.Status != "working" {
		t.Errorf("the task %+v", got)
	}
	close(release)
	if got := sitetest.TasksOf(s.Site).EndOf("ann", id); got.Status != "completed" || got.Result == nil || got.Result.Content[0].Text != "Trip 7." {
		t.Errorf("the task ended as %+v", got)
	}
}

func TestExpose_tasks_wait_for_reviews(t *testing.T) {
	s := exposed(t, sitetest.AgentDocument("desk", deskReviewed), taskEndpoint, "reviews /reviews",
		sitetest.Play(sitetest.Calls("create-trip", `{"to":"Bern"}`), modelserver.Step{Text: "Created."}))
	id := agentTask(s, "ann", sitetest.TaskCapability)
	reviews := openReviews(s, 1)
	if got := sitetest.TasksOf(s.Site).Ask("ann", "tasks/get", id); got.Status != "working" {
		t.Errorf("the task %+v", got)
	}
	decide(s, reviews[0], "approve")
	if got := sitetest.TasksOf(s.Site).EndOf("ann", id); got.Status != "completed" || got.Result.Content[0].Text != "Created." {
		t.Errorf("the task ended as %+v", got)
	}
}

func TestExpose_tasks_ask_the_user(t *testing.T) {
	s := exposed(t, sitetest.AgentDocument("desk", tripAgent), "mcp /mcp TRIPS {\nexpose_agents\ntask_after 1ms\n}", "", sitetest.Play(askUser, modelserver.Step{Text: "Trip 7."}))
	id := agentTask(s, "ann", wholeClient)
	var got sitetest.TaskState
	sitetest.Eventually(t, "the question", func() bool {
		got = sitetest.TasksOf(s.Site).Send("ann", wholeClient, "tasks/get", id, fmt.Sprintf(`"taskId":%q`, id))
		return got.Status == "input_required"
	})
	for key := range mcpResult(s.Site, "ann", wholeClient, "tasks/get", id, fmt.Sprintf(`"taskId":%q`, id)).InputRequests {
		sitetest.TasksOf(s.Site).Send("ann", wholeClient, "tasks/update", id, fmt.Sprintf(`"taskId":%q,"inputResponses":{%q:{"action":"accept","content":{"answer":"The seventh"}}}`, id, key))
	}
	if got := sitetest.TasksOf(s.Site).EndOf("ann", id); got.Status != "completed" || got.Result.Content[0].Text != "Trip 7." {
		t.Errorf("the task ended as %+v", got)
	}
	if n := len(s.Models.Requests()); n != 2 {
		t.Errorf("the model got %d requests, want 2: the answer counts once", n)
	}
}

// openReviews waits until there are so many reviews, and returns their locations.
func openReviews(s *sitetest.HostedSite, count int) (locations []string) {
	s.T.Helper()
	sitetest.Eventually(s.T, fmt.Sprintf("%d reviews", count), func() bool {
		var list struct{ Reviews []struct{ Location string } }
		if err := json.Unmarshal([]byte(s.As("boss", "GET", "/reviews", "").Body), &list); err != nil {
			s.T.Fatal(err)
		}
		locations = nil
		for _, r := range list.Reviews {
			locations = append(locations, r.Location)
		}
		return len(locations) == count
	})
	return locations
}

const deskReviewed = "  create-trip: {user_identity: false, input_restriction: {require_review: boss}}\n"

func TestExpose_cancel(t *testing.T) {
	s := exposed(t, sitetest.AgentDocument("desk", deskReviewed), "mcp /mcp TRIPS {\nexpose_agents\ntask_after 10s\n}\notc TRIPS {\nexpose_agents\ntimeout 1s\n}", "reviews /reviews",
		sitetest.Play(sitetest.Calls("create-trip", `{"to":"Bern"}`), modelserver.Step{Text: "Created."}))
	t.Run("task", func(t *testing.T) {
		id := agentTask(s, "ann", sitetest.TaskCapability)
		sitetest.Eventually(t, "a task that waits for a review", func() bool {
			return strings.Contains(sitetest.TasksOf(s.Site).Ask("ann", "tasks/get", id).StatusMessage, "review")
		})
		sitetest.TasksOf(s.Site).Ask("ann", "tasks/cancel", id)
		openReviews(s, 0)
	})
	t.Run("client that goes", func(t *testing.T) {
		stream := streamAgent(s)
		for line := ""; !strings.Contains(line, "waits for a review"); {
			line = sitetest.Message(s.T, stream.lines)
		}
		stream.cancel()
		openReviews(s, 0)
	})
	t.Run("client that can repeat the call", func(t *testing.T) {
		if a := s.As("ann", "POST", "/otc/call", `{"tool_id":"Agents.desk","call_id":"1","input":{"input":"Go"}}`); !strings.Contains(a.Body, `"can_retry":true`) {
			t.Errorf("%d %s", a.Status, a.Body)
		}
		openReviews(s, 1)
	})
}

func TestExpose_reports_progress(t *testing.T) {
	release := make(chan struct{})
	s := exposed(t, sitetest.AgentDocument("desk", tripAgent), bothEndpoints, "", func(*modelserver.Request) modelserver.Step {
		<-release
		return modelserver.Step{Text: "Trip 7."}
	})
	stream := streamAgent(s)
	var seen []string
	for {
		line := sitetest.Message(s.T, stream.lines)
		if !strings.Contains(line, "notifications/progress") {
			if !strings.Contains(line, "Trip 7.") {
				t.Errorf("result %s", line)
			}
			break
		}
		if seen = append(seen, line); len(seen) == 1 {
			close(release)
		}
	}
	if len(seen) == 0 || !strings.Contains(seen[0], "desk is working") {
		t.Errorf("progress %v", seen)
	}
}

func TestExpose_errors(t *testing.T) {
	s := sitetest.NewHostedSite(t, sitetest.AgentDocument("desk", tripAgent), sitetest.Play(modelserver.Step{Text: "Trip 7."}))
	const global = "agents {\n\tstore bolt DIR/store.db\n}"
	for name, c := range map[string]struct{ endpoint, want string }{
		"unknown":    {"mcp TRIPS {\nexpose_agents dsk\n}", "did you mean desk"},
		"otc":        {"otc TRIPS {\nexpose_agents desk other\n}", "desk"},
		"accepted":   {"mcp TRIPS {\nexpose_agents desk of-a-user\n}", "accept"},
		"with agent": {"mcp TRIPS {\nexpose_agents\nagent desk\n}", "expose_agents"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := s.With(t).Load(global, exposedBlock(s, c.endpoint, "")); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
	if err := s.Load(global, "mcp TRIPS {\nexpose_agents\n}\nreverse_proxy 127.0.0.1:1"); err == nil || !strings.Contains(err.Error(), "model") {
		t.Errorf("a site without agents: %v", err)
	}
	if err := s.Load("agents {\n\tstore bolt DIR/store.db\ntoolset agents TRIPS\n}", exposedBlock(s, "mcp agents {\nexpose_agents\n}", "")); err == nil || !strings.Contains(err.Error(), "name") {
		t.Errorf("a toolset with the name of the agents: %v", err)
	}
	s.Start(global, exposedBlock(s, bothEndpoints, ""))
	for name, c := range map[string]struct{ user, arguments, want string }{
		"not authenticated": {"", `{"input":"Go"}`, "authenticated"},
		"no input":          {"ann", `{}`, "input"},
		"empty input":       {"ann", `{"input":" "}`, "empty"},
		"more arguments":    {"ann", `{"input":"Go","user":"bob"}`, "user"},
		"long input":        {"ann", `{"input":"` + strings.Repeat("x", 70<<10) + `"}`, "bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			if a := mcp2026(s.Site, c.user, "{}", "tools/call", "desk", `"name":"desk","arguments":`+c.arguments); !strings.Contains(a.Body, `"isError":true`) || !strings.Contains(a.Body, c.want) {
				t.Errorf("%d %s", a.Status, a.Body)
			}
		})
	}
	if n := len(s.Models.Requests()); n != 0 {
		t.Errorf("the model got %d requests", n)
	}
}

// TestExpose_is_an_ordinary_call looks at what handlers between the endpoint and oagent, metrics and logs see of a
// call, and which tool gets a prefix.
func TestExpose_is_an_ordinary_call(t *testing.T) {
	s := sitetest.NewHostedSite(t, sitetest.AgentDocument("list-trips", tripAgent), sitetest.Play(modelserver.Step{Text: "Trip 7."}))
	document, err := os.ReadFile(filepath.Join(s.Dir, "trips.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s.Write("trips.yaml", strings.Replace(string(document), "listTrips", "list_trips", 1))
	s.Start("agents {\n\tstore bolt DIR/store.db\n}", exposedBlock(s, bothEndpoints+"\n@limited header X-Refused yes\nrespond @limited \"too many\" 429", ""))
	got := callAgent(s.Site, "ann", "{}", "agents_list_trips", "Go")
	if got.IsError || got.StructuredContent.Text != "Trip 7." {
		t.Fatalf("the agent with the name of a tool: %+v", got)
	}
	s.Logged(`"tool":"list_trips"`, `"toolset":"agents"`, `"outcome":"ok"`)
	if a := s.As("ann", "POST", "/otc/call", `{"tool_id":"Agents.list_trips","input":{"input":"Go"}}`, "X-Refused", "yes"); !strings.Contains(a.Body, "429") {
		t.Errorf("call that a handler refuses: %s", a.Body)
	}
	if n := len(s.Models.Requests()); n != 1 {
		t.Errorf("the model got %d requests, want 1", n)
	}
}

func TestExpose_search_and_changes(t *testing.T) {
	s := exposed(t, sitetest.AgentDocument("desk", tripAgent), "mcp /mcp TRIPS {\nexpose_agents\nsearch on\n}", "", sitetest.Play(modelserver.Step{Text: "Trip 7."}))
	found := mcp2026(s.Site, "ann", "{}", "tools/call", "search_tools", `"name":"search_tools","arguments":{"queries":"desk"}`)
	if !strings.Contains(found.Body, `desk`) || !strings.Contains(found.Body, "write") {
		t.Errorf("search: %s", found.Body)
	}
	if a := mcp2026(s.Site, "ann", "{}", "tools/call", "call_write_tool", `"name":"call_write_tool","arguments":{"name":"desk","arguments":{"input":"Go"}}`); !strings.Contains(a.Body, "Trip 7.") {
		t.Errorf("call of what was found: %s", a.Body)
	}
	stream := sitetest.StreamsOf(s.Site).ListenTo(`{"toolsListChanged":true}`)
	s.Write("agent.yaml", sitetest.AgentDocument("desk", tripAgent)+"---\n"+sitetest.AgentDocument("clerk", tripAgent))
	reader := bufio.NewReader(stream.Body)
	for text := ""; !strings.Contains(text, "tools/list_changed"); {
		text = sitetest.Message(s.T, reader)
	}
	if a := mcp2026(s.Site, "ann", "{}", "tools/call", "clerk", `"name":"clerk","arguments":{"input":"Go"}`); !strings.Contains(a.Body, "Trip 7.") {
		t.Errorf("the new agent: %s", a.Body)
	}
}

// agentStream is a call of the agent desk with progress.
type agentStream struct {
	lines  *bufio.Reader
	cancel context.CancelFunc
}

func streamAgent(s *sitetest.HostedSite) agentStream {
	s.T.Helper()
	const message = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"desk","arguments":{"input":"Go"},"_meta":{"progressToken":"p","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	ctx, cancel := context.WithCancel(s.T.Context())
	s.T.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, "POST", s.URL+"/mcp", strings.NewReader(message))
	if err != nil {
		s.T.Fatal(err)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2026-07-28",
		"Mcp-Method": "tools/call", "Mcp-Name": "desk", "X-Test-User": "ann",
	} {
		r.Header.Set(name, value)
	}
	response, err := sitetest.Staying.Do(r)
	if err != nil {
		s.T.Fatal(err)
	}
	s.T.Cleanup(func() { response.Body.Close() })
	return agentStream{bufio.NewReader(response.Body), cancel}
}
