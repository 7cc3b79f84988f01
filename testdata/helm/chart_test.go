// Package helm tests the Helm chart with the packages of Helm itself. It is a module of its own, so that
// Fairway does not depend on Helm. Update what it compares with:
//
//	go -C testdata/helm test . -update
package helm

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	gateway "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the golden files, the table of values and the Kubernetes example")

const chartDir = "../../packaging/helm/fairway"

// types has the Go type of each kind of object that the chart has.
var types = map[string]func() any{
	"ConfigMap":               func() any { return new(core.ConfigMap) },
	"Deployment":              func() any { return new(apps.Deployment) },
	"HTTPRoute":               func() any { return new(gateway.HTTPRoute) },
	"HorizontalPodAutoscaler": func() any { return new(autoscaling.HorizontalPodAutoscaler) },
	"Ingress":                 func() any { return new(networking.Ingress) },
	"NetworkPolicy":           func() any { return new(networking.NetworkPolicy) },
	"PersistentVolumeClaim":   func() any { return new(core.PersistentVolumeClaim) },
	"PodDisruptionBudget":     func() any { return new(policy.PodDisruptionBudget) },
	"PrometheusRule":          func() any { return new(monitoring.PrometheusRule) },
	"Service":                 func() any { return new(core.Service) },
	"ServiceAccount":          func() any { return new(core.ServiceAccount) },
	"ServiceMonitor":          func() any { return new(monitoring.ServiceMonitor) },
}

// valueSets returns the golden file of each file of values: those of the chart, and that of the Kubernetes example.
func valueSets(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(chartDir + "/ci/*-values.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d files of values, %v", len(files), err)
	}
	golden := map[string]string{"../../examples/kubernetes/values.yaml": "../../examples/kubernetes/fairway.yaml"}
	for _, file := range files {
		golden[file] = filepath.Join("golden", strings.TrimSuffix(filepath.Base(file), "-values.yaml")+".yaml")
	}
	return golden
}

func readValues(t *testing.T, path string) map[string]any {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	values := make(map[string]any)
	if err := yaml.UnmarshalStrict(data, &values); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return values
}

// renderFiles returns the content of each template.
func renderFiles(values map[string]any) (map[string]string, error) {
	chart, err := loader.LoadDir(chartDir)
	if err != nil {
		return nil, err
	}
	release := common.ReleaseOptions{Name: "fairway", Namespace: "default", Revision: 1, IsInstall: true}
	all, err := util.ToRenderValues(chart, values, release, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(chart, all)
}

// render returns the manifests as "helm template" prints them, without the notes.
func render(values map[string]any) (string, error) {
	files, err := renderFiles(values)
	if err != nil {
		return "", err
	}
	var manifests strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if content := strings.TrimSpace(files[name]); content != "" && strings.HasSuffix(name, ".yaml") {
			fmt.Fprintf(&manifests, "---\n# Source: %s\n%s\n", name, content)
		}
	}
	return manifests.String(), nil
}

// compare fails if a file differs from want. With -update it writes the file.
func compare(t *testing.T, path, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not up to date; run: go -C testdata/helm test . -update", path)
	}
}

// TestChart_lint does what "helm lint --strict" does: a warning fails it.
func TestChart_lint(t *testing.T) {
	for file := range valueSets(t) {
		for _, message := range lint.RunAll(chartDir, readValues(t, file), "default").Messages {
			if message.Severity >= support.WarningSev {
				t.Errorf("%s: %v", file, message)
			}
		}
	}
}

