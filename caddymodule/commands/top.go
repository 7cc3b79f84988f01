package commands

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/fairwayhq/fairway/caddymodule/internal/calllog"
)

const (
	refresh = 2 * time.Second // between two tables of `caddy agents top`

	// ANSI codes. Lines are overwritten, so that the table does not flicker.
	clearScreen = "\x1b[2J"
	home        = "\x1b[H"
	endLine     = "\x1b[K\n" // clears the rest of the line
	endScreen   = "\x1b[J"   // clears the rest of the screen
)

// TopCommand returns the command `caddy agents top`.
func TopCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "top [--range 1h|24h|7d] [--once] [--json]",
		Short: "Shows the load of a running Caddy by tool, user and agent",
		Long: `
Shows the tool calls of the last hour, day or week: calls a second, the share of
failures, and durations (half of the calls, and 95 % of them, are not slower); the most
used, slowest and most failing tools, the users and agents with the most calls, and how
many reviews wait. Calls of all nodes that share a store count.

On a terminal the table is updated every 2 seconds, until Ctrl-C. With --once it is
printed once. In a pipe, or with --json, the statistics are printed once as JSON.
`,
		Example: "  caddy agents top --range 24h",
		Args:    cobra.NoArgs,
	}
	adminFlags(cmd)
	cmd.Flags().String("range", "1h", "Calls of the last 1h, 24h or 7d")
	cmd.Flags().Bool("once", false, "Print the table once")
	cmd.RunE = RunE(func(flags caddycmd.Flags) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		cmd.SetContext(ctx)
		err := top(cmd, flags)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the user has interrupted the command
		}
		return err
	})
	return cmd
}

// top prints the table, again and again if the output is a terminal.
func top(cmd *cobra.Command, flags caddycmd.Flags) error {
	t := NewTerminal(cmd)
	live := t.Live && !t.JSON && !flags.Bool("once")
	if live {
		fmt.Fprint(t, clearScreen)
	}
	for {
		var encoded json.RawMessage
		if err := Admin(cmd, statsPath, url.Values{"range": {flags.String("range")}}, nil, &encoded); err != nil {
			return err
		}
		if t.JSON {
			_, err := fmt.Fprintf(t, "%s\n", escaped(encoded))
			return err
		}
		var stats calllog.Stats
		if err := json.Unmarshal(encoded, &stats); err != nil {
			return fmt.Errorf("the admin endpoint sent unexpected statistics: %w", err)
		}
		var waiting reviewList
		if err := Admin(cmd, "/agents/reviews", nil, nil, &waiting); err != nil && cmd.Context().Err() == nil {
			waiting.Open = nil // this Caddy has no agents
		}
		table := t.statsTable(&stats, &waiting, flags.String("range"))
		if !live {
			_, err := fmt.Fprint(t, table)
			return err
		}
		if _, err := fmt.Fprint(t, home+strings.ReplaceAll(table, "\n", endLine)+endScreen); err != nil {
			return err
		}
		if !wait(cmd.Context(), refresh) {
			return nil
		}
		t = NewTerminal(cmd) // its size may have changed
	}
}

// wait reports whether that time has passed before the context has ended.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// statsTable returns the table of `caddy agents top`. It fits the height of the terminal if that is 18 lines or more.
func (t Terminal) statsTable(s *calllog.Stats, waiting *reviewList, span string) string {
	sections := []struct {
		title string
		rows  []calllog.Usage
		empty string // shown for the name ""
	}{
		{"MOST USED TOOLS", s.Tools, "(unknown tool)"},
		{"SLOWEST TOOLS", s.Slowest, "(unknown tool)"},
		{"MOST FAILING TOOLS", s.Failing, "(unknown tool)"},
		{"USERS", s.Users, calllog.Anonymous},
		{"AGENTS", s.Agents, ""},
	}
	rows := max((t.Height-3)/len(sections)-1, 2)
	var b strings.Builder
	b.WriteString(t.Line(cell{Text: summary(s, span), Color: bold}))
	if len(waiting.Open) > 0 {
		b.WriteString(t.Line(cell{Text: fmt.Sprintf("reviews that wait: %d, the oldest for %s", len(waiting.Open), age(time.Since(waiting.Open[0].AskedAt))), Color: yellow}))
	}
	for _, section := range sections {
		if len(section.rows) == 0 {
			continue
		}
		b.WriteString(t.Paint(bold, t.numberLine(callsWidth, section.title, texts("CALLS", "FAILED", "P50", "P95")...)))
		for _, u := range section.rows[:min(len(section.rows), rows)] {
			numbers := texts(strconv.Itoa(u.Calls), share(u.Failures, u.Calls), duration(u.P50), duration(u.P95))
			if u.Failures > 0 {
				numbers[1].Color = red
			}
			b.WriteString(t.numberLine(callsWidth, cmp.Or(u.Name, section.empty), numbers...))
		}
	}
	return b.String()
}

// summary returns the first line of the table.
func summary(s *calllog.Stats, span string) string {
	seconds := max(s.To.Sub(s.From).Seconds(), 1)
	text := fmt.Sprintf("last %s: %d calls, %.2f/s", span, s.Total.Calls, float64(s.Total.Calls)/seconds)
	if last := len(s.Points) - 2; last >= 0 && s.Step > 0 { // the latest point is not over
		calls := 0
		for _, n := range s.Points[last].Calls {
			calls += n
		}
		text += fmt.Sprintf(", now %.2f/s", float64(calls)/s.Step)
	}
	text += fmt.Sprintf("  failed %s  p50 %s  p95 %s", share(s.Total.Failures, s.Total.Calls), duration(s.Total.P50), duration(s.Total.P95))
	if s.Partial {
		text += "  (the oldest calls are missing)"
	}
	return text
}

// share returns a part as a percentage.
func share(part, whole int) string {
	return fmt.Sprintf("%.1f %%", 100*float64(part)/float64(max(whole, 1)))
}
