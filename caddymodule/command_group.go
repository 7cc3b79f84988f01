package caddymodule

import (
	"fmt"

	"github.com/spf13/cobra"
)

// requireSubcommand makes a command that only groups others fail if its argument is none of
// them. Without arguments it prints its help.
func requireSubcommand(cmd *cobra.Command) {
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
		return fmt.Errorf("caddy %s has no subcommand %q%s", cmd.Name(), cutText(arguments[0], longestQuoted), didYouMean(arguments[0], names))
	}
}
