package console

import (
	"strconv"
	"time"

	"github.com/fairwayhq/fairway/oagent/hosted/run"
)

// traceModel is a run as a page shows it: turns with their calls, each with a bar on a time axis.
type traceModel struct {
	Turns   []turnModel
	Ticks   []tick
	Omitted int
}

// turnModel is a message of the user or of the model.
type turnModel struct {
	run.Turn
	Bar   bar
	Calls []callBar
}

// callBar is a call of a turn, with those of the agent that it called.
type callBar struct {
	run.TracedCall
	Bar    bar
	Word   string // the status as people say it
	Class  string // of the word and the bar
	Link   string // of the list of such calls
	Inside []callBar
}

// bar is a part of the time axis, in percent of its length.
type bar struct {
	X, Width string
	At, Took string // as people say it; Took is "" if it has not ended
}

// tick is a label of the time axis.
type tick struct{ X, Text string }

// Limits of the time axis.
const (
	maxTicks     = 5
	thinnestBar  = 0.4 // percent of the axis
	lastTick     = 92  // percent; a later label would not fit
	wholeAxis    = 100 // percent
	shortestAxis = 10 * time.Millisecond
)

// axis is the time of a run, from the first turn to its end or to now.
type axis struct {
	began time.Time
	took  time.Duration
	over  bool // the run has ended
	link  func(call string) string
}

// newTrace returns the model of a trace. link returns the path of the list of such calls.
func newTrace(t *run.Trace, now time.Time, link func(call string) string) *traceModel {
	if t == nil || len(t.Turns) == 0 {
		return nil
	}
	end := t.Ended
	if end.IsZero() {
		end = now
	}
	a := axis{t.Turns[0].Began, max(end.Sub(t.Turns[0].Began), shortestAxis), !t.Ended.IsZero(), link}
	m := &traceModel{Omitted: t.Omitted, Ticks: a.ticks()}
	for _, turn := range t.Turns {
		m.Turns = append(m.Turns, turnModel{turn, a.bar(turn.Began, turn.Ended), a.calls(turn.Calls)})
	}
	return m
}

// calls returns calls with their bars. Those of a called agent have no links: its own page has them.
func (a axis) calls(calls []run.TracedCall) []callBar {
	bars := make([]callBar, len(calls))
	for i, c := range calls {
		bars[i] = callBar{TracedCall: c, Bar: a.bar(c.Began, c.Ended), Inside: axis{a.began, a.took, a.over, func(string) string { return "" }}.calls(c.Inside)}
		bars[i].Word, bars[i].Class = callWord(&c, a.over)
		bars[i].Link = a.link(c.Name)
	}
	return bars
}

// callWord returns what people call the status of a call, and its CSS class.
func callWord(c *run.TracedCall, over bool) (word, class string) {
	switch {
	case c.Status == run.CallRejected:
		return "rejected", "bad"
	case c.Status == run.CallDone && c.Failed && c.Reason != "":
		return "refused", "bad"
	case c.Status == run.CallDone && c.Failed:
		return "failed", "bad"
	case c.Status == run.CallDone:
		return "ok", "good"
	case over:
		return "interrupted", "bad"
	case c.Status == run.CallWaiting && c.WaitedFor == run.WaitReview:
		return "waits for a review", "warn"
	case c.Status == run.CallWaiting && c.WaitedFor == run.WaitQuestion:
		return "waits for the user", "warn"
	}
	return "in progress", "warn"
}

// bar returns the part of the axis from one time to another. If ended is zero, it reaches to the end of the axis.
func (a axis) bar(began, ended time.Time) bar {
	at := min(max(began.Sub(a.began), 0), a.took)
	b := bar{X: percent(a.share(at)), At: seconds(at)}
	took := a.took - at
	if !ended.IsZero() {
		took = min(max(ended.Sub(began), 0), took)
		b.Took = seconds(took)
	}
	b.Width = percent(max(a.share(took), thinnestBar))
	if a.share(at) > wholeAxis-thinnestBar {
		b.X = percent(wholeAxis - thinnestBar)
	}
	return b
}

func (a axis) share(d time.Duration) float64 { return wholeAxis * float64(d) / float64(a.took) }

// ticks returns labels at round times.
func (a axis) ticks() []tick {
	step := shortestAxis / 10
	for doubles := true; a.took/step > maxTicks; doubles = !doubles { // 1, 2, 10, 20, 100 …
		if doubles {
			step *= 2
		} else {
			step *= 5
		}
	}
	var ticks []tick
	for at := time.Duration(0); a.share(at) < lastTick; at += step {
		ticks = append(ticks, tick{percent(a.share(at)), seconds(at)})
	}
	return ticks
}

// percent returns a number for an attribute of SVG.
func percent(n float64) string { return strconv.FormatFloat(n, 'f', 2, 64) + "%" }

// seconds returns a duration as people say it.
func seconds(d time.Duration) string {
	switch {
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	case d < time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	}
	return d.Truncate(time.Second).String()
}
