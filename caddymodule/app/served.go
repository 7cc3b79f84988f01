package app

import (
	"slices"

	"github.com/fairwayhq/fairway/caddymodule/site"
)

// A servedToolset is a toolset that a handler of a site serves to clients.
type servedToolset struct {
	site    site.Site
	toolset *Toolset
}

// AddServed records that a handler of the site serves the toolset.
func (a *App) AddServed(at site.Site, t *Toolset) {
	a.served = append(a.served, servedToolset{at, t})
}

// ServedAt returns the toolsets that the handlers of a site serve. Only handlers that are
// already provisioned are included.
func (a *App) ServedAt(at site.Site) (toolsets []*Toolset) {
	for _, o := range a.served {
		if o.site.SameSite(at) && !slices.Contains(toolsets, o.toolset) {
			toolsets = append(toolsets, o.toolset)
		}
	}
	return toolsets
}
