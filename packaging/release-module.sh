#!/bin/sh
# Writes the Go module that release binaries are built from: Caddy with this checkout of
# Fairway as a dependency. So "caddy list-modules --versions" shows the version of Fairway.
#
# The directory is one below the checkout, such as release-module. Its path to Fairway is relative, so that the
# binary does not depend on where the checkout is.
#
#	packaging/release-module.sh VERSION DIRECTORY
set -eu
version=$1 directory=$2
cd -- "$(dirname -- "$0")/.."
caddy=$(go list -m -f '{{.Version}}' github.com/caddyserver/caddy/v2)
language=$(go list -m -f '{{.GoVersion}}')

case $directory in
*/* | .*)
	echo 'release-module.sh: the directory must be a name in the checkout' >&2
	exit 2
	;;
esac
rm -rf -- "$directory"
mkdir -p -- "$directory"
cp -- cmd/caddy/main.go go.sum "$directory"
cd -- "$directory"
go mod init caddy
go mod edit -go="$language" \
	-require="github.com/caddyserver/caddy/v2@$caddy" \
	-require="github.com/fairwayhq/fairway@$version" \
	-replace=github.com/fairwayhq/fairway=..
go mod tidy
