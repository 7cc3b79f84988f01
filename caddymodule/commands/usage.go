package commands

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
)

// UsageCommand returns the command `caddy agents usage`.
func UsageCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "usage [--by user|group|agent|day] [--days <n>] [--json]",
		Short: "Shows the tokens that hosted agents have used, and their cost",
		Long: `
Prints what the hosted agents of a running Caddy have used today (UTC), or in the last
days, for each user, group, agent or day: requests to models, tokens of input (and those
of them that were cached) and output, and the cost, if the configuration has prices. All
nodes that share a store count. A user in several groups counts in each of them. The
store has the last 35 days. In a pipe, or with --json, each row is a JSON object on one
line.
`,
		Example: "  caddy agents usage --by agent --days 7",
		Args:    cobra.NoArgs,
	}
	adminFlags(cmd)
	cmd.Flags().String("by", "user", "One row for each user, group, agent or day")
	cmd.Flags().Int("days", 1, "Number of days, with today; at most 35")
	cmd.RunE = RunE(func(flags caddycmd.Flags) error {
		var rows []json.RawMessage
		query := url.Values{"by": {flags.String("by")}, "days": {strconv.Itoa(flags.Int("days"))}}
		if err := Admin(cmd, "/agents/usage", query, nil, &rows); err != nil {
			return err
		}
		t := NewTerminal(cmd)
		if len(rows) == 0 {
			cmd.PrintErrln("No hosted agent has used a model.")
		} else if !t.JSON {
			fmt.Fprint(t, t.Paint(bold, t.numberLine(tokensWidth, flags.String("by"), texts("REQUESTS", "INPUT", "CACHED", "OUTPUT", "COST")...)))
		}
		return printLines(t, "usage", rows, t.dayUsageLine)
	})
	return cmd
}

// usageRow is a row of the usage.
type usageRow struct {
	Name         string
	Requests     int64
	InputTokens  int64 `json:"input_tokens"`
	CachedTokens int64 `json:"cached_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	Cost         float64
}

// dayUsageLine returns a row as one line.
func (t Terminal) dayUsageLine(row *usageRow) string {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	return t.numberLine(tokensWidth, cmp.Or(row.Name, "anonymous"), texts(number(row.Requests), number(row.InputTokens), number(row.CachedTokens), number(row.OutputTokens),
		strconv.FormatFloat(row.Cost, 'f', 4, 64))...)
}
