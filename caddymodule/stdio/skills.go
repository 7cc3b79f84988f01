package stdio

import (
	"errors"
	"fmt"
	"io"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/fairwayhq/fairway/caddymodule/commands"
	"github.com/fairwayhq/fairway/mcpadapter/skills"
)

// skillsCommand returns the command `caddy mcp skills`.
func skillsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "skills lint",
		Short: "Checks Agent Skills",
		Long: `
For the authors of the skills that an endpoint serves (option skills of mcp).
`,
	}
	lint := &cobra.Command{
		Use:   "lint <directory>",
		Short: "Reports problems in the skills below a directory",
		Long: `
Reads the skills below a directory as the option skills of mcp does, and prints each
problem on a line: the file, the line and what is wrong. Without problems, it prints
the skills. It fails if there is a problem, or if there are no skills.

A skill is a folder with a file SKILL.md, which begins with the YAML keys name and
description between two lines ---. The name is that of the folder.
`,
		Args:                  cobra.ExactArgs(1),
		DisableFlagsInUseLine: true,
	}
	lint.RunE = commands.RunE(func(flags caddycmd.Flags) error { return lintSkills(commands.NewTerminal(lint), flags.Arg(0)) })
	cmd.AddCommand(lint)
	commands.RequireSubcommand(cmd)
	return cmd
}

func lintSkills(out io.Writer, path string) error {
	directory := skills.Directory{Path: path}
	set, _, err := directory.Read()
	if problems, ok := errors.AsType[skills.FileErrors](err); ok {
		for _, problem := range problems {
			fmt.Fprintln(out, problem)
		}
		return errors.New("the skills have problems")
	}
	if err != nil {
		return err
	}
	if len(set.Skills) == 0 {
		return fmt.Errorf("%s has no skills: no folder in it has a file %s", path, skills.FileName)
	}
	for _, s := range set.Skills {
		fmt.Fprintf(out, "%s: %s\n", s.URI, s.Description)
	}
	return nil
}
