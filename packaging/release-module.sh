#!/bin/sh
# Writes the Go module that release binaries are built from: Caddy with this checkout of
# Fairway as a dependency. So "caddy list-modules --versions" shows the version of Fairway.
#
#	packaging/release-module.sh VERSION DIRECTORY
set -eu
version=$1 directory=$2
root=$(cd -- "$(dirname -- "$0")/.." && pwd)
caddy=$(cd -- "$root" && go list -m -f '{{.Version}}' github.com/caddyserver/caddy/v2)

rm -rf -- "$directory"
mkdir -p -- "$directory"
cp -- "$root/cmd/caddy/main.go" "$directory/main.go"
cp -- "$root/go.sum" "$directory/go.sum"
cd -- "$directory"
go mod init caddy
go mod edit -go="$(cd -- "$root" && go list -m -f '{{.GoVersion}}')" \
	-require="github.com/caddyserver/caddy/v2@$caddy" \
	-require="github.com/fairwayhq/fairway@$version" \
	-replace="github.com/fairwayhq/fairway=$root"
go mod tidy
