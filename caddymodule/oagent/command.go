package oagent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"cel.dev/cel-go/common/types"
	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/fairwayhq/fairway/caddymodule/agents"
	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/expr"
	"github.com/fairwayhq/fairway/internal/nearest"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/ocp"
)

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "oagent",
		Usage: "lint|eval",
		Short: "Checks OpenAgentSpec documents and their expressions",
		Long: `
For the authors of agents' documents (OpenAgentSpec v1).
`,
		CobraFunc: func(cmd *cobra.Command) {
			cmd.AddCommand(lintCommand(), evalCommand())
			agents.RequireSubcommand(cmd)
		},
	})
}

func lintCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lint <files...> [--openapi <document>...]",
		Short: "Says what is wrong with agents' documents",
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
	cmd.RunE = caddycmd.WrapCommandFuncForCobra(func(flags caddycmd.Flags) (int, error) {
		documents, err := flags.GetStringArray("openapi")
		if err == nil {
			err = lintAgents(cmd.OutOrStdout(), flags.Args(), documents)
		}
		if err != nil {
			return caddy.ExitCodeFailedStartup, err
		}
		return caddy.ExitCodeSuccess, nil
	})
	return cmd
}

func lintAgents(out io.Writer, files, documents []string) error {
	var all []*oagent.Agent
	faults := 0
	for _, file := range files {
		read, err := readAgentFiles([]string{file})
		if err != nil {
			faults++
			fmt.Fprintln(out, err)
		}
		all = append(all, read...)
	}
	var names oagent.Names
	if len(documents) > 0 && faults == 0 {
		tools, err := commandNames(all, documents)
		if err != nil {
			return err
		}
		names = tools
		for _, a := range all {
			if err := a.Link(names); err != nil {
				faults++
				fmt.Fprintln(out, err)
			}
		}
	}
	for _, a := range all {
		if found := a.LintExpressions(names); len(found) > 0 {
			faults++
			fmt.Fprintln(out, found)
		}
	}
	if faults > 0 {
		return errors.New("the documents are not good")
	}
	noteReviewers(out, all)
	verdict := "good"
	if len(documents) == 0 {
		verdict = "good, but nobody has looked for its tools and agents (see --openapi)"
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
				note := ""
				if near := nearest.Name(name, slices.Values(names)); near != "" {
					note = "; did you mean " + near + "?"
				}
				fmt.Fprintf(out, "%s:%d: note: %s: %s is no agent of these documents%s\n", a.Location, a.Capabilities[i].Line, rule, name, note)
			}
		}
	}
}

// commandNames returns the names of the agents and of the tools of the documents.
func commandNames(all []*oagent.Agent, documents []string) (*toolNames, error) {
	l := &linked{agents: make(map[string]*governed), operations: make(map[*ocp.Tool]*operation), byKey: make(map[operationKey]*operation)}
	l.names = &toolNames{
		own: make(map[string][]*operation), other: make(map[string][]*operation), qualified: make(map[string][]*operation), agents: l.agents,
	}
	for _, address := range documents {
		config := agents.ToolsetConfig{OpenAPI: address}
		key, err := config.Key("")
		if err != nil {
			return nil, err
		}
		set, err := readDocument(key)
		if err != nil {
			return nil, err
		}
		l.add(&agents.Toolset{Name: key.Name, Document: &agents.Document{Key: key}}, set, true)
	}
	l.nameAll()
	for _, a := range all {
		l.agents[a.Name] = &governed{Agent: a}
		l.names.all = append(l.names.all, a.Name)
	}
	return l.names, nil
}

// readDocument builds the tools of a document.
func readDocument(key agents.DocumentKey) (*ocp.Toolset, error) {
	if key.Kind == agents.SourceSite {
		key.Kind = agents.SourceFile // the command has no site
	}
	source, err := key.Source()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), agents.MaxCommandWait)
	defer cancel()
	loader := ocp.NewLoader(ocp.LoaderOptions{Source: source, Build: key.Build})
	if err := loader.Load(ctx); err != nil {
		return nil, err
	}
	return loader.Toolset(), nil
}

func evalCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "eval --engagement <file> [--agent <file>] <expression>",
		Short: "Evaluates an expression over a saved Engagement",
		Long: `
Prints the value that an expression (CEL) has for an Engagement, as JSON. It fails
if there is none: what an agent's document asserts does not hold then, and the
error says which path is missing.

The Engagement is a JSON object with the members started_at, user, recent and
history, as expressions see them (OpenAgentSpec v1, Engagement):

    {"user": {"id": "ada"},
     "recent": {"_name": "get-trip", "get-trip": {"inputs": {"id": "7"}, "outputs": null}},
     "history": {"_total": 1, "_list": ["get-trip"], "get-trip": [{"inputs": {"id": "7"}, "outputs": null}]}}

Names with hyphens may be written as they are if the Engagement has them, or the
agent whose document is given by --agent.
`,
		Args:                  cobra.ExactArgs(1),
		DisableFlagsInUseLine: true,
	}
	cmd.Flags().String("engagement", "", "File of the Engagement")
	cmd.Flags().String("agent", "", "File of the agent's document")
	cmd.RunE = caddycmd.WrapCommandFuncForCobra(func(flags caddycmd.Flags) (int, error) {
		value, err := evaluate(flags.Arg(0), flags.String("engagement"), flags.String("agent"))
		if err != nil {
			return caddy.ExitCodeFailedStartup, err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s\n", value)
		return caddy.ExitCodeSuccess, nil
	})
	return cmd
}

// maxSavedEngagement is the maximum size of the file of an Engagement, in bytes.
const maxSavedEngagement = 64 << 20

// evaluate returns the value of an expression as JSON.
func evaluate(expression, engagement, agent string) (jsontext.Value, error) {
	if engagement == "" {
		return nil, errors.New("give the file of an Engagement, as in: --engagement engagement.json")
	}
	saved, err := readSaved(engagement)
	if err != nil {
		return nil, err
	}
	names := saved.names()
	if agent != "" {
		all, err := readAgentFiles([]string{agent})
		if err != nil {
			return nil, err
		}
		for _, a := range all {
			for i := range a.Capabilities {
				names = append(names, a.Capabilities[i].Reference.Name)
			}
		}
	}
	slices.Sort(names)
	selection, err := oagent.NewSelection(expression, "expression", slices.Compact(names))
	if err != nil {
		return nil, err
	}
	return selection.Append(context.Background(), nil, saved)
}

// savedEngagement is an Engagement from a file. It implements oagent.Variables.
type savedEngagement struct{ fields map[string]jsontext.Value }

func readSaved(path string) (*savedEngagement, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var content buffer.Buffer
	if err := content.ReadAll(file, maxSavedEngagement); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	members, err := wire.Members(nil, bytes.TrimSpace(content.B))
	if err != nil {
		return nil, fmt.Errorf("%s is not an Engagement: %w", path, err)
	}
	saved := &savedEngagement{fields: make(map[string]jsontext.Value, len(members))}
	for _, m := range members {
		saved.fields[m.Name] = m.Value
	}
	return saved, nil
}

// names returns the names that the Engagement has invoked.
func (s *savedEngagement) names() (names []string) {
	for _, field := range []string{"recent", "history"} {
		members, err := wire.Members(nil, s.fields[field])
		if err != nil {
			continue
		}
		for _, m := range members {
			if oagent.CheckName(m.Name) == nil {
				names = append(names, m.Name)
			}
		}
	}
	return names
}

// ResolveName implements oagent.Variables.
func (s *savedEngagement) ResolveName(name string) (any, bool) {
	value, ok := s.fields[name]
	if !ok {
		return nil, false
	}
	seen := (&expr.Node{Raw: value, Exact: true}).Force()
	if text, isText := seen.(types.String); isText && name == "started_at" {
		return text.ConvertToType(types.TimestampType), true
	}
	return seen, true
}

// Parent implements oagent.Variables.
func (s *savedEngagement) Parent() oagent.Variables { return nil }
