package mcpadapter

import (
	"slices"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/mcpadapter/library"
	"github.com/fairwayhq/fairway/tools"
)

// listSkills serves skills/list of the extension io.modelcontextprotocol/skills. If nothing has skills, the method does not
// exist, as the extension is not declared.
func listSkills(q *request, w *response) *protocol.Fault {
	c := q.catalog()
	all := c.Index().Skills
	if len(all) == 0 {
		return unknownMethod("skills/list", q.version)
	}
	return writeList(listRequest{q, w, "skills", c}, all)
}

// getSkill serves skills/get.
func getSkill(q *request, w *response) *protocol.Fault {
	index := q.catalog().Index()
	if len(index.Skills) == 0 {
		return unknownMethod("skills/get", q.version)
	}
	uri, f := uriOf(q)
	if f != nil {
		return f
	}
	e := index.Skill(uri)
	if e == nil {
		return protocol.BadParams("unknown skill %s; skills/list returns the available ones, by the URIs of their SKILL.md", text.Cut(uri, 4*text.MaxQuoted))
	}
	if f := checkSkill(q, uri, e.Scopes, e.Tool); f != nil {
		return f
	}
	b := w.result("complete", nil)
	b = append(append(b, q.catalog().Fresh...), `,"skill":`...)
	w.end(e.AppendTo(b, q.version))
	return nil
}

// checkSkill returns a fault if the access token lacks scopes for a skill, or for the tool that reads it at an MCP server.
func checkSkill(q *request, uri string, scopes []string, tool *tools.Tool) *protocol.Fault {
	if tool != nil {
		return protocol.CheckScopes(q.site.Access, tool, q.tools)
	}
	return protocol.CheckNeeded(q.site.Access, uri, scopes)
}

// readDirectory serves resources/directory/read for the folders of skills.
func readDirectory(q *request, w *response) *protocol.Fault {
	c := q.catalog()
	if len(c.Index().Skills) == 0 {
		return unknownMethod("resources/directory/read", q.version)
	}
	uri, f := uriOf(q)
	if f != nil {
		return f
	}
	children := c.Index().Directory(uri)
	if len(children) == 0 {
		return protocol.BadParams("%s is not a directory; directories are the folders of skills, without a slash at the end", text.Cut(uri, 4*text.MaxQuoted))
	}
	if !slices.ContainsFunc(children, func(r *library.Entry) bool { return !r.Denied }) {
		return checkSkill(q, uri, children[0].Scopes, children[0].Tool)
	}
	return writeList(listRequest{q, w, "resources", c}, children)
}
