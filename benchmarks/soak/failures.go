package main

import (
	"regexp"

	"github.com/fairwayhq/fairway/tools"
)

// documentedFailures are the kinds of failures that calls of the soak may have (docs/errors.md, Outcomes of tool
// calls; docs/otc.md, Idempotency). Clients do not get the kind, so it is recognized by the message.
var documentedFailures = []struct {
	kind    string
	message *regexp.Regexp
}{
	{string(tools.Failed), regexp.MustCompile(`^GET /failing answered (500|503) `)},
	{string(tools.Unreachable), regexp.MustCompile(`^(GET|POST) /\S+ could not be reached \(50[23] |^the connection closed before the response of `)},
	{string(tools.TimedOut), regexp.MustCompile(`^(GET|POST) /\S+ did not respond (within|in time)`)},
	{"unfinished", regexp.MustCompile(`^this call was started but not finished: `)}, // OTC: the node was killed, or the store failed
}

// failed returns the outcome for a call that failed. If its kind is not documented, it is a fault.
func (u *user) failed(what, message string) string {
	for _, f := range documentedFailures {
		if f.message.MatchString(message) {
			return f.kind
		}
	}
	u.report.fault("%s: undocumented failure %.300q", what, message)
	return "undocumented failure"
}

// isError returns the outcome for an MCP result with isError. Its _meta must say whether the call can be repeated.
func (u *user) isError(m message) string {
	if m.Result.Meta.HTTP.Retryable == nil || len(m.Result.Content) == 0 {
		u.report.fault("MCP tools/call: isError without _meta or content: %.300s", m.body)
		return "undocumented failure"
	}
	return u.failed("MCP tools/call", m.Result.Content[0].Text)
}
