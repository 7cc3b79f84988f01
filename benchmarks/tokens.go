package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/mcpadapter"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/result"
	"github.com/fairwayhq/fairway/tools/search"
)

// task is what a user wants from an API in three steps.
type task struct {
	document string
	steps    [3]taskStep
}

// taskStep is one tool call of a task.
type taskStep struct {
	query, tool string
	part        string // path of the part of a large schema that the call needs
}

const (
	githubDocument     = "github-api.github.com.json.gz"
	stripeDocument     = "stripe.json.gz"
	kubernetesDocument = "kubernetes-1.33-swagger-2.0.json.gz"
)

// tasks are ten tasks of large APIs.
var tasks = []task{
	{githubDocument, [3]taskStep{{query: "list issues of a repository", tool: "issues_list_for_repo"}, {query: "comment on an issue", tool: "issues_create_comment"}, {query: "close an issue", tool: "issues_update"}}},
	{githubDocument, [3]taskStep{{query: "create a branch", tool: "git_create_ref"}, {query: "open a pull request", tool: "pulls_create"}, {query: "merge a pull request", tool: "pulls_merge"}}},
	{githubDocument, [3]taskStep{{query: "list workflow runs", tool: "actions_list_workflow_runs_for_repo"}, {query: "download the logs of a job", tool: "actions_download_job_logs_for_workflow_run"}, {query: "rerun the failed jobs of a run", tool: "actions_re_run_workflow_failed_jobs"}}},
	{githubDocument, [3]taskStep{{query: "get the latest release", tool: "repos_get_latest_release"}, {query: "create a release", tool: "repos_create_release"}, {query: "upload a release asset", tool: "repos_upload_release_asset"}}},
	{stripeDocument, [3]taskStep{{query: "search customers", tool: "GetCustomersSearch"}, {query: "list the charges", tool: "GetCharges"}, {query: "refund a payment", tool: "PostRefunds"}}},
	{stripeDocument, [3]taskStep{{query: "create a customer", tool: "PostCustomers"}, {query: "create a price", tool: "PostPrices"}, {query: "create a subscription", tool: "PostSubscriptions"}}},
	{stripeDocument, [3]taskStep{{query: "create an invoice", tool: "PostInvoices"}, {query: "finalize an invoice", tool: "PostInvoicesInvoiceFinalize"}, {query: "send an invoice", tool: "PostInvoicesInvoiceSend"}}},
	{kubernetesDocument, [3]taskStep{{query: "list pods of a namespace", tool: "listCoreV1NamespacedPod"}, {query: "read the log of a pod", tool: "readCoreV1NamespacedPodLog"}, {query: "delete a pod", tool: "deleteCoreV1NamespacedPod"}}},
	{kubernetesDocument, [3]taskStep{{query: "create a namespace", tool: "createCoreV1Namespace"}, {query: "create a config map", tool: "createCoreV1NamespacedConfigMap"}, {query: "create a service", tool: "createCoreV1NamespacedService", part: "spec"}}},
	{kubernetesDocument, [3]taskStep{{query: "create a deployment", tool: "createAppsV1NamespacedDeployment", part: "spec/template/spec/containers"}, {query: "scale a deployment", tool: "patchAppsV1NamespacedDeploymentScale"}, {query: "read the status of a deployment", tool: "readAppsV1NamespacedDeploymentStatus"}}},
}

// maxTaskTokens is the target for the mean of all tasks.
const maxTaskTokens = 4000

// compareTasks prints how many tokens a model reads before it can make the calls of each task: the list of
// tools, and the answers of the built-in tools. The calls themselves cost the same without a search.
func compareTasks(_ context.Context, t *table, _ *gateway, _ settings) error {
	t.section("Tokens that a model reads for a task of three steps", "first step", "tokens", "whole list")
	total := 0
	sets := map[string]*tools.Toolset{}
	for _, task := range tasks {
		if sets[task.document] == nil {
			set, err := sharedTools(task.document)
			if errors.Is(err, fs.ErrNotExist) {
				t.note("left out, the documents are not in ../shared/openapi")
				return nil
			} else if err != nil {
				return err
			}
			sets[task.document] = set
		}
		tokens, err := task.tokens(sets[task.document])
		if err != nil {
			return err
		}
		total += tokens
		var whole bytes.Buffer
		if err := mcpadapter.New(mcpadapter.Options{}).WriteTools(&whole, sets[task.document]); err != nil {
			return err
		}
		t.line(task.steps[0].query, fmt.Sprint(tokens), fmt.Sprint(whole.Len()/result.BytesPerToken))
	}
	mean := total / len(tasks)
	t.line("mean", fmt.Sprint(mean), atMost(maxTaskTokens).verdict(float64(mean)))
	return nil
}

