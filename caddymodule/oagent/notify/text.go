package notify

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/fairwayhq/fairway/internal/text"
)

// maxLine is how many bytes of a value are in a text for people.
const maxLine = 300

// subject returns a line that says what a notice is about.
func (n *Notice) subject() string {
	what := map[string]string{ //nolint:gosec // no credentials
		typePending:       "A review is pending",
		typeEscalated:     "A review is still pending",
		"run.complete":    "A run is complete",
		"run.failed":      "A run has failed",
		"run.canceled":    "A run was canceled",
		"run.question":    "A run waits for an answer of its user",
		"run.credentials": "A run waits for credentials of its user",
		"run.review":      "A run waits for a review",
	}[n.Type]
	return plain(what + ": " + strings.TrimSpace(n.Agent+" "+n.Name))
}

// lines returns the text of a notice for people.
func (n *Notice) lines(link string) []string {
	all := []string{n.subject(), ""}
	add := func(name, value string) {
		if value != "" {
			all = append(all, name+": "+plain(value))
		}
	}
	add("Agent", n.Agent)
	add("User", n.User)
	if r := n.Run; r != nil {
		add("Engagement", r.ID)
		add("Reason", strings.TrimSpace(r.Reason+" "+r.Rule))
		add("Tokens", fmt.Sprintf("%d in, %d out", r.Usage.InputTokens, r.Usage.OutputTokens))
		add("Time", n.At.UTC().Format(time.RFC3339))
	} else {
		add("Tool", n.Name+" ("+n.Side+")")
		add("Rule", n.Rule)
		add("Reviewer", n.Reviewer)
		add("Who may decide", strings.Join(n.People, ", "))
		add("Expires", n.ExpiresAt.UTC().Format(time.RFC3339))
	}
	if link != "" {
		all = append(all, "", link)
	}
	return all
}

// plain returns a value as a part of one line.
func plain(value string) string {
	return text.Cut(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, value), maxLine)
}
