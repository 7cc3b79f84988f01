package oagent

import (
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/caddymodule/oagent/notify"
)

// provisionNotices loads the notifiers of the handler.
func provisionNotices(ctx caddy.Context, o *Handler) error {
	if len(o.NotifiersRaw) == 0 {
		return nil
	}
	loaded, err := ctx.LoadModule(o, "NotifiersRaw")
	if err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	var notifiers []notify.Notifier
	for _, module := range loaded.([]any) {
		notifier, ok := module.(notify.Notifier)
		if !ok {
			return fmt.Errorf("notify: the module %T is not a notifier", module)
		}
		notifiers = append(notifiers, notifier)
	}
	o.notices = notify.New(notify.Options{
		Notifiers: notifiers, Reviews: strings.TrimRight(o.Reviews, "/"), Set: o.agents.Current, Guard: o.guard, Store: o.app.OpenStore,
		Skip: o.reviewers.HasProgram, Logger: o.logger,
	})
	return nil
}