// sharedTools returns the tools of a document in ../shared/openapi.
func sharedTools(name string) (*tools.Toolset, error) {
	dir, err := os.MkdirTemp("", "fairway-benchmarks-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "document.json")
	if err := unpackShared(name, path); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	set, err := tools.Build(data, tools.BuildOptions{})
	if err == nil {
		set.Finder = search.NewFinder(set.Tools())
	}
	return set, err
}

// tokens returns how many tokens the task takes.
func (t task) tokens(set *tools.Toolset) (int, error) {
	searching := set.With(route.BuiltinTools(set, tools.SearchTools, tools.DescribeTools, tools.CallReadTool, tools.CallWriteTool)...).Listing()
	var list bytes.Buffer
	if err := mcpadapter.New(mcpadapter.Options{}).WriteTools(&list, searching); err != nil {
		return 0, err
	}
	c := taskCalls{set: searching, size: list.Len()}
	queries := make([]string, len(t.steps))
	for i, step := range t.steps {
		queries[i] = step.query
	}
	found, err := c.search(queries)
	for _, step := range t.steps {
		if err == nil {
			err = c.describe(step, found)
		}
	}
	return c.size / result.BytesPerToken, err
}

// taskCalls runs built-in tools and counts the bytes of their arguments and answers.
type taskCalls struct {
	set  *tools.Toolset
	size int
}

// search searches the tools for all queries at once. It returns the tools that it finds, by name, and
// whether the answer has their schema.
func (c *taskCalls) search(queries []string) (found map[string]bool, err error) {
	var list struct {
		Tools []struct {
			Name        string
			InputSchema json.RawMessage
		}
	}
	body, err := c.run(route.RunSearch, tools.SearchTools, map[string]any{"queries": queries})
	if err == nil {
		err = json.Unmarshal(body, &list)
	}
	found = map[string]bool{}
	for _, t := range list.Tools {
		found[t.Name] = t.InputSchema != nil
	}
	return found, err
}

// describe describes the tool of a step unless the search has returned its schema. If the search has not
// found the tool, it is searched alone first.
func (c *taskCalls) describe(step taskStep, found map[string]bool) (err error) {
	if _, ok := found[step.tool]; !ok {
		if found, err = c.search([]string{step.query}); err != nil {
			return err
		}
		if _, ok := found[step.tool]; !ok {
			return fmt.Errorf("%q does not find %s", step.query, step.tool)
		}
	}
	if found[step.tool] {
		return nil
	}
	if _, err = c.run(describe, tools.DescribeTools, map[string]any{"names": []string{step.tool}}); err == nil && step.part != "" {
		_, err = c.run(describe, tools.DescribeTools, map[string]any{"names": []string{step.tool}, "path": step.part})
	}
	return err
}

// describe runs describe_tools for a caller who may call everything.
func describe(set *tools.Toolset, call *tools.Call, allowed func(*tools.Tool) bool) *tools.Result {
	return route.RunDescribe(set, call, nil, func(t *tools.Tool) bool { return !allowed(t) })
}

// run runs a built-in tool.
func (c *taskCalls) run(run func(*tools.Toolset, *tools.Call, func(*tools.Tool) bool) *tools.Result, kind tools.Builtin, arguments map[string]any) ([]byte, error) {
	text, err := json.Marshal(arguments)
	if err != nil {
		return nil, err
	}
	b, _ := c.set.Tool(c.set.NameOf(kind))
	call, err := b.Bind(text)
	if err != nil {
		return nil, err
	}
	body := run(c.set, call, func(*tools.Tool) bool { return true }).Body
	c.size += len(text) + len(body)
	return body, nil
}

const (
	fileSize      = 5 << 20 // bytes
	maxFileTokens = 400     // target for a file of that size in each direction
)

// compareFiles prints how many tokens a file costs a model: one that a tool takes, with create_upload and the call, and one that a tool
// returns. They are those of whole JSON-RPC messages, of which a model sees a part.
func compareFiles(ctx context.Context, t *table, g *gateway, _ settings) error {
	content := bytes.Repeat([]byte{0, 1, 2, 3, 0xff}, fileSize/5)
	taken := make(chan bool, 1)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.Header().Set("Content-Type", "video/mp4")
			_, _ = w.Write(content)
			return
		}
		body, _ := io.ReadAll(r.Body)
		taken <- bytes.Equal(body, content)
	}))
	defer api.Close()
	own, err := g.startFiles(ctx, strings.TrimPrefix(api.URL, "http://"))
	if err != nil {
		return err
	}
	defer own.stop()
	f := fileCalls{url: "http://" + own.tools + "/mcp"}
	created, err := f.call(ctx, "create_upload", `{"tool":"put_file","field":"body","name":"report.pdf","type":"application/pdf"}`)
	if err != nil {
		return err
	}
	var upload struct {
		Upload     string
		Descriptor struct{ URL string }
	}
	if err := json.Unmarshal(created, &upload); err != nil {
		return fmt.Errorf("%w: %s", err, created)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, upload.Descriptor.URL, bytes.NewReader(content))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/pdf")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := f.call(ctx, "put_file", `{"body":{"upload":"`+upload.Upload+`"}}`); err != nil {
		return err
	} else if !<-taken {
		return errors.New("the API got another file")
	}
	sent := f.size / result.BytesPerToken
	link, err := f.call(ctx, "get_file", `{}`)
	if err != nil {
		return err
	} else if !bytes.Contains(link, []byte(`"uri"`)) {
		return fmt.Errorf("the response is no link: %.200s", link)
	}
	returned := f.size/result.BytesPerToken - sent
	t.section("Tokens that a file of 5 MB costs", "direction", "tokens", "target", "as base64")
	inBase64 := fmt.Sprint(fileSize * 4 / 3 * 2 / 3) // of which a token has about 1.5 characters
	t.line("to a tool", fmt.Sprint(sent), atMost(maxFileTokens).verdict(float64(sent)), inBase64)
	t.line("from a tool", fmt.Sprint(returned), atMost(maxFileTokens).verdict(float64(returned)), inBase64)
	return nil
}