// TestChart_golden compares the manifests, and decodes them into the Go types of their kinds, without unknown fields.
func TestChart_golden(t *testing.T) {
	seen := make(map[string]bool)
	for file, golden := range valueSets(t) {
		manifests, err := render(readValues(t, file))
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		compare(t, golden, manifests)
		for document := range strings.SplitSeq(manifests, "\n---\n") {
			var head struct{ Kind string }
			if err := yaml.Unmarshal([]byte(document), &head); err != nil {
				t.Fatalf("%s: %v", golden, err)
			}
			seen[head.Kind] = true
			if types[head.Kind] == nil {
				t.Errorf("%s: the test has no type for %q", golden, head.Kind)
			} else if err := yaml.UnmarshalStrict([]byte(document), types[head.Kind]()); err != nil {
				t.Errorf("%s: %s: %v", golden, head.Kind, err)
			}
		}
	}
	for kind := range types {
		if !seen[kind] {
			t.Errorf("no set of values has a %s", kind)
		}
	}
}

// TestChart_drain checks that Kubernetes waits longer than Caddy does, and that a pod has a way to stop gently.
func TestChart_drain(t *testing.T) {
	for file, golden := range valueSets(t) {
		data, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		for document := range strings.SplitSeq(string(data), "\n---\n") {
			var d apps.Deployment
			if err := yaml.Unmarshal([]byte(document), &d); err != nil || d.Kind != "Deployment" {
				continue
			}
			drain := struct {
				Drain struct{ ShutdownDelay, GracePeriod, PreStopSleep int64 }
			}{}
			drain.Drain.ShutdownDelay, drain.Drain.GracePeriod = 10, 20
			values, err := os.ReadFile(file)
			if err == nil {
				err = yaml.Unmarshal(values, &drain)
			}
			if err != nil {
				t.Fatal(err)
			}
			sum := drain.Drain.ShutdownDelay + drain.Drain.GracePeriod + drain.Drain.PreStopSleep
			if got := d.Spec.Template.Spec.TerminationGracePeriodSeconds; got == nil {
				t.Errorf("%s: no terminationGracePeriodSeconds", golden)
			} else if *got <= sum {
				t.Errorf("%s: terminationGracePeriodSeconds is %d, and draining takes %d s", golden, *got, sum)
			}
			if drain.Drain.ShutdownDelay == 0 && d.Spec.Template.Spec.Containers[0].Lifecycle == nil {
				t.Errorf("%s: no delay before the pod stops", golden)
			}
			if strings.Contains(string(data), "kind: HorizontalPodAutoscaler") && d.Spec.Replicas != nil {
				t.Errorf("%s: replicas beside an autoscaler", golden)
			}
		}
	}
}

func TestChart_refuses(t *testing.T) {
	type object = map[string]any
	for name, c := range map[string]struct {
		values object
		want   string
	}{
		"no upstream":               {object{}, "upstream"},
		"an unknown value":          {object{"upstream": "api", "upstraem": "x"}, "upstraem"},
		"an unknown value, inside":  {object{"upstream": "api", "auth": object{"isuer": "x"}}, "isuer"},
		"no endpoint":               {object{"upstream": "api", "endpoints": object{"mcp": ""}}, "endpoints"},
		"an issuer without a URL":   {object{"upstream": "api", "auth": object{"issuer": "https://i"}}, "url"},
		"options without an issuer": {object{"upstream": "api", "auth": object{"options": "require_scope x"}}, "issuer"},
		"two pods without a store":  {object{"upstream": "api", "replicas": 2}, "store.type"},
		"a store without a URL":     {object{"upstream": "api", "store": object{"type": "redis"}}, "existingSecret"},
		"another store":             {object{"upstream": "api", "store": object{"type": "mysql"}}, "store/type"},
		"two pods with a volume":    {object{"caddyfile": ":8080 {\n}", "replicas": 2, "persistence": object{"enabled": true}}, "persistence"},
		"a digest that is none":     {object{"upstream": "api", "image": object{"digest": "latest"}}, "digest"},
		"an Ingress without hosts":  {object{"upstream": "api", "ingress": object{"enabled": true}}, "hosts"},
		"metrics behind a policy":   {object{"upstream": "api", "metrics": object{"serviceMonitor": object{"enabled": true}}}, "metricsFrom"},
		"metrics that are off":      {object{"upstream": "api", "metrics": object{"enabled": false, "serviceMonitor": object{"enabled": true}}, "networkPolicy": object{"metricsFrom": []any{object{"podSelector": object{}}}}}, "metrics.enabled"},
		"a URL without a store":     {object{"upstream": "api", "store": object{"url": "redis://redis"}}, "store.type"},
		"a policy for everyone":     {object{"upstream": "api", "networkPolicy": object{"from": []any{}}}, "networkPolicy/from"},
		"a policy without from":     {object{"upstream": "api", "networkPolicy": object{"from": nil}}, "networkPolicy"},
		"a route without Gateway":   {object{"upstream": "api", "httpRoute": object{"enabled": true}}, "parentRefs"},
	} {
		if _, err := render(c.values); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, c.want)
		}
	}
}

