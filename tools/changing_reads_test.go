package tools

import (
	"slices"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/tools/build"
)

// changingReads are the operations of real documents that change something or reach another system although
// their method is safe. All other operations with a safe method read.
var changingReads = map[string]string{
	"slack-web-v2.json": `apps_permissions_request apps_permissions_users_request apps_uninstall auth_revoke dialog_open files_remote_share
		oauth_access oauth_token oauth_v2_access rtm_connect views_open views_publish views_push views_update
		workflows_stepCompleted workflows_stepFailed workflows_updateStep`,
	"github-api.github.com.json": `dependency_graph_generate_sbom_report`,
	"kubernetes-1.33-swagger-2.0.json": `connectCoreV1GetNamespacedPodAttach connectCoreV1GetNamespacedPodExec connectCoreV1GetNamespacedPodPortforward
		connectCoreV1GetNamespacedPodProxy connectCoreV1GetNamespacedPodProxyWithPath connectCoreV1GetNamespacedServiceProxy
		connectCoreV1GetNamespacedServiceProxyWithPath connectCoreV1GetNodeProxy connectCoreV1GetNodeProxyWithPath
		connectCoreV1HeadNamespacedPodProxy connectCoreV1HeadNamespacedPodProxyWithPath connectCoreV1HeadNamespacedServiceProxy
		connectCoreV1HeadNamespacedServiceProxyWithPath connectCoreV1HeadNodeProxy connectCoreV1HeadNodeProxyWithPath
		connectCoreV1OptionsNamespacedPodProxy connectCoreV1OptionsNamespacedPodProxyWithPath connectCoreV1OptionsNamespacedServiceProxy
		connectCoreV1OptionsNamespacedServiceProxyWithPath connectCoreV1OptionsNodeProxy connectCoreV1OptionsNodeProxyWithPath`,
}

func TestDocuments_reads_that_change_something_are_writes(t *testing.T) {
	for name := range testkit.Documents() {
		all := realTools(t, name)
		expected := strings.Fields(changingReads[name])
		slices.Sort(expected)
		var got []string
		for _, tool := range all.Tools() {
			if isSafe(tool.Plan.Method) && !tool.Hint(build.ReadOnlyHint) {
				got = append(got, tool.Name)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, expected) {
			t.Errorf("%s: writes with a safe method:\n%s\nwant\n%s", name, got, expected)
		}
		if len(expected) == 0 {
			continue
		}
		data := testkit.ReadDocument(t, "openapi/"+name+".gz")
		readonly, err := Build(data, BuildOptions{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, set := range []*Toolset{all, readonly} {
			if !slices.ContainsFunc(set.Report.Warnings, func(w Warning) bool {
				return w.Operation == "" && !w.Lost && strings.Contains(w.Reason, expected[0]) && strings.Contains(w.Reason, "verb of change")
			}) {
				t.Errorf("%s: no warning names the operations", name)
			}
		}
		for _, left := range expected {
			if _, has := readonly.Tool(left); has {
				t.Errorf("%s: readonly keeps %s", name, left)
			}
		}
		named, err := Build(data, BuildOptions{ReadOnly: true, Include: []build.Selector{{By: "operation", Value: expected[0]}}})
		if err != nil {
			t.Fatal(err)
		}
		if tool, has := named.Tool(expected[0]); !has || tool.Hint(build.ReadOnlyHint) || tool.Idempotent() {
			t.Errorf("%s: readonly leaves out %s although it is included by name, or it counts as a read", name, expected[0])
		}
	}
}

// TestShape_keeps_that_a_read_changes_something: clients call read-only tools without asking the user.
func TestShape_keeps_that_a_read_changes_something(t *testing.T) {
	const document = `{"openapi":"3.1.0","info":{"title":"T","version":"1"},"paths":{"/token":{"get":{"operationId":"auth_revoke",
		"parameters":[{"name":"key","in":"query","schema":{"type":"string"}}],"responses":{"200":{"description":"OK"}}}}}}`
	shaped := buildTools(t, document, BuildOptions{Shapes: []build.Shape{{Tool: "auth_revoke", Description: "Ends a session."}}})
	if tool, _ := shaped.Tool("auth_revoke"); tool.ReadOnly() {
		t.Error("a tool with another description counts as a read")
	}
	filled := shaped.FilledBy(func(*Tool, *Argument) bool { return true })
	if tool, _ := filled.Tool("auth_revoke"); tool.ReadOnly() {
		t.Error("a tool whose argument the gateway fills counts as a read")
	}
}
