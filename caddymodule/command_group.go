package caddymodule

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fairwayhq/fairway/internal/nearest"
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

// didYouMean returns the end of a message about an unknown name: the nearest of the known
// ones, or all of them if none is near.
func didYouMean(unknown string, known []string) string {
	if near := nearest.Name(unknown, slices.Values(known)); near != "" {
		return fmt.Sprintf("; did you mean %s?", near)
	}
	return fmt.Sprintf("; known are %s", strings.Join(known, ", "))
}
