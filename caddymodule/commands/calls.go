package commands

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/fairwayhq/fairway/caddymodule/internal/calllog"
)

const (
	defaultListed = 50  // entries that a list prints
	adminPage     = 100 // entries of one request to the admin endpoint
)

// CallsCommand returns the command `caddy agents calls`.
func CallsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "calls [--since <time>] [--until <time>] [--tool <name>] [--user <id>] [--agent <name>] [--outcome <outcome>] [--would-refuse] [--text <text>] [--limit <n>] [--wide] [--json]",
		Short: "Finds the tool calls that a running Caddy has kept",
		Long: `
Prints the tool calls that have ended, the newest first, each on one line: time,
outcome, tool, duration, user, and why it failed. Lines are cut to the width of the
terminal. --wide cuts nothing, and adds status, agent, protocol, toolset, trace, node
and arguments. In a pipe, or with --json, each call is a JSON object on one line.

--since and --until are times (2026-01-31T12:00:00Z) or durations before now (1h, 7d).
--would-refuse finds calls that went through although a rule in log only would have
refused, held or masked them. --text finds calls that contain a text anywhere. The user
anonymous selects callers without authentication. A note on standard error says if there
are more than --limit.
`,
		Example: "  caddy agents calls --since 1h --outcome refused",
		Args:    cobra.NoArgs,
	}
	adminFlags(cmd)
	filterFlags(cmd)
	cmd.Flags().String("since", "", "Only calls that have ended since this time (default: all that are kept)")
	cmd.Flags().String("until", "", "Only calls that have ended before this time")
	cmd.Flags().String("text", "", "Only calls that contain this text")
	cmd.Flags().Bool("would-refuse", false, "Only calls that a rule in log only would have refused, held or masked")
	limitFlag(cmd)
	cmd.RunE = RunE(func(flags caddycmd.Flags) error {
		query := filters(flags)
		for _, name := range []string{"since", "until", "text"} {
			if value := flags.String(name); value != "" {
				query.Set(name, value)
			}
		}
		if flags.Bool("would-refuse") {
			query.Set("would", "refuse")
		}
		t := NewTerminal(cmd)
		t.Wide = flags.Bool("wide")
		return list(t, cmd, "call", func(cursor string, limit int) ([]json.RawMessage, string, error) {
			query.Set("cursor", cursor)
			query.Set("limit", strconv.Itoa(limit))
			var page struct {
				Calls []json.RawMessage `json:"calls"`
				Next  string            `json:"next"`
			}
			err := Admin(cmd, findPath, query, nil, &page)
			return page.Calls, page.Next, err
		}, func(call *calllog.Call) string {
			return t.callLine(call, timeLayout(call.Ended, time.Now()), len(dateAndTime))
		})
	})
	return cmd
}

// limitFlag adds the flag --limit of lists.
func limitFlag(cmd *cobra.Command) {
	cmd.Flags().Int("limit", defaultListed, "How many to print at most")
}

// list prints the entries of a list of the admin endpoint. Page returns those after a cursor, "" for the beginning.
// Line returns an entry as a line.
func list[T any](t Terminal, cmd *cobra.Command, what string, page func(cursor string, limit int) ([]json.RawMessage, string, error), line func(*T) string) error {
	limit, err := cmd.Flags().GetInt("limit")
	if err != nil {
		return err
	}
	if limit < 1 {
		return errors.New("--limit must be at least 1")
	}
	printed, next := 0, ""
	for {
		var entries []json.RawMessage
		if entries, next, err = page(next, min(limit-printed, adminPage)); err != nil {
			return err
		}
		if err := printLines(t, what, entries, line); err != nil {
			return err
		}
		if printed += len(entries); next == "" || printed >= limit {
			break
		}
	}
	switch {
	case printed == 0:
		cmd.PrintErrf("No %s fits.\n", what)
	case next != "":
		cmd.PrintErrf("There may be more: --limit %d ends the list here.\n", limit)
	}
	return nil
}

// printLines prints entries of the admin endpoint, each on a line: as JSON, or as the text that line returns.
func printLines[T any](t Terminal, what string, entries []json.RawMessage, line func(*T) string) error {
	for _, encoded := range entries {
		printed := string(escaped(encoded)) + "\n"
		if !t.JSON {
			var entry T
			if err := json.Unmarshal(encoded, &entry); err != nil {
				return fmt.Errorf("the admin endpoint sent an unexpected %s: %w", what, err)
			}
			printed = line(&entry)
		}
		if _, err := io.WriteString(t, printed); err != nil {
			return err
		}
	}
	return nil
}
