package calllog

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools"
)

// Limits of a report.
const (
	maxCounted  = 1000 // tools that are counted; calls of further ones are left out
	maxReported = 200  // tools that are returned
	maxCauses   = 50   // reasons, and wrong arguments, of a tool that are counted; further ones are counted as others
	maxListed   = 10   // of them that are returned
	maxCause    = 160  // bytes of each
	week        = 7 * 24 * time.Hour
)

// ToolReport says what the owner of an API should mend: how the calls of a tool have failed.
type ToolReport struct {
	Usage
	Outcomes  []Count `json:"failures_by_outcome,omitzero"`
	Arguments []Count `json:"wrong_arguments,omitzero"` // paths of arguments in calls with the outcome invalid; # is a number
	Reasons   []Count `json:"reasons,omitzero"`         // of the other failures; # is a number
	Weeks     []Week  `json:"weeks"`                    // the latest first
}

// Count is how many calls have a name in common.
type Count struct {
	Name  string `json:"name"`
	Calls int    `json:"calls"`
}

// Week has the calls of a tool that have ended in 7 days.
type Week struct {
	From     time.Time `json:"from"`
	Calls    int       `json:"calls"`
	Failures int       `json:"failures"`
	Invalid  int       `json:"invalid"` // failures because of the arguments
	Size     int64     `json:"size"`    // bytes of the responses
}

// End returns the end of the week.
func (w Week) End() time.Time { return w.From.Add(week) }

// Tokens returns about how many tokens of a model a response has, 0 if there are no calls.
func (w Week) Tokens() int { return int(w.Size) / max(w.Calls, 1) / text.BytesPerToken }

// Tokens returns about how many tokens of a model a response has, 0 if there are no calls.
func (u Usage) Tokens() int { return int(u.Size) / max(u.Calls, 1) / text.BytesPerToken }

// Invalid returns how many calls had wrong arguments.
func (r *ToolReport) Invalid() (calls int) {
	for i := range r.Weeks {
		calls += r.Weeks[i].Invalid
	}
	return calls
}

// toolTally counts the calls of one tool for its report.
type toolTally struct {
	outcomes, arguments, reasons map[string]int
	weeks                        []Week
}

// report counts a call for the report of its tool.
func (c *counter) report(call *Call, failed bool) {
	name := toolName{call.Toolset, call.Tool}
	t := c.reports[name]
	if t == nil {
		if len(c.reports) >= maxCounted || call.Tool == "" || c.tools[name] == nil {
			return
		}
		t = &toolTally{make(map[string]int), make(map[string]int), make(map[string]int), make([]Week, (c.query.Range+week-1)/week)}
		for i := range t.weeks {
			t.weeks[i].From = c.to.Add(-time.Duration(i+1) * week)
		}
		c.reports[name] = t
	}
	w := &t.weeks[c.to.Sub(call.Ended)/week]
	w.Calls, w.Size = w.Calls+1, w.Size+int64(call.Size)
	if !failed {
		return
	}
	w.Failures++
	t.outcomes[call.Outcome]++
	if call.Outcome != string(tools.InvalidArguments) {
		countCause(t.reasons, withoutNumbers(call.Reason))
		return
	}
	w.Invalid++
	// See tools.Failure: "invalid arguments for NAME: /path: message; /path: message"
	var seen []string
	for part := range strings.SplitSeq(strings.TrimPrefix(call.Reason, "invalid arguments for "+call.Tool+": "), "; ") {
		path, _, ok := strings.Cut(part, ": ")
		if path = withoutNumbers(path); ok && strings.HasPrefix(path, "/") && !slices.Contains(seen, path) {
			seen = append(seen, path)
			countCause(t.arguments, path)
		}
	}
}

// countCause counts a text.
func countCause(all map[string]int, cause string) {
	if all[cause] == 0 && len(all) >= maxCauses {
		cause = otherName
	}
	all[cause]++
}

// withoutNumbers returns a text with # in place of its numbers, which differ between calls for the same cause.
func withoutNumbers(cause string) string {
	var b strings.Builder
	number := false
	for _, r := range text.Cut(cause, maxCause) {
		isDigit := r >= '0' && r <= '9'
		if isDigit && !number {
			b.WriteByte('#')
		} else if !isDigit {
			b.WriteRune(r)
		}
		number = isDigit
	}
	return b.String()
}

// listed returns the most frequent names.
func listed(all map[string]int) []Count {
	list := make([]Count, 0, len(all))
	for name, calls := range all {
		list = append(list, Count{name, calls})
	}
	slices.SortFunc(list, func(a, b Count) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), strings.Compare(a.Name, b.Name))
	})
	return slices.Clip(list[:min(len(list), maxListed)])
}

// toolReports returns the reports, those of the tools with the most failures first.
func (c *counter) toolReports() []ToolReport {
	list := make([]ToolReport, 0, len(c.reports))
	for name, t := range c.reports {
		list = append(list, ToolReport{c.tools[name].usage(name.tool, name.toolset), listed(t.outcomes), listed(t.arguments), listed(t.reasons), t.weeks})
	}
	slices.SortFunc(list, func(a, b ToolReport) int {
		return cmp.Or(cmp.Compare(b.Failures, a.Failures), cmp.Compare(b.Calls, a.Calls), strings.Compare(a.Name, b.Name), strings.Compare(a.Toolset, b.Toolset))
	})
	return slices.Clip(list[:min(len(list), maxReported)])
}
