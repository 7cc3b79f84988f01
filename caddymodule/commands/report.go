package commands

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/fairwayhq/fairway/caddymodule/internal/calllog"
)

// causesShown is how many causes of each kind `caddy agents report` shows below a tool.
const causesShown = 3

// ReportCommand returns the command `caddy agents report`.
func ReportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "report [--range 24h|7d|28d] [--tool <name>] [--json]",
		Short: "Says for each tool of a running Caddy what the owner of its API should mend",
		Long: `
Prints the tools, those with the most failures first: calls, failures, calls with wrong
arguments, and tokens of an answer. Below a tool are its most frequent wrong arguments
and reasons of other failures; # is a number. It is counted from the kept calls of all
nodes that share a store.

In a pipe, or with --json, each tool is a JSON object on one line, with all counts, also
by week.
`,
		Example: "  caddy agents report --range 7d --tool get_trip",
		Args:    cobra.NoArgs,
	}
	adminFlags(cmd)
	cmd.Flags().String("range", "28d", "Calls of the last 24h, 7d or 28d")
	cmd.Flags().String("tool", "", "Only the tool with this name")
	cmd.RunE = RunE(func(flags caddycmd.Flags) error {
		t := NewTerminal(cmd)
		var stats struct {
			Report  []json.RawMessage `json:"report"`
			Partial bool              `json:"partial"`
		}
		if err := Admin(cmd, statsPath, url.Values{"range": {flags.String("range")}, "report": {"true"}}, nil, &stats); err != nil {
			return err
		}
		if wanted := flags.String("tool"); wanted != "" {
			stats.Report = slices.DeleteFunc(stats.Report, func(encoded json.RawMessage) bool {
				var tool calllog.ToolReport
				return json.Unmarshal(encoded, &tool) != nil || tool.Name != wanted
			})
		}
		if !t.JSON && len(stats.Report) > 0 {
			fmt.Fprint(t, t.Paint(bold, t.numberLine(callsWidth, "TOOL", texts("CALLS", "FAILED", "INVALID", "TOKENS")...)))
		}
		if err := printLines(t, "report", stats.Report, t.toolReport); err != nil {
			return err
		}
		switch {
		case len(stats.Report) == 0:
			cmd.PrintErrf("No call fits.\n")
		case stats.Partial:
			cmd.PrintErrf("The oldest calls are not counted.\n")
		}
		return nil
	})
	return cmd
}

// toolReport returns the lines of a tool.
func (t Terminal) toolReport(r *calllog.ToolReport) string {
	var lines strings.Builder
	lines.WriteString(t.numberLine(callsWidth, r.Name+"  "+r.Toolset, texts(strconv.Itoa(r.Calls), strconv.Itoa(r.Failures), strconv.Itoa(r.Invalid()), strconv.Itoa(r.Tokens()))...))
	for _, causes := range [][]calllog.Count{r.Arguments, r.Reasons} {
		for _, c := range causes[:min(len(causes), causesShown)] {
			lines.WriteString(t.Line(cell{Text: strings.Repeat(" ", 4) + strconv.Itoa(c.Calls), Width: 9, Right: true, Color: red}, cell{Text: c.Name}))
		}
	}
	return lines.String()
}
