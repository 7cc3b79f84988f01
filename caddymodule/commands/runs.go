package commands

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/review"
)

// Widths of columns of runs and reviews.
const (
	ageWidth    = 4
	statusWidth = 21
	agentWidth  = 12
	idWidth     = 26
)

// RunsCommand returns the command `caddy agents runs`.
func RunsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "runs [--agent <name>] [--user <id>] [--status <status>] [--limit <n>] [--wide] [--json]",
		Short: "Lists the runs (Engagements) of agents",
		Long: `
Prints the Engagements of a running Caddy, that with the latest change first, each on
one line: time since that change, status, agent, user, number of calls and of refused
calls, id, and the rule that ended it. In a pipe, or with --json, each is a JSON object
on one line.
`,
		Example: "  caddy agents runs --agent clerk --status awaiting-verification",
		Args:    cobra.NoArgs,
	}
	adminFlags(cmd)
	for _, name := range []string{"agent", "user", "status"} {
		cmd.Flags().String(name, "", "Only those of this "+name)
	}
	cmd.Flags().Bool("wide", false, "Do not cut lines")
	limitFlag(cmd)
	cmd.RunE = RunE(func(flags caddycmd.Flags) error {
		query := url.Values{"order": {"newest"}}
		for _, name := range []string{"agent", "user", "status"} {
			query.Set(name, flags.String(name))
		}
		t := NewTerminal(cmd)
		t.Wide = flags.Bool("wide")
		return list(t, cmd, "run", func(cursor string, limit int) ([]json.RawMessage, string, error) {
			query.Set("after", cursor)
			query.Set("limit", strconv.Itoa(limit))
			var page struct {
				Engagements []json.RawMessage `json:"engagements"`
				Next        string            `json:"next"`
			}
			err := Admin(cmd, "/agents/engagements", query, nil, &page)
			return page.Engagements, page.Next, err
		}, t.runLine)
	})
	return cmd
}

// runLine returns an Engagement as one line.
func (t Terminal) runLine(e *engagement.Summary) string {
	status, color, ended := e.Status, green, ""
	if e.Ended != nil {
		ended, color = e.Ended.Rule, red
	} else if len(e.Pending) > 0 {
		color = yellow
	}
	return t.Line(
		cell{Text: age(time.Since(e.LastAt)), Width: ageWidth, Right: true},
		cell{Text: status, Width: statusWidth, Color: color},
		cell{Text: e.Agent, Width: agentWidth},
		cell{Text: cmp.Or(e.User.ID, "anonymous"), Width: userWidth},
		cell{Text: fmt.Sprintf("%d/%d", e.Total, e.Refused), Width: 9, Right: true},
		cell{Text: e.ID, Width: idWidth},
		cell{Text: ended},
	)
}

// reviewList is the response of GET /agents/reviews.
type reviewList struct {
	Open []review.Summary `json:"open"`
}

// ReviewsCommand returns the command `caddy agents reviews`.
func ReviewsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reviews [list | approve <id> | deny <id>]",
		Short: "Lists reviews that wait, and decides them",
		Long: `
Prints the reviews that wait for a decision, the oldest first, each on one line: age,
id, reviewer, agent, user, tool, and the rule that asks for it. In a pipe, or with
--json, each is a JSON object on one line.
`,
		Example: "  caddy agents reviews\n  caddy agents reviews approve 6YB… --as grace",
		Args:    cobra.NoArgs,
	}
	listCommand := &cobra.Command{Use: "list", Short: "Lists reviews that wait", Long: cmd.Long, Example: "  caddy agents reviews list", Args: cobra.NoArgs}
	for _, c := range []*cobra.Command{cmd, listCommand} {
		adminFlags(c)
		c.RunE = RunE(func(caddycmd.Flags) error { return listReviews(c) })
	}
	cmd.AddCommand(listCommand, decideCommand("approve", "Approves"), decideCommand("deny", "Denies"))
	return cmd
}

// listReviews prints the reviews that wait.
func listReviews(cmd *cobra.Command) error {
	t := NewTerminal(cmd)
	var reviews struct {
		Open []json.RawMessage `json:"open"`
	}
	if err := Admin(cmd, "/agents/reviews", nil, nil, &reviews); err != nil {
		return err
	}
	if len(reviews.Open) == 0 {
		cmd.PrintErrln("No review waits.")
	}
	return printLines(t, "review", reviews.Open, t.reviewLine)
}

// reviewLine returns a review as one line.
func (t Terminal) reviewLine(r *review.Summary) string {
	return t.Line(
		cell{Text: age(time.Since(r.AskedAt)), Width: ageWidth, Right: true},
		cell{Text: r.ID, Width: max(idWidth, len(r.ID))},
		cell{Text: r.Reviewer, Width: userWidth},
		cell{Text: r.Agent, Width: userWidth},
		cell{Text: cmp.Or(r.User.ID, "anonymous"), Width: userWidth},
		cell{Text: r.Name + " (" + r.Rule + ")"},
	)
}

// decideCommand returns a command that decides a review.
func decideCommand(decision, does string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   decision + " <id> --as <user> [--comment <text>]",
		Short: does + " a review",
		Long: "\n" + does + ` a review for a user. The admin endpoint has no logins, so --as
names the user who decides. The record has the user, and that the decision came by the
admin endpoint. The user whose call needs the review cannot decide it. Reviews that an
agent decides are left to the agent.
`,
		Example:               "  caddy agents reviews " + decision + ` 6YB… --as grace --comment "as agreed by phone"`,
		Args:                  cobra.ExactArgs(1),
		DisableFlagsInUseLine: true,
	}
	addressFlag(cmd)
	cmd.Flags().String("as", "", "Id of the user who decides; required")
	cmd.Flags().String("comment", "", "Why; the agent and the record get it")
	cmd.RunE = RunE(func(flags caddycmd.Flags) error {
		var decided review.Review
		sent := map[string]string{"as": flags.String("as"), "comment": flags.String("comment")}
		if err := Admin(cmd, "/agents/reviews/"+url.PathEscape(flags.Arg(0))+"/"+decision, nil, sent, &decided); err != nil {
			return err
		}
		t := NewTerminal(cmd)
		_, err := fmt.Fprintf(t, "%s %s: %s of agent %s for %s\n", t.Paint(bold, printable(decided.Status)), decided.ID,
			printable(decided.Name), printable(decided.Agent), printable(cmp.Or(decided.User.ID, "anonymous")))
		return err
	})
	return cmd
}
