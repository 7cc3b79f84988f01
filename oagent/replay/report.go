// Package replay evaluates changed rules over recorded calls, without calling anything and without writing anything: which calls
// would have been refused, held for a review, or allowed. Engagements (engagements.go) replays the documents of agents over the
// records of Engagements. A Report counts the result (report.go), in memory that does not grow with the number of calls.
//
// A call that is refused now stays in the history of the later calls, so that each call is judged in the traffic that there was.
package replay

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fairwayhq/fairway/internal/text"
)

// Limits of a Report.
const (
	maxRules     = 1000 // rows
	maxUsers     = 50   // of a row; the calls of further users are counted together
	maxExamples  = 5    // calls of a row, the newest
	maxArguments = 200  // bytes of Case.Arguments
	maxReasons   = 20   // reasons why calls cannot be decided
)

// Verdict is what rules decide about a call.
type Verdict string

// The verdicts.
const (
	Allowed Verdict = "allowed"
	Refused Verdict = "refused" // the call is not made, or its result is withheld
	Held    Verdict = "held"    // a reviewer must approve the call or its result
)

// Decision is what rules decide about a call, and the rule that does.
type Decision struct {
	Verdict Verdict
	Rule    string // path in the document; "" for Allowed
	Unknown string // why the rules cannot be evaluated; "" if they can
}

var passed = Decision{Verdict: Allowed}

// then returns the decision about a call, in two steps: the second only matters if the first allows the call.
func (d Decision) then(second Decision) Decision {
	if d.Verdict == Allowed && d.Unknown == "" {
		return second
	}
	return d
}

// Case is a recorded call, with three decisions about it.
type Case struct {
	At         time.Time `json:"at"`
	ID         string    `json:"id"`                   // of the kept call; without one, the key of the Engagement and the number of the entry
	Engagement string    `json:"engagement,omitempty"` // its key
	Tool       string    `json:"tool"`
	User       string    `json:"user,omitempty"`
	Arguments  string    `json:"arguments,omitempty"` // the beginning
	Now        Verdict   `json:"now"`                 // of the changed rules
	Before     Verdict   `json:"before"`              // of the rules in force; in Mismatches, what is recorded

	Recorded Decision `json:"-"`
	InForce  Decision `json:"-"`
	Changed  Decision `json:"-"`
}

// Row counts the calls that a rule decides differently.
type Row struct {
	Rule     string         `json:"rule"`
	Tool     string         `json:"tool"`
	Verdict  Verdict        `json:"verdict"` // Refused or Held
	Now      int64          `json:"now"`     // calls that the changed rule refuses or holds
	Before   int64          `json:"before"`  // calls that the rule in force refuses or holds; of a mismatch, what is recorded
	Changes  int64          `json:"changes"` // calls whose verdict changes
	Users    map[string]int `json:"users"`   // their users
	Others   int            `json:"other_users,omitempty"`
	Examples []Case         `json:"calls"` // newest first
}

// Report is the result of a replay.
type Report struct {
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	Calls int64     `json:"calls"`

	// How the rules in force decide these calls.
	Reproduced int64 `json:"reproduced"` // as is recorded
	Mismatched int64 `json:"mismatched"` // differently
	Unchecked  int64 `json:"unchecked"`  // not decidable

	// What the changed rules do to these calls.
	Unchanged   int64 `json:"unchanged"`
	NewRefused  int64 `json:"newly_refused"`
	NewHeld     int64 `json:"newly_held"`
	NewAllowed  int64 `json:"newly_allowed"` // not judged further, since these calls were never made
	Undecidable int64 `json:"undecidable"`

	Rules      []*Row           `json:"rules"`                // that change verdicts
	Mismatches []*Row           `json:"mismatches,omitempty"` // rules in force that do not reproduce what is recorded
	Reasons    map[string]int64 `json:"reasons,omitempty"`    // why calls are in Unchecked or Undecidable
	Notes      []string         `json:"notes,omitempty"`
	Incomplete string           `json:"incomplete,omitempty"` // why not all calls were read

	rules, mismatches map[rowKey]*Row
}

type rowKey struct {
	rule, tool string
	verdict    Verdict
}

