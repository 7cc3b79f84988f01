package commands

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/fairwayhq/fairway/caddymodule/replay"
	"github.com/fairwayhq/fairway/internal/buffer"
	verdicts "github.com/fairwayhq/fairway/oagent/replay"
)

const (
	exitCodeDiffers = 4        // exit status of `caddy agents replay` if the changed rules decide a call differently
	maxReplayed     = 16 << 20 // bytes of all documents
	maxShownUsers   = 5        // of a rule
)

// ReplayCommand returns the command `caddy agents replay`.
func ReplayCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "replay [--since <time>] [--until <time>] [--user <id>] [--json] FILE... | --allow <expression> --toolset <name> | --lock [--toolset <name>] [FILE]",
		Short: "Tries changed rules on the calls that a running Caddy has recorded",
		Long: `
Reads changed documents of agents, and evaluates their rules over the calls in the
records of Engagements. Prints by rule which calls would be refused, held for a review,
or allowed now. Nothing is called, and nothing is written.

First it evaluates the documents in force, and prints where they do not decide as is
recorded. A call that needs a value that is not recorded cannot be decided, and is
counted as such.

--allow replays a rule for a toolset (option allow). --lock finds the calls of tools
that are withheld because they differ from the lock of their toolset. With a FILE, these
are the tools of this OpenAPI document.

--since and --until are times (2026-01-31T12:00:00Z) or durations before now (1h, 7d).

Exit status: 0 if no verdict changes, 4 if one does, 1 for other errors.
`,
		Example: "  caddy agents replay --since 7d new/clerk.yaml",
	}
	adminFlags(cmd)
	cmd.Flags().String("since", "7d", "Only calls since this time")
	cmd.Flags().String("until", "", "Only calls before this time")
	cmd.Flags().String("user", "", "Only calls of this user")
	cmd.Flags().String("allow", "", "A rule for --toolset: true for the calls that it allows")
	cmd.Flags().String("toolset", "", "Name of the toolset")
	cmd.Flags().Bool("lock", false, "Find the calls of tools that differ from the lock")
	cmd.RunE = RunE(func(flags caddycmd.Flags) error {
		q := replay.Request{
			Allow: flags.String("allow"), Toolset: flags.String("toolset"), Lock: flags.Bool("lock"),
			Since: flags.String("since"), Until: flags.String("until"), User: flags.String("user"),
		}
		if q.Allow == "" && !q.Lock && q.Toolset != "" {
			return errors.New("--toolset requires --allow or --lock")
		}
		if err := readReplayed(&q, flags.Args()); err != nil {
			return err
		}
		var raw json.RawMessage
		if err := Admin(cmd, "/agents/replay", nil, q, &raw); err != nil {
			return err
		}
		report := new(verdicts.Report)
		if err := json.Unmarshal(raw, report); err != nil {
			return fmt.Errorf("the admin endpoint sent an unexpected response: %w", err)
		}
		t := NewTerminal(cmd)
		text := string(escaped(raw)) + "\n"
		if !t.JSON {
			text = t.report(report)
		}
		if _, err := io.WriteString(t, text); err != nil {
			return err
		}
		return replayError(report)
	})
	return cmd
}

// replayError returns the error of a replay in which a verdict changes, or that has not read all calls.
func replayError(r *verdicts.Report) error {
	switch {
	case r.Changes():
		return &ExitError{Status: exitCodeDiffers, Err: fmt.Errorf("the changed rules decide %d calls differently", r.NewRefused+r.NewHeld+r.NewAllowed)}
	case r.Incomplete != "":
		return errors.New(r.Incomplete)
	}
	return nil
}

// readReplayed reads the documents.
func readReplayed(q *replay.Request, names []string) error {
	left := maxReplayed
	for _, name := range names {
		file, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: check the path", err)
		}
		if err != nil {
			return err
		}
		content, err := buffer.ReadLimited(file, int64(left))
		_ = file.Close() // it was only read
		if errors.Is(err, buffer.ErrTooLarge) {
			return fmt.Errorf("the documents have more than %s: replay fewer at a time", humanize.IBytes(maxReplayed))
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		left -= len(content)
		q.Documents = append(q.Documents, replay.Document{Name: name, Text: string(content)})
	}
	return nil
}

// report returns a report as text.
func (t Terminal) report(r *verdicts.Report) string {
	t.Wide = !t.Live
	var b strings.Builder
	fmt.Fprintf(&b, "%d calls; the rules in force decide %d of them as is recorded, %d differently, and cannot decide %d\n", r.Calls, r.Reproduced, r.Mismatched, r.Unchecked)
	fmt.Fprintf(&b, "the changed rules refuse %d more, hold %d more, allow %d more (not judged further: they were never made), and cannot decide %d\n",
		r.NewRefused, r.NewHeld, r.NewAllowed, r.Undecidable)
	for _, why := range slices.Sorted(maps.Keys(r.Reasons)) {
		fmt.Fprintf(&b, "  not decided: %d, %s\n", r.Reasons[why], printable(why))
	}
	for _, note := range append(r.Notes, r.Incomplete) {
		if note != "" {
			fmt.Fprintf(&b, "note: %s\n", printable(note))
		}
	}
	b.WriteString(t.rows("changed rule", "now", "before", r.Rules))
	b.WriteString(t.rows("rule in force that does not decide as is recorded", "decides", "recorded", r.Mismatches))
	return b.String()
}

// rows returns a table of rules, each with its users and latest calls.
func (t Terminal) rows(title, now, before string, rows []*verdicts.Row) string {
	if len(rows) == 0 {
		return ""
	}
	line := func(rule, now, before, users string) string {
		return t.Line(cell{Text: rule, Width: 50}, cell{Text: now, Width: 20}, cell{Text: before, Width: 16}, cell{Text: users})
	}
	var text strings.Builder
	text.WriteString("\n" + line(title, now, before, "users"))
	for _, row := range rows {
		text.WriteString(line(row.Rule, fmt.Sprintf("%s %d (%+d)", row.Verdict, row.Now, row.Now-row.Before), fmt.Sprintf("%s %d", row.Verdict, row.Before), usersOf(row)))
		for i := range row.Examples {
			c := &row.Examples[i]
			text.WriteString(t.Line(cell{Text: fmt.Sprintf("  %s  %s  %s %s  %s -> %s  %s", cmp.Or(c.User, "anonymous"), c.At.Local().Format("2006-01-02 15:04:05"),
				c.Tool, c.Arguments, c.Before, c.Now, c.ID)}))
		}
	}
	return text.String()
}

// usersOf returns the users of a rule, those with the most calls first.
func usersOf(row *verdicts.Row) string {
	names := slices.SortedFunc(maps.Keys(row.Users), func(a, b string) int {
		return cmp.Or(cmp.Compare(row.Users[b], row.Users[a]), strings.Compare(a, b))
	})
	others := row.Others
	for _, name := range names[min(len(names), maxShownUsers):] {
		others += row.Users[name]
	}
	var shown []string
	for _, name := range names[:min(len(names), maxShownUsers)] {
		shown = append(shown, fmt.Sprintf("%s %d", cmp.Or(name, "anonymous"), row.Users[name]))
	}
	if others > 0 {
		shown = append(shown, fmt.Sprintf("others %d", others))
	}
	return strings.Join(shown, ", ")
}
