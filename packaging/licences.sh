#!/bin/sh
# Prints docs/licences.md: the Go modules in a release binary, with their licences.
#
#	packaging/licences.sh > docs/licences.md
set -eu
cd -- "$(dirname -- "$0")/.."
export CGO_ENABLED=0 GOFLAGS="-trimpath -tags=nobadger,nomysql,nopgx"
scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT

GOBIN=$scratch GOFLAGS='' go install github.com/google/go-licenses@v1.6.0
# It also looks for the address of each licence, and logs an error if a site is not available.
"$scratch/go-licenses" report ./cmd/caddy >"$scratch/libraries" 2>"$scratch/log"
go build -o "$scratch/caddy" ./cmd/caddy
go version -m "$scratch/caddy" | awk '$1 == "dep" { print $2 }' >"$scratch/modules"

cat <<'END'
# Licences of dependencies

The Go modules in a binary of Caddy with Fairway, and their licences. Fairway itself has the
[Apache License 2.0](../LICENSE). The list is made by `packaging/licences.sh`.

| Module | Licence |
|---|---|
END
awk -F, '
	NR == FNR { licence[$1] = $3; next }
	{
		found = ""
		for (library in licence)
			if ((library == $1 || index(library, $1 "/") == 1) && index(found, licence[library]) == 0)
				found = found (found == "" ? "" : ", ") licence[library]
		if (found == "") { print "no licence found: " $1 > "/dev/stderr"; missing = 1 }
		print "| " $1 " | " found " |"
	}
	END { exit missing }' "$scratch/libraries" "$scratch/modules"