// NewReport returns an empty report.
func NewReport(since, until time.Time) *Report {
	return &Report{Since: since, Until: until, Reasons: make(map[string]int64), rules: make(map[rowKey]*Row), mismatches: make(map[rowKey]*Row)}
}

// Changes reports whether a rule decides a call differently.
func (r *Report) Changes() bool { return r.NewRefused+r.NewHeld+r.NewAllowed > 0 }

// row returns the row of a decision; nil if nothing is refused or held, or if there are too many rules.
func row(rows map[rowKey]*Row, tool string, d Decision) *Row {
	key := rowKey{d.Rule, tool, d.Verdict}
	found := rows[key]
	if found == nil && d.Verdict != Allowed && d.Unknown == "" && len(rows) < maxRules {
		found = &Row{Rule: d.Rule, Tool: tool, Verdict: d.Verdict, Users: make(map[string]int)}
		rows[key] = found
	}
	return found
}

// add counts a call whose verdict changes.
func (w *Row) add(c Case) {
	if w == nil {
		return
	}
	w.Changes++
	if _, known := w.Users[c.User]; known || len(w.Users) < maxUsers {
		w.Users[c.User]++
	} else {
		w.Others++
	}
	at, _ := slices.BinarySearchFunc(w.Examples, c, func(a, b Case) int { return b.At.Compare(a.At) })
	if at < maxExamples {
		w.Examples = slices.Insert(w.Examples, at, c)[:min(len(w.Examples)+1, maxExamples)]
	}
}

// Add counts a call.
func (r *Report) Add(c Case) {
	r.Calls++
	r.check(c)
	before := c.before()
	c.Before, c.Now = before.Verdict, c.Changed.Verdict
	if why := c.Changed.Unknown; why != "" {
		r.Undecidable++
		if why != c.InForce.Unknown {
			r.reason(why)
		}
		return
	}
	was, is := row(r.rules, c.Tool, before), row(r.rules, c.Tool, c.Changed)
	if was != nil {
		was.Before++
	}
	if is != nil {
		is.Now++
	}
	switch c.Now {
	case c.Before:
		r.Unchanged++
	case Refused:
		r.NewRefused++
		is.add(c)
	case Held:
		r.NewHeld++
		is.add(c)
	case Allowed:
		r.NewAllowed++
		was.add(c)
	}
}

// check compares the rules in force with what is recorded.
func (r *Report) check(c Case) {
	switch {
	case c.InForce.Unknown != "":
		r.reason(c.InForce.Unknown)
		r.Unchecked++
	case c.InForce.Verdict == c.Recorded.Verdict:
		r.Reproduced++
	default:
		r.Mismatched++
		c.Now, c.Before = c.InForce.Verdict, c.Recorded.Verdict
		w := row(r.mismatches, c.Tool, c.InForce)
		if w != nil {
			w.Now++
		} else if w = row(r.mismatches, c.Tool, c.Recorded); w != nil {
			w.Before++
		}
		w.add(c)
	}
}

// CutArguments returns the beginning of arguments, for a Case.
func CutArguments(arguments []byte) string {
	return text.Cut(string(arguments[:min(len(arguments), 2*maxArguments)]), maxArguments)
}

// before returns what the rules in force decide. If they cannot be evaluated, what they decided is recorded.
func (c *Case) before() Decision {
	if c.InForce.Unknown != "" {
		return c.Recorded
	}
	return c.InForce
}

func (r *Report) reason(why string) {
	if _, known := r.Reasons[why]; !known && len(r.Reasons) >= maxReasons {
		why = "other reasons"
	}
	r.Reasons[why]++
}

// Finish sorts the rows, those with the most changes first, and drops those without.
func (r *Report) Finish() {
	r.Rules, r.Mismatches = sorted(r.rules), sorted(r.mismatches)
}

func sorted(rows map[rowKey]*Row) []*Row {
	all := append([]*Row{}, slices.Collect(maps.Values(rows))...)
	all = slices.DeleteFunc(all, func(w *Row) bool { return w.Changes == 0 })
	slices.SortFunc(all, func(a, b *Row) int {
		return cmp.Or(cmp.Compare(b.Changes, a.Changes), strings.Compare(a.Rule, b.Rule), strings.Compare(a.Tool, b.Tool), strings.Compare(string(a.Verdict), string(b.Verdict)))
	})
	return all
}
