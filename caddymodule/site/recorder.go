package site

import (
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
