package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// table prints a line for each comparison as soon as it is measured.
type table struct {
	w io.Writer
}

func newTable(w io.Writer) *table {
	return &table{w: w}
}

// section starts a new block of lines with its own columns.
func (t *table) section(title string, columns ...string) {
	fmt.Fprintf(t.w, "\n%s\n", title)
	t.line(columns...)
	rules := make([]string, len(columns))
	for i, c := range columns {
		rules[i] = strings.Repeat("-", max(len(c), 3))
	}
	t.line(rules...)
}

// line prints the cells. The first is left-aligned in a wide column, the others are
// right-aligned.
func (t *table) line(cells ...string) {
	var b strings.Builder
	for i, c := range cells {
		if i == 0 {
			fmt.Fprintf(&b, "%-38s", c)
			continue
		}
		fmt.Fprintf(&b, "  %17s", c)
	}
	fmt.Fprintln(t.w, strings.TrimRight(b.String(), " "))
}

// note prints a remark.
func (t *table) note(format string, args ...any) {
	fmt.Fprintf(t.w, format+"\n", args...)
}

// bound is a target for a ratio: a minimum or a maximum.
type bound struct {
	limit float64
	least bool
}

func atLeast(limit float64) bound { return bound{limit, true} }
func atMost(limit float64) bound  { return bound{limit, false} }

// verdict returns the bound as the last cell of the table.
func (b bound) verdict(ratio float64) string {
	if b == (bound{}) {
		return "-"
	}
	sign, kept := "<=", ratio <= b.limit
	if b.least {
		sign, kept = ">=", ratio >= b.limit
	}
	word := "missed"
	if kept {
		word = "kept"
	}
	return fmt.Sprintf("%s %.4g %s", sign, b.limit, word)
}

// median sorts the values and returns their median, or 0 if there are none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	middle := len(values) / 2
	if len(values)%2 == 1 {
		return values[middle]
	}
	return (values[middle-1] + values[middle]) / 2
}

// ratioCell formats the median of the ratios with their range.
func ratioCell(ratios []float64) string {
	return fmt.Sprintf("%.2f (%.2f-%.2f)", median(ratios), slices.Min(ratios), slices.Max(ratios))
}

// pairCell formats a quantity of the baseline and of Fairway.
func pairCell(format string, baseline, fairway float64) string {
	return fmt.Sprintf(format+" / "+format, baseline, fairway)
}

// onConnections returns the name of a call with the number of its connections.
func onConnections(name string, connections int) string {
	if connections == 1 {
		return name + ", 1 connection"
	}
	return fmt.Sprintf("%s, %d connections", name, connections)
}
