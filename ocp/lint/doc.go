// Package lint checks documents against their specification with kin-openapi.
//
// It serves `caddy tools --lint` only. Fairway's own reader accepts more: it skips what it cannot use
// and reports that as warnings. The findings of this package report to the authors of a document what
// other software may not accept. It is a package of its own so that the tools themselves do not
// depend on kin-openapi.
package lint
