// Package console is the directive `agents_console`: pages that show the tools of a site, try them, and
// show calls, agents and reviews.
//
// A request passes these files:
//
//   - handler.go: whether the request is for the console, and which view serves it.
//   - site.go: what all views share: the site with its tool endpoints, and the request.
//   - viewer.go: who looks (access). Requests of others get 401. Requests that change something must come from the
//     console itself or from a program.
//   - A view: toolPages (tools.go), toolPage (try.go), calls.go, connect.go, and recordPages (agents.go,
//     engagements.go, reviews.go). It returns a page: a model, and the template that shows it.
//   - page.go: pageWriter writes the page as HTML, or for a path below api the model as JSON. So programs get
//     all that the pages show.
//
// Views do not read the store themselves. They ask the documented endpoints of oagent (records.go) and
// call tools by the request of a client to the site's own tool endpoint (send.go), each with the rights of the viewer.
// So all handlers and all rules apply to these calls. The outcome comes from the endpoint's Caller, and not from the response.
//
// The pages work without JavaScript. With it, htmx (assets/htmx.min.js) replaces parts of a page.
package console
