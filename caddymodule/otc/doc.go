// Package otc is the directive `otc`: it serves one or more toolsets with package
// otcadapter. The Handler (handler.go) matches the endpoint's path and gives the
// adapter what it needs to know of the site (site.go); idempotency.go configures how
// calls with a call_id are recorded.
package otc
