// Package otcadapter is an Open Tool Calling server over the Toolset of a
// document. It knows HTTP but no Caddy.
//
// A request for an endpoint below the server's base path comes in with the
// Toolset of the moment and a Caller. GET /health says whether there is a Toolset.
// GET /tools writes the tool definitions, which are encoded once per Toolset and
// kept (catalog). POST /call reads its request (request), resolves the tool id
// against the catalog, lets the Caller run the tool, and puts the outcome into an
// answer (answer) without decoding what the API said. What is wrong with the
// request itself becomes an error answer with a 4xx status (fault); what goes wrong
// with the tool is an answer of 200 with success false (OTC 1.0, Tool Response
// Schema).
package otcadapter
