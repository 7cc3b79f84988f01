package app

import (
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/overlay"
)

// readOverlays reads the overlays of the document.
func (k DocumentKey) readOverlays() ([]*overlay.Overlay, error) {
	overlays := make([]*overlay.Overlay, len(k.Overlays))
	for i, path := range k.Overlays {
		var err error
		if overlays[i], err = overlay.ReadFile(path); err != nil {
			return nil, err
		}
	}
	return overlays, nil
}

// ApplyOverlays returns the document after its overlays. Result.JSON is what tools are built from.
func (k DocumentKey) ApplyOverlays(data []byte) (*overlay.Result, error) {
	overlays, err := k.readOverlays()
	if err != nil {
		return nil, err
	}
	return overlay.Apply(data, overlay.Options{MaxSize: k.MaxDocument, IgnoreExtensions: k.IgnoreExtensions}, overlays...)
}

// Preparation returns the function that applies the overlays to each version of the document before its
// tools are built. It is nil if there are no overlays. It sets warnings each time.
func (k DocumentKey) Preparation(warnings *[]overlay.Warning) func(data []byte) ([]byte, error) {
	if len(k.Overlays) == 0 {
		return nil
	}
	return func(data []byte) ([]byte, error) {
		result, err := k.ApplyOverlays(data)
		if err != nil {
			return nil, err
		}
		*warnings = result.Warnings
		return result.JSON(), nil
	}
}

// OverlayWarnings returns warnings about overlays as warnings about the document.
func OverlayWarnings(warnings []overlay.Warning) []tools.Warning {
	converted := make([]tools.Warning, len(warnings))
	for i, w := range warnings {
		converted[i].Reason = w.String()
	}
	return converted
}
