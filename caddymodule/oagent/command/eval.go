package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"cel.dev/cel-go/common/types"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/fairwayhq/fairway/caddymodule/commands"
	"github.com/fairwayhq/fairway/caddymodule/internal/agentset"
	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/celenv"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/assertion"
)

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
	cmd.RunE = commands.RunE(func(flags caddycmd.Flags) error {
		value, err := evaluate(flags.Arg(0), flags.String("engagement"), flags.String("agent"))
		if err == nil {
			fmt.Fprintf(cmd.OutOrStdout(), "%s\n", value)
		}
		return err
	})
	return cmd
}

// maxSavedEngagement is the maximum size of the file of an Engagement, in bytes.
const maxSavedEngagement = 64 << 20

// evaluate returns the value of an expression as JSON.
func evaluate(expression, engagement, agent string) (jsontext.Value, error) {
	if engagement == "" {
		return nil, errors.New("the flag --engagement is missing: add the file of a saved Engagement, as in: --engagement engagement.json")
	}
	saved, err := readSaved(engagement)
	if err != nil {
		return nil, err
	}
	names := saved.names()
	if agent != "" {
		all, err := agentset.ReadFiles([]string{agent})
		if err != nil {
			return nil, err
		}
		for _, a := range all {
			for i := range a.Capabilities {
				names = append(names, a.Capabilities[i].Reference.Name)
			}
		}
	}
	selection, err := assertion.CompileSelection(assertion.Source{Expression: expression, Rule: "expression"}, assertion.NewNames(names))
	if err != nil {
		return nil, err
	}
	return selection.Append(context.Background(), nil, saved)
}

// savedEngagement is an Engagement from a file. It implements assertion.Variables.
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
	members, err := strictjson.Members(nil, bytes.TrimSpace(content.B))
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
		members, err := strictjson.Members(nil, s.fields[field])
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

// ResolveName implements assertion.Variables.
func (s *savedEngagement) ResolveName(name string) (any, bool) {
	value, ok := s.fields[name]
	if !ok {
		return nil, false
	}
	seen := (&celenv.Node{Raw: value, Exact: true}).Force()
	if text, isText := seen.(types.String); isText && name == "started_at" {
		return text.ConvertToType(types.TimestampType), true
	}
	return seen, true
}

// Parent implements assertion.Variables.
func (s *savedEngagement) Parent() assertion.Variables { return nil }
