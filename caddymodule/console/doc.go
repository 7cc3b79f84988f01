// Package console is the directive `agents_console`: pages that show the tools of a site, try them, and
// show calls, agents and reviews.
//
// A request passes these files:
//
//   - handler.go: whether the request is for the console, and which view serves it.
//   - viewer.go: who looks. Requests of others get 401. Requests that change something must come from the
//     console itself or from a program.
//   - A view: tools.go, try.go, calls.go, agents.go, engagements.go, reviews.go, connect.go. It returns a
//     page: a model, and the template that shows it.
//   - page.go: writes the page as HTML, or for a path below api the model as JSON. So programs get all
//     that the pages show.
//
// Views do not read the store themselves. They ask the documented endpoints of oagent (records.go) and
// call tools by a request to the site's own tool endpoint (send.go), each with the rights of the viewer.
//
// The pages work without JavaScript. With it, htmx (assets/htmx.min.js) replaces parts of a page.
package console
