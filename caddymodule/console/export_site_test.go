package console_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// exportConsole runs a site with calls of ada, whose arguments are formulas, and of bob.
func exportConsole(t *testing.T) *sitetest.Site {
	t.Helper()
	s := sitetest.Run(t, "agents {\n\tstore bolt DIR/store.db\n\tcalls {\n\t\targuments *\n\t\tresults\n\t}\n}",
		"route {\ntest_user\nagents_console {\nauditors eve\noperators oscar\n}\nmcp TRIPS\nreverse_proxy "+sitetest.Upstream(t, moody)+"\n}")
	callAs(s, "=cmd()", "getTrip", `{"id":"7"}`)
	callAs(s, "bob", "getTrip", `{"id":"closed"}`)
	callAs(s, "bob", "getTrip", `{"id":["x"]}`)
	return s
}

func TestExport(t *testing.T) {
	s := exportConsole(t)
	get := func(user, query string) sitetest.Response {
		t.Helper()
		return s.Request("GET", "/console/calls?"+query, "", "X-Test-User", user, "Accept", "text/html")
	}
	for user, want := range map[string]int{"eve": 3, "bob": 2, "oscar": 3, "mallory": 0} {
		a := get(user, "export=csv")
		rows, err := csv.NewReader(strings.NewReader(a.Body)).ReadAll()
		if err != nil && want > 0 {
			t.Fatalf("%s: %v: %s", user, err, a.Body)
		}
		if got := max(len(rows)-1, 0); got != want || a.Header.Get("Content-Disposition") != `attachment; filename="calls.csv"` {
			t.Errorf("%s: %d rows, %s; want %d", user, got, a.Header.Get("Content-Disposition"), want)
		}
		for n, line := range rows {
			for i, cell := range line {
				if n > 0 && cell != "" && strings.ContainsAny(cell[:1], "=+-@\t\r") {
					t.Errorf("%s: the column %s has the formula %q", user, rows[0][i], cell)
				}
				if name := rows[0][i]; n > 0 && user == "oscar" && (name == "arguments" || name == "result") && cell != "" {
					t.Errorf("an operator gets %s %q", name, cell)
				}
			}
		}
		if user == "eve" && !strings.Contains(a.Body, "'=cmd()") {
			t.Errorf("the user of a formula is missing: %s", a.Body)
		}
	}
	a := get("eve", "export=jsonl&outcome=refused")
	var call struct{ ID, User, Outcome string }
	if err := json.Unmarshal([]byte(a.Body), &call); err != nil || call.Outcome+call.User != "refusedbob" || call.ID == "" {
		t.Errorf("%v: %s", err, a.Body)
	}
	for _, query := range []string{"export=xlsx", "export=csv&since=x"} {
		if a := get("eve", query); a.Status != http.StatusBadRequest {
			t.Errorf("%s: status %d, want 400", query, a.Status)
		}
	}
	if page := get("eve", "outcome=refused").Body; !strings.Contains(page, "/console/calls?export=csv&amp;outcome=refused") {
		t.Errorf("the page does not link to the export of its filter: %s", page)
	}
}

// TestExport_search checks that a search finds nothing in what the viewer may not see.
func TestExport_search(t *testing.T) {
	s := exportConsole(t)
	callAs(s, "bob", "getTrip", `{"id":"zaphod"}`)
	for user, want := range map[string]int{"eve": 1, "bob": 1, "oscar": 0} {
		for _, path := range []string{"/console/api/calls?text=Zaphod", "/console/calls?export=jsonl&text=Zaphod"} {
			if a := s.Request("GET", path, "", "X-Test-User", user); strings.Count(a.Body, `"tool":"getTrip"`) != want {
				t.Errorf("%s %s: got %s, want %d calls", user, path, a.Body, want)
			}
		}
	}
}

// TestExport_has_several_pages exports more calls than one search returns.
func TestExport_has_several_pages(t *testing.T) {
	s := exportConsole(t)
	const calls = 1003
	for range calls - 3 {
		callAs(s, "bob", "getTrip", `{}`)
	}
	a := s.Request("GET", "/console/calls?export=jsonl", "", "X-Test-User", "eve")
	seen := make(map[string]bool)
	for line := range strings.Lines(a.Body) {
		var call struct{ ID string }
		if err := json.Unmarshal([]byte(line), &call); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		seen[call.ID] = true
	}
	if len(seen) != calls {
		t.Errorf("got %d calls, want %d", len(seen), calls)
	}
}

// TestReport shows an auditor what to mend, and others only their own calls.
func TestReport(t *testing.T) {
	s := exportConsole(t)
	type report struct {
		Tools []struct {
			Name            string
			Calls, Failures int
			Wrong           []struct{ Name string } `json:"wrong_arguments"`
			Reasons         []struct{ Name string }
			Weeks           []struct{ Calls int }
		}
	}
	got := sitetest.ConsoleJSON[report](s, "eve", "/console/api/report?range=7d")
	if len(got.Tools) != 1 || [...]int{got.Tools[0].Calls, got.Tools[0].Failures, len(got.Tools[0].Weeks)} != [...]int{3, 2, 1} {
		t.Fatalf("got %+v", got)
	}
	if tool := got.Tools[0]; fmt.Sprint(tool.Wrong) != "[{/id}]" || len(tool.Reasons) != 1 || !strings.Contains(tool.Reasons[0].Name, "sold out") {
		t.Errorf("got the causes %+v", tool)
	}
	if got := sitetest.ConsoleJSON[report](s, "=cmd()", "/console/api/report"); len(got.Tools) != 1 || got.Tools[0].Calls != 1 || got.Tools[0].Failures != 0 {
		t.Errorf("a user gets %+v, want their own call", got)
	}
	for path, part := range map[string]string{"/console/report": "sold out", "/console/report?tool=getTrip": "By week", "/console/report?tool=none": "No calls in this time"} {
		if page := s.View("eve", path).Body; !strings.Contains(page, part) {
			t.Errorf("%s lacks %q: %s", path, part, page)
		} else {
			checkHTML(t, path, page)
		}
	}
	for path, want := range map[string]int{"/console/report?range=2h": 400, "/console/report/x": 404} {
		if a := s.Request("GET", path, "", "X-Test-User", "eve"); a.Status != want {
			t.Errorf("%s: status %d, want %d", path, a.Status, want)
		}
	}
}
