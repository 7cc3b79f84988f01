#!/bin/sh
# Builds Caddy with this checkout of Fairway and, given arguments, runs it:
#
#	./xcaddy.sh                                   build ./caddy
#	./xcaddy.sh run --config Caddyfile.example    build if sources changed, then run
#	./xcaddy.sh adapt | validate | tools | …      likewise, any command of Caddy
#
# Works from any directory. Arguments that name files are read relative to the
# directory it is called from, as Caddy itself does. Needs only Go.
#
# OUTPUT names the binary (default: caddy, beside this script).

set -eu

root=$(cd -- "$(dirname -- "$0")" && pwd)
output=${OUTPUT:-$root/caddy}
case $output in
/*) ;;
*) output=$PWD/$output ;;
esac

# stale reports whether a Go file, a requirement or a directory (a file came or
# went) is newer than the binary.
stale() {
	[ -x "$output" ] || return 0
	[ -n "$(find "$root" -mindepth 1 \
		\( -name .git -o -name testdata -o -name example-data -o -name 'buildenv_*' -o -name '*_test.go' \) -prune -o \
		\( -name '*.go' -o -name go.mod -o -name go.sum -o -type d \) \
		-newer "$output" -print | head -n 1)" ]
}

# build runs xcaddy at the version that go.mod pins, with the Caddy that go.mod
# requires.
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

# With the example, Caddy's own files are beside the example's data (see Caddyfile.example),
# not in the folders of another Caddy of this user.
case "$* " in
*"Caddyfile.example "*) export XDG_DATA_HOME="${XDG_DATA_HOME:-$PWD/example-data}" ;;
esac
exec "$output" "$@"