// startFiles starts a process with uploads in front of an API with files.
func (g *gateway) startFiles(ctx context.Context, api string) (*gateway, error) {
	const document = `{"openapi":"3.1.0","info":{"title":"Files","version":"1"},"paths":{"/file":{
		"put":{"operationId":"put_file","requestBody":{"required":true,"content":{"application/pdf":{}}},"responses":{"200":{"description":"ok"}}},
		"get":{"operationId":"get_file","responses":{"200":{"description":"ok","content":{"video/mp4":{}}}}}}}}`
	if err := os.WriteFile(filepath.Join(g.dir, "files.json"), []byte(document), 0o600); err != nil {
		return nil, err
	}
	own := &gateway{upstream: g.upstream, dir: g.dir}
	if err := freeAddresses(&own.admin, &own.tools); err != nil {
		return nil, err
	}
	caddyfile := fmt.Sprintf(`{
	admin %s
	persist_config off
	log {
		level ERROR
	}
	agents {
		store bolt files.db
		toolset files files.json {
			max_response 8MiB
		}
		uploads http://%s/uploads
	}
}
http://%[2]s {
	agent_uploads
	mcp /mcp files
	reverse_proxy /file %s
	reverse_proxy %s
}
`, own.admin, own.tools, api, g.upstream)
	if err := own.prepare(ctx, g.cmd.Path, "files", caddyfile); err != nil {
		return nil, err
	}
	return own, own.start(ctx, own.tools)
}

// fileCalls calls tools, and counts the bytes of the messages.
type fileCalls struct {
	url  string
	size int
}

// call returns the text of the result.
func (f *fileCalls) call(ctx context.Context, tool, arguments string) ([]byte, error) {
	message := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + arguments + `}}`
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url, strings.NewReader(message))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	f.size += len(message) + len(body)
	var m struct {
		Result struct {
			Content []struct{ Text string }
			IsError bool
		}
	}
	if err := json.Unmarshal(body, &m); err != nil || len(m.Result.Content) == 0 || m.Result.IsError {
		return nil, fmt.Errorf("%s failed: %.500s", tool, body)
	}
	return []byte(m.Result.Content[0].Text), nil
}
