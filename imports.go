// Package fairway builds Fairway's modules into Caddy:
//
//	xcaddy build --with github.com/fairwayhq/fairway
//
// The modules themselves live in package caddymodule; what they are made of
// lives in ocp, mcpadapter and otcadapter, none of which knows Caddy.
package fairway

import (
	// registers the modules
	_ "github.com/fairwayhq/fairway/caddymodule"
)
