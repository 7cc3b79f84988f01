package commands

import (
	"context"
	"errors"
	"fmt"
	"io"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/loader"
	"github.com/fairwayhq/fairway/tools/lock"
	"github.com/fairwayhq/fairway/tools/overlay"
)

// lockToolsCommand returns the command `caddy tools lock`.
func lockToolsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lock DOCUMENT --lock <file> | --config <file> [--toolset <name>]",
		Short: "Approves the tools of a document: writes them to a lock file",
		Long: `
Writes the tools of the document to the lock file, and prints how they differ from
what the file approved before. A running Caddy with this lock file serves them within
about a second.

The document and its options are given as for caddy tools. They must be those of the
toolset that has the option lock: --config takes them, and the lock file, from the
configuration.

The command fails if the lock file is of another document.
`,
		Example: "  caddy tools lock openapi.yaml --lock tools.lock",
		Args:    lockArguments,
	}
	toolsetFlags(cmd)
	cmd.RunE = RunE(func(flags caddycmd.Flags) error { return lockTools(NewTerminal(cmd), flags, cmd.InOrStdin()) })
	return cmd
}

// diffToolsCommand returns the command `caddy tools diff`.
func diffToolsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff DOCUMENT --lock <file> | --config <file> [--toolset <name>]",
		Short: "Prints how the tools of a document differ from a lock file",
		Long: `
Compares the tools of the document with the lock file, and prints what was (-) and
what is (+). The document and its options are given as for caddy tools lock.

The command fails (exit status 1) if there are differences.
`,
		Example: "  caddy tools diff --config Caddyfile",
		Args:    lockArguments,
	}
	toolsetFlags(cmd)
	cmd.RunE = RunE(func(flags caddycmd.Flags) error { return diffTools(NewTerminal(cmd), flags, cmd.InOrStdin()) })
	return cmd
}

// lockArguments checks that the command has a document, or a configuration.
func lockArguments(cmd *cobra.Command, arguments []string) error {
	if cmd.Flags().Changed("config") {
		return nil // checkConfigFlags says what does not go with it
	}
	return cobra.ExactArgs(1)(cmd, arguments)
}

// lockTools approves the tools that the command line selects.
func lockTools(out Terminal, flags caddycmd.Flags, stdin io.Reader) error {
	key, set, err := toolsToLock(flags, stdin)
	if err != nil {
		return err
	}
	pinned, err := lock.ReadFile(key.Lock)
	switch {
	case errors.Is(err, lock.ErrMissing):
	case err != nil:
		fmt.Fprintf(out, "replacing a lock file that cannot be read: %v\n", err)
	default:
		if err := pinned.Check(set); err != nil {
			return fmt.Errorf("lock %s: %w; to approve the tools of this document in its place, remove the file first", key.Lock, err)
		}
		writeDifferences(out, pinned.Compare(set))
	}
	for _, w := range set.Report.Warnings {
		if w.Suspect != "" {
			fmt.Fprintf(out, "%s\n", out.Paint(red, printable(w.Reason)))
		}
	}
	approved := lock.Of(set)
	if err := approved.WriteFile(key.Lock); err != nil {
		return fmt.Errorf("writing the lock file: %w", err)
	}
	fmt.Fprintf(out, "%d tools are approved in %s\n", approved.Len(), key.Lock)
	return nil
}

// diffTools prints how the tools that the command line selects differ from the lock. It is an error if
// they do.
func diffTools(out Terminal, flags caddycmd.Flags, stdin io.Reader) error {
	key, set, err := toolsToLock(flags, stdin)
	if err != nil {
		return err
	}
	pinned, err := lock.ReadFile(key.Lock)
	if err != nil {
		return app.ExplainLock(key, err)
	}
	if err := pinned.Check(set); err != nil {
		return fmt.Errorf("lock %s: %w", key.Lock, err)
	}
	changes := pinned.Compare(set)
	if len(changes) == 0 {
		fmt.Fprintf(out, "%d tools, all as %s approves them\n", pinned.Len(), key.Lock)
		return nil
	}
	writeDifferences(out, changes)
	changed, _ := lock.Count(changes, lock.Changed, 0)
	added, _ := lock.Count(changes, lock.New, 0)
	gone, _ := lock.Count(changes, lock.Gone, 0)
	return fmt.Errorf("the tools differ from %s: %d changed, %d new, %d gone; caddy tools lock approves them", key.Lock, changed, added, gone)
}

// toolsToLock builds all tools that the command line selects, whether they are approved or not.
func toolsToLock(flags caddycmd.Flags, stdin io.Reader) (app.DocumentKey, *tools.Toolset, error) {
	if err := checkConfigFlags(flags, flags.Arg(0)); err != nil {
		return app.DocumentKey{}, nil, err
	}
	_, key, src, err := selectedToolset(flags, flags.Arg(0), stdin)
	if err != nil {
		return key, nil, err
	}
	if key.Lock == "" {
		return key, nil, errors.New("the lock file is missing: give it with --lock, or set the option lock of the toolset in the configuration")
	}
	ctx, cancel := context.WithTimeout(context.Background(), MaxWait)
	defer cancel()
	defer app.CloseSource(src)
	documents := loader.New(loader.Options{Source: src, Prepare: key.Preparation(new([]overlay.Warning)), Build: key.Build})
	if err := documents.Load(ctx); err != nil {
		return key, nil, err
	}
	set := documents.Toolset()
	if len(set.Tools()) == 0 {
		return key, nil, errors.New("the document has no tools")
	}
	return key, set, nil
}

// differenceColors are the colors of lines by their first character.
var differenceColors = map[string]string{"-": red, "+": green}

// writeDifferences prints changes, with their differences indented below each tool.
func writeDifferences(out Terminal, changes []lock.Change) {
	for i := range changes {
		c := &changes[i]
		fmt.Fprintf(out, "%-7s %s (%s)\n", c.Kind, c.Tool, c.Operation)
		for _, line := range c.Lines {
			fmt.Fprintf(out, "    %s\n", out.Paint(differenceColors[line[:min(len(line), 1)]], printable(line)))
		}
	}
}

// lockWarnings returns a warning for each tool that the lock withholds.
func lockWarnings(changes []lock.Change) []tools.Warning {
	var warnings []tools.Warning
	for i := range changes {
		c := &changes[i]
		if c.Kind != lock.Gone {
			warnings = append(warnings, tools.Warning{Operation: c.Operation, Reason: fmt.Sprintf("tool %s is %s and withheld until it is approved; caddy tools diff shows why", c.Tool, c.Kind)})
		}
	}
	return warnings
}
