package mcpservers

import (
	"slices"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/mcpadapter/client"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/lock"
)

// Warn implements app.MCPServer: it adds a warning for each suspicious text of the server.
func (*Config) Warn(set *tools.Toolset, data []byte) {
	own := make(map[string]bool)
	for walk := strictjson.Into(strictjson.MemberOf(data, "paths")); walk.Next(); {
		own[strictjson.Text(strictjson.MemberOf(strictjson.MemberOf(walk.Value, "post"), "operationId"))] = true
	}
	warn := func(name, operation string, findings []string) {
		for _, finding := range findings {
			set.Report.Warnings = append(set.Report.Warnings, tools.Warning{Operation: operation, Suspect: name, Reason: "suspicious text of the MCP server in " + name + ": " + finding})
		}
	}
	warn(lock.Instructions, "", slices.Concat(client.InspectText(set.Title, own), client.InspectText(set.Description, own)))
	for _, t := range set.Tools() { // resources and prompts too
		findings := client.InspectDefinition(t.Foreign.Definition, own)
		if tools.IsReserved(t.Unshaped.Former) {
			findings = append(findings, "the name of a tool of the gateway")
		}
		warn(t.Name, t.Plan.Method+" "+t.Plan.Path, findings)
	}
}
