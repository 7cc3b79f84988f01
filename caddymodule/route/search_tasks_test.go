package route_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// maxBriefList is the largest list of an endpoint that searches, in tokens of four bytes.
const maxBriefList = 2000

// task is something that a user wants done with a large API.
type task struct {
	query     string // what the client searches for
	tool      string // what it then calls
	arguments string
	request   string // what the API receives: method, path and query
	body      string // a part of the request's body; "" for none
}

// tasksOfGitHub are ten tasks for GitHub's document.
var tasksOfGitHub = []task{
	{"search for issues", "search_issues_and_pull_requests", `{"q":"login repo:octo/app is:open"}`, "GET /search/issues?q=login%20repo%3Aocto%2Fapp%20is%3Aopen", ""},
	{"read an issue", "issues_get", `{"owner":"octo","repo":"app","issue_number":7}`, "GET /repos/octo/app/issues/7", ""},
	{"create an issue", "issues_create", `{"owner":"octo","repo":"app","title":"Login fails"}`, "POST /repos/octo/app/issues", `"title":"Login fails"`},
	{"comment on an issue", "issues_create_comment", `{"owner":"octo","repo":"app","issue_number":7,"body":"Thanks"}`, "POST /repos/octo/app/issues/7/comments", `"body":"Thanks"`},
	{"close an issue", "issues_update", `{"owner":"octo","repo":"app","issue_number":7,"state":"closed"}`, "PATCH /repos/octo/app/issues/7", `"state":"closed"`},
	{"merge a pull request", "pulls_merge", `{"owner":"octo","repo":"app","pull_number":3,"merge_method":"squash"}`, "PUT /repos/octo/app/pulls/3/merge", `"merge_method":"squash"`},
	{"list the files that a pull request changes", "pulls_list_files", `{"owner":"octo","repo":"app","pull_number":3,"per_page":5}`, "GET /repos/octo/app/pulls/3/files?per_page=5", ""},
	{"create a branch", "git_create_ref", `{"owner":"octo","repo":"app","ref":"refs/heads/fix","sha":"aa218f56b14c9653891f9e74264a383fa43fefbd"}`, "POST /repos/octo/app/git/refs", `"ref":"refs/heads/fix"`},
	{"re-run the failed jobs of a workflow run", "actions_re_run_workflow_failed_jobs", `{"owner":"octo","repo":"app","run_id":11}`, "POST /repos/octo/app/actions/runs/11/rerun-failed-jobs", ""},
	{"publish a release", "repos_create_release", `{"owner":"octo","repo":"app","tag_name":"v1.0.0"}`, "POST /repos/octo/app/releases", `"tag_name":"v1.0.0"`},
}

// tasksOfSlack are ten tasks for Slack's document. A credential fills the argument token.
var tasksOfSlack = []task{
	{"send a message to a channel", "chat_postMessage", `{"channel":"C1","text":"hello"}`, "POST /api/chat.postMessage?", "text=hello"},
	{"find the user with an email address", "users_lookupByEmail", `{"email":"ada@example.com"}`, "GET /api/users.lookupByEmail?email=ada%40example.com", ""},
	{"list the channels", "conversations_list", `{"limit":5}`, "GET /api/conversations.list?limit=5", ""},
	{"read the history of a channel", "conversations_history", `{"channel":"C1"}`, "GET /api/conversations.history?channel=C1", ""},
	{"add a reaction to a message", "reactions_add", `{"channel":"C1","name":"thumbsup","timestamp":"1.2"}`, "POST /api/reactions.add?", "name=thumbsup"},
	{"set my status", "users_profile_set", `{"profile":"{\"status_text\":\"away\"}"}`, "POST /api/users.profile.set?", "profile="},
	{"invite a user to a channel", "conversations_invite", `{"channel":"C1","users":"U1"}`, "POST /api/conversations.invite?", "users=U1"},
	{"create a reminder", "reminders_add", `{"text":"call","time":"tomorrow"}`, "POST /api/reminders.add?", "text=call"},
	{"search messages", "search_messages", `{"query":"invoice"}`, "GET /api/search.messages?query=invoice", ""},
	{"archive a channel", "conversations_archive", `{"channel":"C1"}`, "POST /api/conversations.archive?", "channel=C1"},
}

// seen is what an API has received last.
type seen struct {
	mu            sync.Mutex
	request, body string
}

