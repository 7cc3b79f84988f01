package commands

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/fairwayhq/fairway/caddymodule/archive"
)

// Exit statuses of `caddy agents audit verify`.
const (
	exitCodeGap     = 4 // lines are missing
	exitCodeChanged = 5 // a line was changed
	exitCodeLink    = 6 // a line does not continue the one before it
)

// AuditCommand returns the command `caddy agents audit`.
func AuditCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "audit", Short: "Checks the audit archive"}
	verify := &cobra.Command{
		Use:   "verify FILE...",
		Short: "Checks that no line of the audit archive was changed or removed",
		Long: `
Checks the chain of hashes of each node in files of the audit archive, of one node
or of several, in any order. Prints the number of lines and the hash of the last line
of each node. Compare it with the one printed earlier, or with another sink: lines
that are missing at the end leave no gap. If there are faults, prints each of them. A
note says if the first lines of a node are missing, as they are after they were kept
for long enough. A chain that begins after lines of other nodes in a file is a fault,
unless --node names its node.

Exit status: 0 if all lines are intact; for the first fault 4 if lines are missing, 5
if a line was changed, 6 if a line does not continue the one before it; 1 for other
errors.
`,
		Example: "  caddy agents audit verify /var/log/fairway/audit*.jsonl",
		Args:    cobra.MinimumNArgs(1),
	}
	verify.Flags().StringArray("node", nil, "A node whose chain may begin in the middle of a file; repeatable")
	verify.RunE = RunE(func(flags caddycmd.Flags) error {
		status, err := verifyFiles(verify, flags)
		if status > caddy.ExitCodeFailedStartup {
			return &ExitError{Status: status, Err: err}
		}
		return err
	})
	cmd.AddCommand(verify)
	RequireSubcommand(cmd)
	return cmd
}

// verifyFiles checks files, and returns the exit status.
func verifyFiles(cmd *cobra.Command, flags caddycmd.Flags) (int, error) {
	var v archive.Verifier
	for _, name := range flags.Args() {
		file, err := os.Open(name)
		if err != nil {
			return caddy.ExitCodeFailedStartup, err
		}
		err = v.Read(name, file)
		_ = file.Close() // it was only read
		if err != nil {
			return caddy.ExitCodeFailedStartup, err
		}
	}
	faults := v.Check()
	nodes, err := flags.GetStringArray("node")
	for _, c := range v.Chains {
		if c.Inside && !slices.Contains(nodes, c.Node) {
			faults = append(faults, fmt.Errorf("%w: the chain of node %q begins after lines of other nodes in a file; if it is a node of yours, repeat with --node %[2]s", archive.ErrLink, c.Node))
		}
	}
	if len(faults) > 0 {
		return exitOf(faults[0]), fmt.Errorf("%w\nfaults: %d", errors.Join(faults...), len(faults))
	}
	for _, c := range v.Chains {
		if c.First > 1 {
			fmt.Fprintf(cmd.ErrOrStderr(), "note: lines 1 to %d of node %s are not in the files; if you did not delete them, they are missing\n", c.First-1, c.Node)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "node %s: lines %d to %d are intact, %d delivered twice, last hash %s\n", c.Node, c.First, c.Last, c.Repeated, c.Hash)
	}
	return caddy.ExitCodeSuccess, err
}

// exitOf returns the exit status of a fault.
func exitOf(fault error) int {
	switch {
	case errors.Is(fault, archive.ErrGap):
		return exitCodeGap
	case errors.Is(fault, archive.ErrChanged):
		return exitCodeChanged
	}
	return exitCodeLink
}
