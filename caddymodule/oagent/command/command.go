// Package command is the command `caddy oagent`, for the authors of agent documents. It does not need a running Caddy.
//
//   - `caddy oagent lint` reads agent documents and prints what is wrong with them. With
//     --openapi it also links the agents to the tools of OpenAPI documents (package agentset), as
//     the directive does when a configuration is loaded, and checks that tools, agents and inputs
//     exist (lint.go).
//   - `caddy oagent eval` reads a saved Engagement and prints the value of a CEL expression over
//     it. The expression is compiled and evaluated by package oagent, as an assertion is (eval.go).
package command

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/fairwayhq/fairway/caddymodule/commands"
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
			commands.RequireSubcommand(cmd)
		},
	})
}