func (a *seen) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.request, a.body = r.Method+" "+r.RequestURI, string(body)
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"ok":true}`)
}

func (a *seen) last() (request, body string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.request, a.body
}

// list returns the tools of an endpoint's list, and the size of the list in tokens.
func list(s *sitetest.Site, path string) (names []string, tokens int) {
	s.T.Helper()
	a := s.Post(path, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, map[string]string{"MCP-Protocol-Version": "2025-11-25"})
	var message struct {
		Result struct {
			Tools []struct{ Name string }
		}
	}
	if err := json.Unmarshal([]byte(a.Body), &message); err != nil || a.Status != http.StatusOK {
		s.T.Fatalf("tools/list of %s: %d %.200s", path, a.Status, a.Body)
	}
	for _, tool := range message.Result.Tools {
		names = append(names, tool.Name)
	}
	return names, len(a.Body) / 4
}

// fulfil does a task as a client does that knows only the tools that search: it searches, reads the
// schema of the tool if the search has not named all arguments that the task needs, and calls it. It
// returns the number of calls.
func fulfil(s *sitetest.Site, want task) (calls int) {
	s.T.Helper()
	type found struct {
		Tools []struct {
			Name, Kind string
			Required   []string
		}
	}
	calls++
	hits := decodeJSON[found](s.T, s.Succeed("search_tools", fmt.Sprintf(`{"queries":%q}`, want.query)))
	at := slices.IndexFunc(hits.Tools, func(t struct {
		Name, Kind string
		Required   []string
	},
	) bool {
		return t.Name == want.tool
	})
	if at < 0 {
		s.T.Fatalf("%q does not find %s but %v", want.query, want.tool, hits.Tools)
	}
	tool := hits.Tools[at]
	arguments := decodeJSON[map[string]any](s.T, want.arguments)
	known := func() bool {
		for name := range arguments {
			if !slices.Contains(tool.Required, name) {
				return false
			}
		}
		return true
	}
	if !known() {
		calls++
		type description struct {
			Tools []struct {
				Name        string
				InputSchema struct{ Properties map[string]any }
			}
		}
		described := decodeJSON[description](s.T, s.Succeed("describe_tools", fmt.Sprintf(`{"names":[%q]}`, want.tool)))
		for name := range arguments {
			if described.Tools[0].InputSchema.Properties[name] == nil {
				s.T.Errorf("%s: the schema has no argument %s", want.tool, name)
			}
		}
	}
	calls++
	s.Succeed("call_"+tool.Kind+"_tool", fmt.Sprintf(`{"name":%q,"arguments":%s}`, want.tool, want.arguments))
	return calls
}

// decodeJSON decodes JSON.
func decodeJSON[T any](t *testing.T, text string) (value T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%v in %.300s", err, text)
	}
	return value
}

// TestSearch_tasks does tasks with large documents behind one mcp line. A client gets a short list, and
// each task takes three calls at most.
func TestSearch_tasks(t *testing.T) {
	for _, c := range []struct {
		document, options string
		tasks             []task
	}{
		{"github-api.github.com.json.gz", "", tasksOfGitHub},
		{"slack-web-v2.json.gz", " {\n\tcredential query token s3cret\n\tsearch auto\n}", tasksOfSlack},
	} {
		t.Run(c.document, func(t *testing.T) {
			s := sitetest.NewSite(t)
			s.Write("api.json", string(testkit.ReadDocument(t, "openapi/"+c.document)))
			api := new(seen)
			s.Start("", "mcp DIR/api.json"+c.options+"\nreverse_proxy "+sitetest.Upstream(t, api.ServeHTTP))
			names, tokens := list(s, "/mcp")
			if len(names) < 4 || tokens > maxBriefList {
				t.Errorf("the list has %d tools and about %d tokens, want at least 4 and at most %d tokens: %v", len(names), tokens, maxBriefList, names)
			}
			t.Logf("the list has about %d tokens", tokens)
			for _, task := range c.tasks {
				calls := fulfil(s.With(t), task)
				request, body := api.last()
				if calls > 3 || !strings.HasPrefix(request, task.request) || !strings.Contains(body, task.body) {
					t.Errorf("%s: %d calls send %s %s; want 3 at most, and %s with %s", task.query, calls, request, body, task.request, task.body)
				}
			}
		})
	}
}
