package commands

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/internal/adminapi"
)

// The data about users on Caddy's admin endpoint:
//
//	GET  /agents/users/export?user=<id>  everything about a user, as a JSON object
//	POST /agents/users/erase?user=<id>   deletes it, and returns the number of records
//	POST /agents/users/logout?user=<id>  ends the user's sessions, and returns their number
//
// The audit archive is not part of it.
func init() {
	ofUser := func(do func(*app.App, context.Context, string) (any, error)) func(*http.Request) (any, error) {
		return func(r *http.Request) (any, error) {
			agents, err := adminapi.Running[*app.App]()
			if err != nil {
				return nil, err
			}
			user := r.URL.Query().Get("user")
			if user == "" {
				return nil, adminapi.Error(http.StatusBadRequest, "user is missing: add ?user=<id>")
			}
			return do(agents, r.Context(), user)
		}
	}
	adminapi.Register("agents_users",
		adminapi.Get(exportPath, ofUser(func(a *app.App, ctx context.Context, user string) (any, error) { return a.Users.Export(ctx, user) })),
		adminapi.Post(erasePath, 0, ofUser(func(a *app.App, ctx context.Context, user string) (any, error) { return a.Users.Erase(ctx, user) })),
		adminapi.Post(logoutPath, 0, ofUser(func(a *app.App, ctx context.Context, user string) (any, error) { return a.Users.LogOut(ctx, user) })),
	)
}

// Paths of the admin endpoint.
const (
	exportPath = "/agents/users/export"
	erasePath  = "/agents/users/erase"
	logoutPath = "/agents/users/logout"
)

// UserCommand returns the command `caddy agents user`.
func UserCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "user", Short: "Exports or erases what is stored about a user, or logs the user out"}
	export := &cobra.Command{
		Use:   "export ID [--address <admin>]",
		Short: "Prints everything that is stored about a user, as JSON",
		Long: `
Prints what the store of a running Caddy has about a user: Engagements and their
records, reviews, runs, sessions and connections, without tokens and secrets.
`,
		Example: "  caddy agents user export ada > ada.json",
		Args:    cobra.ExactArgs(1),
	}
	export.RunE = RunE(func(flags caddycmd.Flags) error {
		uri := exportPath + "?" + url.Values{"user": {flags.Arg(0)}}.Encode()
		response, err := adminRequest(export.Context(), flags.String("address"), http.MethodGet, uri, nil)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		_, err = io.Copy(cmd.OutOrStdout(), response.Body)
		return err
	})
	erase := &cobra.Command{
		Use:   "erase ID --yes [--address <admin>]",
		Short: "Deletes everything that is stored about a user",
		Long: `
Deletes what caddy agents user export prints, except decisions of the user about
calls of others, and prints the number of records. The audit archive, access logs and
metrics are not changed. This cannot be undone.
`,
		Example: "  caddy agents user erase ada --yes",
		Args:    cobra.ExactArgs(1),
	}
	erase.RunE = RunE(func(flags caddycmd.Flags) error {
		if !flags.Bool("yes") {
			return fmt.Errorf("nothing was deleted: add --yes to delete everything about the user %q", flags.Arg(0))
		}
		return deleteOfUser(erase, erasePath)
	})
	erase.Flags().Bool("yes", false, "Delete without asking")
	logout := &cobra.Command{
		Use:   "logout ID [--address <admin>]",
		Short: "Ends the sessions of a user",
		Long: `
Ends the sessions of a user of agent_login, on all nodes: browsers at the console, and
refresh tokens of clients. Prints their number. Access tokens that clients have already
work until they expire (token_lifetime).
`,
		Example: "  caddy agents user logout ada",
		Args:    cobra.ExactArgs(1),
	}
	logout.RunE = RunE(func(caddycmd.Flags) error { return deleteOfUser(logout, logoutPath) })
	for _, sub := range []*cobra.Command{export, erase, logout} {
		addressFlag(sub)
	}
	cmd.AddCommand(export, erase, logout)
	RequireSubcommand(cmd)
	return cmd
}

// deleteOfUser deletes records of the user of the command line, and prints their number by kind.
func deleteOfUser(cmd *cobra.Command, path string) error {
	var counts map[string]int
	if err := Admin(cmd, path, url.Values{"user": {cmd.Flags().Arg(0)}}, struct{}{}, &counts); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(cmd.OutOrStdout(), "%s: %d\n", name, counts[name])
	}
	return nil
}
