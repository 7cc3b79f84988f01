package command

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
)

// readyTimeout limits the check of `caddy agents ready`.
const readyTimeout = 5 * time.Second

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
		Example:               "  caddy agents ready http://127.0.0.1:8081/health/ready",
		Args:                  cobra.MaximumNArgs(1),
		DisableFlagsInUseLine: true,
	}
	cmd.RunE = RunE(func(flags caddycmd.Flags) error {
		address := cmp.Or(flags.Arg(0), "http://127.0.0.1:8080/health/ready")
		ctx, cancel := context.WithTimeout(cmd.Context(), readyTimeout)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s responded with %s", address, response.Status)
		}
		return nil
	})
	return cmd
}
