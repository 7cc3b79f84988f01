package site

import (
	"context"

	"github.com/fairwayhq/fairway/internal/audit"
)

// Recorder records the audit. A section implements it.
type Recorder interface {
	audit.Recorder

	// IsOn reports whether entries are kept.
	IsOn() bool
}

// RecorderOf returns what records the audit. It returns nil if entries are not kept.
func RecorderOf(a *App) (audit.Recorder, error) {
	recorder, ok, err := Find[Recorder](a)
	if err != nil || !ok || !recorder.IsOn() {
		return nil, err
	}
	return recorder, nil
}

// Record adds an entry to the audit of a login or of the like, if entries are kept. If calls are refused because the archive is full,
// it returns an error.
func Record(ctx context.Context, to audit.Recorder, entry audit.Entry) error {
	if to == nil {
		return nil
	}
	if err := to.Ready(ctx); err != nil {
		return err
	}
	return to.Record(ctx, entry)
}
