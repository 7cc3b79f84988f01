package commands

import (
	"cmp"
	"fmt"
	"net/http"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
)

// ReadyCommand returns the command `caddy agents ready`.
func ReadyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ready [<url>]",
		Short: "Checks whether a running Caddy is ready",
		Long: `
Requests a URL of agents_health and succeeds if the response has the status 200. It is
the health check of containers whose image has no shell. It waits for at most 5 seconds.
The URL is http://127.0.0.1:8080/health/ready if none is given.
`,
		Args:                  cobra.MaximumNArgs(1),
		DisableFlagsInUseLine: true,
	}
	cmd.RunE = RunE(func(flags caddycmd.Flags) error {
		address := cmp.Or(flags.Arg(0), "http://127.0.0.1:8080/health/ready")
		request, err := http.NewRequestWithContext(cmd.Context(), http.MethodGet, address, nil)
		if err != nil {
			return err
		}
		client := http.Client{Timeout: 5 * time.Second}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode == http.StatusOK {
			return nil
		}
		return fmt.Errorf("%s responded with %s", address, response.Status)
	})
	return cmd
}
