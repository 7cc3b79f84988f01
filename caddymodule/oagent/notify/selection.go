package notify

import (
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/internal/webhook"
)

// Selection has the options that all notifiers of this package have.
type Selection struct {
	// The types of the notices to send, such as run.failed, run.* or review.*. A type that does not exist is an error, and so are
	// those about runs if no agents are hosted. Default: review.*.
	Events []string `json:"events,omitempty"`

	// The URL of the console, as https://api.example.com/console, for links to reviews and runs. Placeholders such as {env.NAME} are
	// replaced. Default: no links.
	Console string `json:"console,omitempty"`

	base string // Console with placeholders replaced, without slashes at its end
}

// options are the subdirectives of the selection.
func (s *Selection) options(b *directive.Block, more directive.Options) directive.Options {
	more["events"] = func() error { return b.Each(&s.Events, checkEvents) }
	more["console"] = directive.To(b.Text, &s.Console)
	return more
}

// checkEvents returns an error if a pattern of Events matches no type.
func checkEvents(pattern string) error {
	types := append([]string{typePending, typeEscalated}, runTypes...)
	if !slices.ContainsFunc(types, func(kind string) bool { return matches(pattern, kind) }) {
		return fmt.Errorf("%s matches no type of notices%s", pattern, directive.DidYouMean(pattern, types))
	}
	return nil
}

func matches(pattern, kind string) bool {
	ok, err := path.Match(pattern, kind)
	return ok && err == nil
}

// provision checks the selection, and replaces placeholders.
func (s *Selection) provision(repl *caddy.Replacer) error {
	for _, pattern := range s.Events {
		if err := checkEvents(pattern); err != nil {
			return fmt.Errorf("events: %w", err)
		}
	}
	if s.Console != "" {
		console := repl.ReplaceAll(s.Console, "")
		if err := webhook.CheckURL(console); err != nil {
			return fmt.Errorf("console: %w", err)
		}
		s.base = strings.TrimRight(console, "/")
	}
	return nil
}

// Wants implements Selector.
func (s *Selection) Wants(kind string) bool {
	if len(s.Events) == 0 {
		return !isRunType(kind)
	}
	return slices.ContainsFunc(s.Events, func(pattern string) bool { return matches(pattern, kind) })
}

// CheckHosted returns an error if an entry of Events selects only notices about runs. It is called if no agents are hosted.
func CheckHosted(n Notifier) error {
	if selects, ok := n.(interface{ onlyRuns() string }); ok && selects.onlyRuns() != "" {
		return fmt.Errorf("events %s has no effect without model: only hosted agents have runs", selects.onlyRuns())
	}
	return nil
}

// onlyRuns returns an entry that matches only notices about runs, or "".
func (s *Selection) onlyRuns() string {
	for _, pattern := range s.Events {
		if !matches(pattern, typePending) && !matches(pattern, typeEscalated) {
			return pattern
		}
	}
	return ""
}

// link returns the URL of the review or the run in the console; "" if the console is not set.
func (s *Selection) link(n *Notice) string {
	switch {
	case s.base == "":
		return ""
	case n.Run != nil:
		return s.base + "/engagements/" + url.PathEscape(n.Run.ID)
	}
	return s.base + "/reviews/" + url.PathEscape(n.ID)
}
