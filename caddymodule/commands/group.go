package commands

import (
	"errors"
	"fmt"
	"strings"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/internal/text"
)

// RunE returns the function of a command. If run returns an error, it is printed as a sentence, and the exit status is
// that of an *ExitError, or 1.
func RunE(run func(caddycmd.Flags) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, arguments []string) error {
		err := run(caddycmd.Flags{FlagSet: cmd.Flags()})
		if err == nil {
			return nil
		}
		cmd.SilenceErrors = true // Cobra would not replace control characters
		cmd.PrintErrf("Error: %s\n", strings.TrimSpace(printableLines(err.Error())))
		if exit, ok := errors.AsType[*ExitError](err); ok {
			// Only Caddy can make the error that has an exit status. It logs nothing without an error.
			return caddycmd.WrapCommandFuncForCobra(func(caddycmd.Flags) (int, error) { return exit.Status, nil })(cmd, arguments)
		}
		return err
	}
}

// ExitError is an error of a command with its own exit status.
type ExitError struct {
	Status int // more than 1
	Err    error
}

// Error implements error.
func (e *ExitError) Error() string { return e.Err.Error() }

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
