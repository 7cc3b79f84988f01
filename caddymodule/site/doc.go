// Package site has what the directives of one configuration know of each other: the Caddy app `agents`, and the sites.
//
// App is the app `agents`. It has no options of its own. Each package that has some adds a Section when it is linked:
// the toolsets (package app), the store (package stores), the audit (package archive) and others. A section finds another
// one by its type (Get), or by an interface that it implements (Find), so that it need not know which packages are linked.
//
// Site tells which handlers belong to the same site. Resources and Login are what agent_auth, agent_login and the endpoints
// agree on: what access tokens are for, and which login issues them.
package site
