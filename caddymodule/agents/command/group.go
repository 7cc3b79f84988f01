package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/internal/text"
)

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
