// Package otcadapter is a server of Open Tool Calling, and of OXP, as that was
// renamed, over the Toolsets of documents. It knows HTTP but no Caddy.
//
// A request for an endpoint below the server's base path comes in with what stands
// around it (Site): the Toolsets of the moment and who calls. GET /health says
// whether the tools, and the API behind them, are there (health). GET /tools writes
// the definitions, which are encoded once and kept (catalog, definition,
// requirement). POST /call and POST /tools/call read a request (request, context)
// and find the tool that its id means (catalog, version), the credentials that the
// tool needs (requirement) and, if the client named the call, the answer that it
// may have had already (once, record). Then the Caller runs the tool, and the outcome
// becomes an answer without decoding what the API said (answer, advice).
//
// What is wrong with a request itself is an error answer with a 4xx status (fault);
// what goes wrong with the tool is an answer of 200 with success false. /call and
// /tools/call differ in the form of both (standard).
package otcadapter
