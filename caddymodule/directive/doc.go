// Package directive reads the options in the blocks of Fairway's directives. Block
// wraps Caddy's dispenser: it rejects options that are given twice, reads sizes,
// durations and lists, and names the nearest option for one that it does not know
// (subdirectives.go lists them all). It also sets the default order of the directives
// (order.go).
package directive
