// Command caddy is stock Caddy with Fairway built in. It is the build for development of
// Fairway. Users build their own binary with xcaddy.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/fairwayhq/fairway"
)

func main() {
	caddycmd.Main()
}
