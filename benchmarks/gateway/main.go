// Command gateway is the Caddy of the benchmarks: cmd/caddy, and a handler for comparison (bare.go).
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/fairwayhq/fairway"
)

func main() {
	caddycmd.Main()
}
