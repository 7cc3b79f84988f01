package app

import (
	"slices"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/mcpadapter/client"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/lock"
)

// warnOfSuspicious adds a warning for each suspicious text of an MCP server. Data is the document that was made from its
// tools.
func warnOfSuspicious(set *tools.Toolset, data []byte) {
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

// approvesUnsuspicious returns a lock that approves what has no suspicious texts, or nil if there are none.
func approvesUnsuspicious(set *tools.Toolset) *lock.Lock {
	suspect := make(map[string]bool)
	for _, w := range set.Report.Warnings {
		suspect[w.Suspect] = true
	}
	if delete(suspect, ""); len(suspect) == 0 {
		return nil
	}
	rest := set.Only(func(t *tools.Tool) bool { return !suspect[t.Name] })
	if suspect[lock.Instructions] {
		rest.Title, rest.Description = set.Name, ""
	}
	return lock.Of(rest)
}
