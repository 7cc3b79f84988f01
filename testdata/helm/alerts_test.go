package helm

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/yaml"
)

// TestAlerts evaluates the rules of the chart with promtool, as alerts.test.yaml says.
func TestAlerts(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		stop := t.Skip
		if os.Getenv("FAIRWAY_TEST_ALL") == "1" {
			stop = t.Fatal
		}
		stop("promtool, which Debian's package prometheus has, is not installed")
	}
	manifests, err := render(readValues(t, chartDir+"/ci/gateway-values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var rule monitoring.PrometheusRule
	for document := range strings.SplitSeq(manifests, "\n---\n") {
		if strings.Contains(document, "\nkind: PrometheusRule\n") {
			err = yaml.Unmarshal([]byte(document), &rule)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	groups, err := yaml.Marshal(rule.Spec)
	if err != nil {
		t.Fatal(err)
	}
	cases, err := os.ReadFile("alerts.test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	checkCases(t, rule, cases)
	if !strings.Contains(manifests, "\nkind: Service\nmetadata:\n  name: fairway-metrics\n") {
		t.Error("the ServiceMonitor's Service, whose name is the label job, is not fairway-metrics")
	}

	dir := t.TempDir()
	for name, data := range map[string][]byte{"rules.yaml": groups, "alerts.test.yaml": cases} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, arguments := range [][]string{{"check", "rules", "--lint=all", "--lint-fatal", "rules.yaml"}, {"test", "rules", "alerts.test.yaml"}} {
		command := exec.CommandContext(t.Context(), promtool, arguments...)
		command.Dir = dir
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(arguments, " "), err, out)
		}
	}
}

// checkCases checks that each alert has a case in which it fires, and one in which it does not though there are series.
func checkCases(t *testing.T, rule monitoring.PrometheusRule, data []byte) {
	t.Helper()
	var file struct {
		Tests []struct {
			Series []any `json:"input_series"`
			Cases  []struct {
				Alert string `json:"alertname"`
				Want  []any  `json:"exp_alerts"`
			} `json:"alert_rule_test"`
		} `json:"tests"`
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	fires, silent := make(map[string]bool), make(map[string]bool)
	for _, test := range file.Tests {
		for _, c := range test.Cases {
			if len(c.Want) > 0 {
				fires[c.Alert] = true
			} else if len(test.Series) > 0 {
				silent[c.Alert] = true
			}
		}
	}
	alerts := 0
	for _, group := range rule.Spec.Groups {
		for _, r := range group.Rules {
			if r.Alert == "" {
				continue
			}
			if alerts++; !fires[r.Alert] || !silent[r.Alert] {
				t.Errorf("alerts.test.yaml has no case in which %s fires, or none in which it does not", r.Alert)
			}
			delete(fires, r.Alert)
		}
	}
	if alerts < 9 || len(fires) > 0 {
		t.Errorf("%d alerts, and cases of unknown ones: %v", alerts, fires)
	}
}
