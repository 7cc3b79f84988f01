package command

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"text/tabwriter"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/fairwayhq/fairway/caddymodule/app/credential"
)

func connectionsCommand() *cobra.Command {
	var user, address string
	cmd := &cobra.Command{
		Use:   "connections [--user <id>] [--address <admin>] [--json]",
		Short: "Lists the accounts that users have connected",
		Long: `
Lists the accounts at third parties that users of a running Caddy have connected:
user, provider, name of the account, when it was connected, and its state. Tokens
are never shown. With --json, each account is a JSON object on one line.
`,
		Args:                  cobra.NoArgs,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			asJSON, err := cmd.Flags().GetBool("json")
			if err != nil {
				return err
			}
			cmd.SilenceUsage = true
			return listConnections(os.Stdout, address, user, asJSON)
		},
	}
	cmd.Flags().StringVar(&user, "user", "", "Only accounts of this user")
	cmd.Flags().StringVar(&address, "address", "", "Address of the admin endpoint (default: Caddy's)")
	cmd.Flags().Bool("json", false, "JSON lines")
	return cmd
}

func listConnections(output io.Writer, address, user string, asJSON bool) error {
	address, err := caddycmd.DetermineAdminAPIAddress(address, nil, "", "")
	if err != nil {
		return err
	}
	response, err := caddycmd.AdminAPIRequest(address, http.MethodGet, "/agents/connections?"+url.Values{"user": {user}}.Encode(), nil, nil)
	if err != nil {
		return fmt.Errorf("listing the connections at %s failed: %w; is Caddy running, and is this its admin endpoint?", address, err)
	}
	defer response.Body.Close()
	if asJSON {
		_, err := io.Copy(output, response.Body)
		return err
	}
	table := tabwriter.NewWriter(output, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "USER\tPROVIDER\tACCOUNT\tCONNECTED\tSTATE")
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		var c credential.Connection
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return fmt.Errorf("the admin endpoint sent something else than a connection: %w", err)
		}
		fmt.Fprintf(table, "%q\t%s\t%q\t%s\t%s\n", c.User, c.Provider, c.Account, c.Connected.Format(time.DateOnly), stateOf(&c))
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return table.Flush()
}

// stateOf returns the state of an account in words.
func stateOf(c *credential.Connection) string {
	switch {
	case c.Rejected:
		return "rejected by the API"
	case !c.Renews && !c.Expires.IsZero() && time.Now().After(c.Expires):
		return "expired"
	case !c.InUse:
		return "not selected"
	}
	return "in use"
}
