package docs

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"
)

// Parts of queries in PromQL.
var (
	promText     = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	promRange    = regexp.MustCompile(`\[[^\]]*\]`)
	promBy       = regexp.MustCompile(`\bby \(([^)]*)\)`)
	promSelector = regexp.MustCompile(`\b([a-z_]+)\s*(?:\{([^}]*)\})?`)
	promName     = regexp.MustCompile(`^[a-z_]+`)
	promLegend   = regexp.MustCompile(`\{\{([a-z_]+)\}\}`)
	promValues   = regexp.MustCompile(`(?:outcome|protocol|resource)=~?"([^"]*)"`)
	promSeries   = regexp.MustCompile(`series: (fairway_[a-z_]+)\{(.*)\}`)
	promPair     = regexp.MustCompile(`([a-z_]+)="([^"]*)"`)
	promFunction = []string{"sum", "rate", "increase", "topk", "histogram_quantile", "and"}
)

// TestObservability_dashboard_queries_exist starts the example, makes calls that succeed and fail, and
// checks each query of the dashboard: the metrics that it names exist, with all labels that it uses.
func TestObservability_dashboard_queries_exist(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, filepath.Join("examples", "observability"))
	w.caddy([]string{"OTEL_TRACES_EXPORTER=none"}, "run")
	for _, message := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"get_trip","arguments":{"trip_id":"ic-801"}}}`,
		`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"get_trip","arguments":{}}}`,
	} {
		r, err := http.NewRequest(http.MethodPost, "http://localhost:"+w.ports["8080"]+"/mcp", strings.NewReader(message))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Protocol-Version": {"2025-06-18"}}
		readAll(t, r)
	}
	r, err := http.NewRequest(http.MethodGet, "http://localhost:"+w.ports["8082"]+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	metrics, err := parser.TextToMetricFamilies(strings.NewReader(readAll(t, r)))
	if err != nil {
		t.Fatal(err)
	}

	data, err := os.ReadFile(filepath.Join(root, "examples/observability/grafana/fairway.json"))
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal(data, &dashboard); err != nil {
		t.Fatal(err)
	}
	recorded := checkRules(t, metrics)
	checkSeries(t, metrics)
	queries := 0
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			queries++
			for _, problem := range checkQuery(metrics, withoutRecorded(target.Expr, recorded), target.LegendFormat) {
				t.Errorf("panel %q: %s", panel.Title, problem)
			}
		}
	}
	if queries < 16 {
		t.Errorf("the dashboard has %d queries", queries)
	}
	if problems := checkQuery(metrics, `sum by (nolabel) (rate(fairway_tool_calls_total{absent="x"}[1m])) / nometric_total`, "{{unknown}}"); len(problems) != 4 {
		t.Errorf("a wrong query has the problems %q", problems)
	}
}

// checkRules checks the expressions of the recording rules and of the alerts, and returns the names of what the rules record.
func checkRules(t *testing.T, metrics map[string]*dto.MetricFamily) (recorded []string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "examples/observability/rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct{ Record, Alert, Expr string }
		}
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	alerts := 0
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			for _, problem := range checkQuery(metrics, withoutRecorded(rule.Expr, recorded), "") {
				t.Errorf("rule %s%s: %s", rule.Record, rule.Alert, problem)
			}
			if rule.Record != "" {
				recorded = append(recorded, rule.Record)
			} else {
				alerts++
			}
		}
	}
	if len(recorded) < 5 || alerts < 7 {
		t.Errorf("%d recording rules and %d alerts", len(recorded), alerts)
	}
	return recorded
}

// checkSeries checks the series with which testdata/helm tests the alerts: the metric exists and has exactly their labels, beside
// those that the ServiceMonitor adds. Values that Fairway defines, here and in the rules, are in docs/metrics.md.
func checkSeries(t *testing.T, metrics map[string]*dto.MetricFamily) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "testdata/helm/alerts.test.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	rules, err := os.ReadFile(filepath.Join(root, "examples/observability/rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	documented := codeOf(t, []string{"metrics.md"})
	for _, match := range promValues.FindAllStringSubmatch(string(data)+string(rules), -1) {
		for value := range strings.SplitSeq(match[1], "|") {
			if !regexp.MustCompile(`\b` + value + `\b`).MatchString(documented) {
				t.Errorf("%s: metrics.md does not have the value %q", match[0], value)
			}
		}
	}
	series := promSeries.FindAllStringSubmatch(string(data), -1)
	for _, s := range series {
		var labels []string
		var le float64
		for _, pair := range promPair.FindAllStringSubmatch(s[2], -1) {
			if labels = append(labels, pair[1]); pair[1] == "le" {
				labels = labels[:len(labels)-1]
				if le, err = strconv.ParseFloat(pair[2], 64); err != nil {
					t.Error(err)
				}
			}
		}
		slices.Sort(labels)
		if !slices.ContainsFunc(familyOf(metrics, s[1]).GetMetric(), func(m *dto.Metric) bool {
			want := []string{"job", "namespace", "pod"}
			for _, label := range m.GetLabel() {
				want = append(want, label.GetName())
			}
			slices.Sort(want)
			isBound := func(b *dto.Bucket) bool { return b.GetUpperBound() == le }
			return slices.Equal(labels, want) && strings.HasSuffix(s[1], "_bucket") == slices.ContainsFunc(m.GetHistogram().GetBucket(), isBound)
		}) {
			t.Errorf("Fairway does not export %s", s[0])
		}
	}
	if len(series) < 25 {
		t.Errorf("%d series in the tests of the alerts", len(series))
	}
}

// withoutRecorded replaces the names of recording rules in a query by numbers.
func withoutRecorded(query string, recorded []string) string {
	for _, name := range recorded {
		query = strings.ReplaceAll(query, name, "1")
	}
	return query
}

// readAll sends a request and returns the body of its response.
func readAll(t *testing.T, r *http.Request) string {
	t.Helper()
	client := http.Client{Timeout: time.Minute}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %s, %v", r.URL, response.Status, body, err)
	}
	return string(body)
}

// checkQuery returns what is wrong with the names in a query.
func checkQuery(metrics map[string]*dto.MetricFamily, query, legend string) (problems []string) {
	query = promRange.ReplaceAllString(promText.ReplaceAllString(query, `""`), "")
	var grouped []string
	for _, by := range promBy.FindAllStringSubmatch(query, -1) {
		for label := range strings.SplitSeq(by[1], ",") {
			grouped = append(grouped, strings.TrimSpace(label))
		}
	}
	for _, name := range promLegend.FindAllStringSubmatch(legend, -1) {
		if !slices.Contains(grouped, name[1]) {
			problems = append(problems, "the legend uses "+name[1]+", which the query does not group by")
		}
	}
	for _, selector := range promSelector.FindAllStringSubmatch(promBy.ReplaceAllString(query, ""), -1) {
		name := selector[1]
		if slices.Contains(promFunction, name) {
			continue
		}
		family := familyOf(metrics, name)
		if family == nil {
			problems = append(problems, "there is no metric "+name)
			continue
		}
		labels := slices.Clone(grouped)
		for matcher := range strings.SplitSeq(selector[2], ",") {
			if label := promName.FindString(strings.TrimSpace(matcher)); label != "" {
				labels = append(labels, label)
			}
		}
		for _, label := range labels {
			if !hasLabel(family, label) && (label != "le" || !strings.HasSuffix(name, "_bucket")) {
				problems = append(problems, name+" has no label "+label)
			}
		}
	}
	return problems
}

// familyOf returns the metric with the name, or the histogram that has a series with the name.
func familyOf(metrics map[string]*dto.MetricFamily, name string) *dto.MetricFamily {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, ok := strings.CutSuffix(name, suffix); ok && metrics[base].GetType() == dto.MetricType_HISTOGRAM {
			return metrics[base]
		}
	}
	return metrics[name]
}

// hasLabel reports whether a metric has a label.
func hasLabel(family *dto.MetricFamily, label string) bool {
	for _, m := range family.GetMetric() {
		if slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return l.GetName() == label }) {
			return true
		}
	}
	return false
}
