// Package fairway builds Fairway's modules into Caddy:
//
//	xcaddy build --with github.com/fairwayhq/fairway
//
// The modules are registered by package caddymodule. What they are made of is in tools, ocp,
// mcpadapter, otcadapter, oagent and store, none of which imports Caddy.
package fairway

import (
	// registers the modules
	_ "github.com/fairwayhq/fairway/caddymodule"
)