// TestChart_notes checks the command that lists the tools, and warnings.
func TestChart_notes(t *testing.T) {
	type object = map[string]any
	for name, c := range map[string]struct {
		values         object
		want, unwanted string
	}{
		"no login":           {object{"upstream": "api"}, "localhost:8080/mcp -H 'Content-Type", "TOKEN"},
		"a login":            {object{"upstream": "api", "url": "https://a", "auth": object{"issuer": "https://i"}}, `-H "Authorization: Bearer $TOKEN"`, "no login"},
		"OTC only":           {object{"upstream": "api", "endpoints": object{"mcp": "", "otc": "/otc"}}, "localhost:8080/otc/tools", "tools/list"},
		"an own Caddyfile":   {object{"caddyfile": ":8080 {\n}", "replicas": 2}, "your own", "curl"},
		"no secret":          {object{"upstream": "api", "replicas": 2, "store": object{"type": "redis", "url": "redis://redis"}}, "only the pod that began", "records, reviews"},
		"a balancer outside": {object{"upstream": "api", "service": object{"type": "LoadBalancer"}}, "ipBlock", "TOKEN"},
	} {
		files, err := renderFiles(c.values)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if notes := files["fairway/templates/NOTES.txt"]; !strings.Contains(notes, c.want) || strings.Contains(notes, c.unwanted) {
			t.Errorf("%s: want %q and not %q in\n%s", name, c.want, c.unwanted, notes)
		}
	}
}

// deployment returns the pod of the Deployment.
func deployment(t *testing.T, values map[string]any) core.PodSpec {
	t.Helper()
	files, err := renderFiles(values)
	if err != nil {
		t.Fatal(err)
	}
	var d apps.Deployment
	if err := yaml.UnmarshalStrict([]byte(files["fairway/templates/deployment.yaml"]), &d); err != nil {
		t.Fatal(err)
	}
	return d.Spec.Template.Spec
}

// TestChart_an_own_Caddyfile_has_the_URL_of_the_store also if there is no store.type, which then has no effect.
func TestChart_an_own_Caddyfile_has_the_URL_of_the_store(t *testing.T) {
	pod := deployment(t, map[string]any{"caddyfile": ":8080 {\n}", "store": map[string]any{"existingSecret": "redis"}})
	if env := pod.Containers[0].Env; len(env) != 1 || env[0].Name != "STORE_URL" {
		t.Errorf("environment %+v", env)
	}
}

