#!/bin/sh
# Builds Caddy with this checkout of Fairway. With arguments, it also runs Caddy:
#
#	./xcaddy.sh                                   build ./caddy
#	./xcaddy.sh run --config Caddyfile.example    build if sources changed, then run
#	./xcaddy.sh adapt | validate | tools | …      the same with any Caddy command
#
# The script works from any directory and needs only Go. As with Caddy itself, file
# arguments are relative to the working directory.
#
# OUTPUT is the path of the binary. Default: caddy, beside this script.

set -eu

root=$(cd -- "$(dirname -- "$0")" && pwd)
output=${OUTPUT:-$root/caddy}
case $output in
/*) ;;
*) output=$PWD/$output ;;
esac

# stale succeeds if the binary is missing or out of date: a Go file, go.mod, go.sum or a
# directory (a file was added or removed) is newer.
stale() {
	[ -x "$output" ] || return 0
	[ -n "$(find "$root" -mindepth 1 \
		\( -name .git -o -name testdata -o -name example-data -o -name 'buildenv_*' -o -name '*_test.go' \) -prune -o \
		\( -name '*.go' -o -name go.mod -o -name go.sum -o -type d \) \
		-newer "$output" -print | head -n 1)" ]
}

# build runs xcaddy with the versions of xcaddy and Caddy in go.mod.
build() {
	cd -- "$root"
	caddy=$(go list -m -f '{{.Version}}' github.com/caddyserver/caddy/v2)
	go tool xcaddy build "$caddy" \
		--with github.com/fairwayhq/fairway@v0.0.0=. \
		--output "$output"
}

if [ $# -eq 0 ]; then
	build
	exit
fi
if stale; then
	(build) >&2
fi

# When Caddy runs the example, store Caddy's own files beside the example's data (see
# Caddyfile.example), not in the user's Caddy folders.
case "$* " in
*"Caddyfile.example "*) export XDG_DATA_HOME="${XDG_DATA_HOME:-$PWD/example-data}" ;;
esac
exec "$output" "$@"
