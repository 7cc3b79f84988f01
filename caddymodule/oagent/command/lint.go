package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/commands"
	"github.com/fairwayhq/fairway/caddymodule/internal/agentset"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/loader"
)

func lintCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lint <files...> [--openapi <document>...]",
		Short: "Reports problems in agent documents",
		Long: `
Reads files of OpenAgentSpec documents and prints what is wrong with them, one
problem on a line: the file, the line, the path in the document, and what is
expected there. It fails if there is anything.

--openapi names an OpenAPI document, a file or an http(s) URL, whose tools the
agents may use; it may be given more than once. With it, lint also looks for the
tools and agents that capabilities and guardrails name, and at the inputs that
expressions name.

Of expressions it reports what is certainly wrong: inputs that a tool does not
have, types that do not fit, results that are not true or false, and assertions
that never hold.
`,
		Args:                  cobra.MinimumNArgs(1),
		DisableFlagsInUseLine: true,
	}
	cmd.Flags().StringArray("openapi", nil, "Document of an API whose tools the agents may use")
	cmd.RunE = commands.RunE(func(flags caddycmd.Flags) error {
		documents, err := flags.GetStringArray("openapi")
		if err != nil {
			return err
		}
		return lintAgents(cmd.OutOrStdout(), flags.Args(), documents)
	})
	return cmd
}

func lintAgents(out io.Writer, files, documents []string) error {
	var all []*oagent.Agent
	faults := 0
	for _, file := range files {
		read, err := agentset.ReadFiles([]string{file})
		if err != nil {
			faults++
			fmt.Fprintln(out, err)
		}
		all = append(all, read...)
	}
	var names oagent.Names
	if len(documents) > 0 && faults == 0 {
		var err error
		if names, faults, err = linkAgents(out, all, documents); err != nil {
			return err
		}
	}
	for _, a := range all {
		if found := a.LintExpressions(names); len(found) > 0 {
			faults++
			fmt.Fprintln(out, found)
		}
	}
	if faults > 0 {
		return errors.New("the documents have problems")
	}
	noteReviewers(out, all)
	verdict := "valid"
	if len(documents) == 0 {
		verdict = "valid; its tools and agents were not checked (see --openapi)"
	}
	for _, a := range all {
		count := "1 capability"
		if n := len(a.Capabilities); n != 1 {
			count = strconv.Itoa(n) + " capabilities"
		}
		fmt.Fprintf(out, "%s:%d: agent %s, %s: %s\n", a.Location, a.Line, a.Name, count, verdict)
	}
	return nil
}

// noteReviewers prints the reviewers that are not agents in these documents. That may be
// correct, because another site can have them.
func noteReviewers(out io.Writer, all []*oagent.Agent) {
	names := make([]string, len(all))
	for i, a := range all {
		names[i] = a.Name
	}
	for _, a := range all {
		for i := range a.Capabilities {
			for rule, reviewer := range a.Capabilities[i].Reviewers() {
				name, isAgent := strings.CutPrefix(reviewer, oagent.Scheme)
				if !isAgent || slices.Contains(names, name) {
					continue
				}
				note := text.DidYouMean(text.Nearest(name, slices.Values(names)))
				fmt.Fprintf(out, "%s:%d: note: %s: agent %s is not in these documents%s\n", a.Location, a.Capabilities[i].Line, rule, name, note)
			}
		}
	}
}

// linkAgents links the agents to the tools of the documents. It prints what is wrong, and
// returns the number of problems.
func linkAgents(out io.Writer, all []*oagent.Agent, documents []string) (oagent.Names, int, error) {
	var toolsets []agentset.Tools
	for _, address := range documents {
		config := app.ToolsetConfig{OpenAPI: address}
		key, err := config.Key("")
		if err != nil {
			return nil, 0, err
		}
		set, err := readDocument(key)
		if err != nil {
			return nil, 0, err
		}
		toolset := &app.Toolset{Name: key.Name, Document: &app.Document{Key: key}}
		toolsets = append(toolsets, agentset.Tools{Toolset: toolset, Tools: set, Matched: true})
	}
	set, err := agentset.New(all, toolsets)
	problems := oagent.AsLintErrors(err)
	for _, problem := range problems {
		fmt.Fprintln(out, problem)
	}
	return set.Names, len(problems), nil
}

// readDocument builds the tools of a document.
func readDocument(key app.DocumentKey) (*tools.Toolset, error) {
	if key.Kind == app.SourceSite {
		key.Kind = app.SourceFile // the command has no site
	}
	source, err := key.Source(zap.NewNop())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), commands.MaxWait)
	defer cancel()
	documents := loader.New(loader.Options{Source: source, Build: key.Build})
	if err := documents.Load(ctx); err != nil {
		return nil, err
	}
	return documents.Toolset(), nil
}
