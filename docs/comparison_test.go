package docs

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// lacking has, for each feature that the page says Fairway does not have, what its modules and options would be called.
var lacking = map[string]string{
	"Routing among model providers": `model_rout|route_model|model_pool|load_balancing`,
	"Code execution":                `code_mode|code_execution|execute_code|sandbox`,
	"gRPC, GraphQL and A2A":         `grpc|graphql|a2a|agent_card`,
	"Approvals for a tool":          `approval_window|valid_for|approved_for`,
}

var (
	// optionName is a module, a field or a command in the references.
	optionName = regexp.MustCompile("`([a-z][a-z0-9_.]*|caddy [a-z ]+)`")
	sourceMark = regexp.MustCompile(`\(([a-z]\d)\)`)
	sourceRow  = regexp.MustCompile(`(?m)^\| ([a-z]\d) \| .+ \| (\d{4}(?:-\d\d-\d\d)?|none) \|$`)
)

// TestComparison_agrees_with_the_product checks Fairway's column. A feature that it has names an option, which exists, or
// links the page that describes it. One that it lacks is not in the reference of the configuration.
func TestComparison_agrees_with_the_product(t *testing.T) {
	known := referenceNames(t)
	rows := comparisonRows(t)
	for _, row := range rows[1:] { // the first one says what the products are
		feature, cell := row[0], row[1]
		pattern, isLacking := lacking[feature]
		switch {
		case strings.HasPrefix(cell, "yes"):
			named := inlineCode.FindAllString(cell, -1)
			if len(named) == 0 && !link.MatchString(cell) {
				t.Errorf("%s: name an option, or link a page", feature)
			}
			for _, name := range named {
				if name = strings.Trim(name, "`"); !slices.ContainsFunc(known, func(k string) bool { return k == name || strings.HasSuffix(k, "."+name) }) {
					t.Errorf("%s: %s is not in the references", feature, name)
				}
			}
		case cell != "no":
			t.Errorf("%s: the cell is %q, not yes or no", feature, cell)
		case !isLacking:
			t.Errorf("%s: the test does not know what the option would be called", feature)
		default:
			checkLacking(t, feature, pattern, known)
		}
	}
	_, section, _ := strings.Cut(readComparison(t), "\n## What Fairway lacks\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for feature, pattern := range lacking {
		isRow := slices.ContainsFunc(rows, func(row []string) bool { return row[0] == feature && row[1] == "no" })
		if !isRow && !strings.Contains(section, feature) {
			t.Errorf("the page does not say that Fairway lacks %s", feature)
		}
		checkLacking(t, feature, pattern, known)
	}
}

// TestComparison_has_sources checks that each cell of another product has a source, that each source has a date, or says that it has
// none, and that each is used. A product without approval needs none in the rows about approvals.
func TestComparison_has_sources(t *testing.T) {
	page := readComparison(t)
	dates := make(map[string]string)
	for _, row := range sourceRow.FindAllStringSubmatch(page, -1) {
		dates[row[1]] = row[2]
	}
	used := make(map[string]bool)
	rows := comparisonRows(t)
	for _, row := range rows {
		for i, cell := range row[2:] {
			marks := sourceMark.FindAllStringSubmatch(cell, -1)
			for _, mark := range marks {
				if dates[mark[1]] == "" {
					t.Errorf("%s: the source %s has no row", row[0], mark[1])
				}
				used[mark[1]] = true
			}
			if approval := approvalOf(rows, i+2); len(marks) == 0 &&
				(cell != "–" || !strings.HasPrefix(approval, "–") && !strings.HasPrefix(approval, "by the client")) {
				t.Errorf("%s: %q has no source", row[0], cell)
			}
		}
	}
	for mark := range dates {
		if !used[mark] {
			t.Errorf("no cell uses the source %s", mark)
		}
	}
	if len(rows) < 12 || len(dates) < 30 {
		t.Errorf("only %d rows and %d sources", len(rows), len(dates))
	}
}

func readComparison(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("comparison.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// comparisonRows returns the cells of the table of features: the feature, Fairway, and the others.
func comparisonRows(t *testing.T) (rows [][]string) {
	t.Helper()
	table, _, _ := strings.Cut(readComparison(t), "\n## ")
	columns := 0
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if columns == 0 {
			columns = len(cells)
			continue
		}
		if len(cells) != columns {
			t.Fatalf("%s: %d cells, want %d", cells[0], len(cells), columns)
		}
		rows = append(rows, cells)
	}
	if len(rows) == 0 || columns != 11 {
		t.Fatalf("%d rows of %d columns", len(rows), columns)
	}
	return rows
}

// approvalOf returns what the page says of a product's approvals.
func approvalOf(rows [][]string, column int) string {
	for _, row := range rows {
		if row[0] == "Approval by people" {
			return row[column]
		}
	}
	return ""
}

// referenceNames returns the names of modules, fields and commands in the generated references.
func referenceNames(t *testing.T) []string {
	t.Helper()
	names := make(map[string]bool)
	for _, page := range []string{"json.md", "commands.md"} {
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range optionName.FindAllStringSubmatch(string(data), -1) {
			names[name[1]] = true
		}
	}
	if len(names) < 300 {
		t.Fatalf("only %d names in the references", len(names))
	}
	return slices.Collect(maps.Keys(names))
}

func checkLacking(t *testing.T, feature, pattern string, known []string) {
	t.Helper()
	would := regexp.MustCompile(pattern)
	for _, name := range known {
		if would.MatchString(name) {
			t.Errorf("the page says that Fairway lacks %q, but the references have %s", feature, name)
		}
	}
}