// TestChart_pod_for_a_restore compares the pod of the README, which restores a backup, with that of the Deployment.
func TestChart_pod_for_a_restore(t *testing.T) {
	readme, err := os.ReadFile(chartDir + "/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, manifest, _ := strings.Cut(string(readme), "# restore.yaml\n")
	manifest, _, found := strings.Cut(manifest, "```")
	if !found {
		t.Fatal("the README has no restore.yaml")
	}
	var pod core.Pod
	if err := yaml.UnmarshalStrict([]byte(manifest), &pod); err != nil {
		t.Fatal(err)
	}
	if pod.Kind != "Pod" || len(pod.Labels) != 0 {
		t.Errorf("a %s with the labels %v, which a Service or a Deployment may select", pod.Kind, pod.Labels)
	}
	want := deployment(t, map[string]any{"upstream": "api", "persistence": map[string]any{"enabled": true}})
	repository := func(image string) string { name, _, _ := strings.Cut(image, ":"); return name }
	parts := func(spec core.PodSpec) []any {
		container := spec.Containers[0]
		var data []any
		for _, mount := range container.VolumeMounts {
			if mount.Name == "data" {
				data = append(data, mount)
			}
		}
		for _, volume := range spec.Volumes {
			if volume.Name == "data" {
				data = append(data, volume)
			}
		}
		return append(data, repository(container.Image), container.SecurityContext, spec.SecurityContext, spec.AutomountServiceAccountToken)
	}
	if got, want := parts(pod.Spec), parts(want); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestChart_a_changed_Caddyfile_replaces_the_pods and a changed document does not.
func TestChart_a_changed_Caddyfile_replaces_the_pods(t *testing.T) {
	checksum := func(values map[string]any) string {
		manifests, err := render(values)
		if err != nil {
			t.Fatal(err)
		}
		_, after, found := strings.Cut(manifests, "checksum/caddyfile: ")
		if !found {
			t.Fatal("no checksum")
		}
		return after[:64]
	}
	first := checksum(map[string]any{"upstream": "api:8080"})
	if first == checksum(map[string]any{"upstream": "api:8081"}) {
		t.Error("the checksum is the same for another upstream")
	}
	if first != checksum(map[string]any{"upstream": "api:8080", "files": map[string]any{"openapi.yaml": "openapi: 3.1.0"}}) {
		t.Error("the checksum differs for another document")
	}
}

func TestChart_has_the_alerts_of_the_example(t *testing.T) {
	rules, err := os.ReadFile("../../examples/observability/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	compare(t, chartDir+"/files/rules.yaml", string(rules))
}

// A schema is what the test reads of values.schema.json.
type schema struct {
	Description          string
	Properties           map[string]schema
	AdditionalProperties any
}

// TestChart_table_of_values compares the table in the chart's README with the schema and the defaults.
func TestChart_table_of_values(t *testing.T) {
	data, err := os.ReadFile(chartDir + "/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var root schema
	if err := json.Unmarshal(data, &root); err != nil {
		t.Fatal(err)
	}
	delete(root.Properties, "global")
	defaults := readValues(t, chartDir+"/values.yaml")
	var table bytes.Buffer
	table.WriteString("| Value | Meaning | Default |\n|---|---|---|\n")
	var rows func(prefix string, properties map[string]schema, defaults map[string]any)
	rows = func(prefix string, properties map[string]schema, defaults map[string]any) {
		if got, want := slices.Sorted(maps.Keys(properties)), slices.Sorted(maps.Keys(defaults)); !slices.Equal(got, want) {
			t.Errorf("the schema has the values %s%v, and values.yaml has %v", prefix, got, want)
		}
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			property := properties[name]
			if property.Description == "" {
				t.Errorf("%s%s has no description", prefix, name)
			}
			if len(property.Properties) == 0 {
				value, err := json.Marshal(defaults[name])
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(&table, "| `%s%s` | %s | `%s` |\n", prefix, name, property.Description, value)
				continue
			}
			if property.AdditionalProperties != false {
				t.Errorf("%s%s allows unknown values", prefix, name)
			}
			fmt.Fprintf(&table, "| **`%s%s`** | %s | |\n", prefix, name, property.Description)
			inner, _ := defaults[name].(map[string]any)
			rows(prefix+name+".", property.Properties, inner)
		}
	}
	rows("", root.Properties, defaults)

	readme, err := os.ReadFile(chartDir + "/README.md")
	if err != nil {
		t.Fatal(err)
	}
	before, after, found := strings.Cut(string(readme), "| Value | Meaning | Default |\n")
	if !found {
		t.Fatal("the README of the chart has no table of values")
	}
	for strings.HasPrefix(after, "|") {
		_, after, _ = strings.Cut(after, "\n")
	}
	compare(t, chartDir+"/README.md", before+table.String()+after)
}
