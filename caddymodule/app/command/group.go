package command

import (
	"fmt"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/internal/text"
)

// RunE returns the function of a command that fails at start if run returns an error.
func RunE(run func(caddycmd.Flags) error) func(*cobra.Command, []string) error {
	return caddycmd.WrapCommandFuncForCobra(func(flags caddycmd.Flags) (int, error) {
		if err := run(flags); err != nil {
			return caddy.ExitCodeFailedStartup, err
		}
		return caddy.ExitCodeSuccess, nil
	})
}

// RequireSubcommand makes a command that only groups subcommands fail if its argument is not
// one of them. Without arguments the command prints its help.
func RequireSubcommand(cmd *cobra.Command) {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, arguments []string) error {
		if len(arguments) == 0 {
			return cmd.Help()
		}
		names := make([]string, 0, len(cmd.Commands()))
		for _, sub := range cmd.Commands() {
			names = append(names, sub.Name())
		}
		const longestQuoted = 64 // bytes
		return fmt.Errorf("caddy %s has no subcommand %q%s", cmd.Name(), text.Cut(arguments[0], longestQuoted), directive.DidYouMean(arguments[0], names))
	}
}
