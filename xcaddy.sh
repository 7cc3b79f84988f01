#!/bin/sh
# Builds Caddy with this checkout of Fairway. With arguments, it also runs Caddy:
#
#	./xcaddy.sh                                   build ./caddy
#	./xcaddy.sh run --config Caddyfile.example    build if sources changed, then run
#	./xcaddy.sh adapt | validate | tools | …      the same with any Caddy command
#	./xcaddy.sh --with MODULE[@VERSION] …         build with another Caddy module too
#	./xcaddy.sh --with MODULE@v0.0.0=FOLDER …     the same with a module in a folder
#
# --with may be repeated. It comes before the command and always builds. Later commands
# without --with use the same modules. ./xcaddy.sh alone builds without further modules.
#
# The script works from any directory and needs only Go. As with Caddy itself, file
# arguments are relative to the working directory.
#
# OUTPUT is the path of the binary. Default: caddy, beside this script. The file
# OUTPUT.build has the further modules and the source files of the last build.

set -eu

root=$(cd -- "$(dirname -- "$0")" && pwd)
output=${OUTPUT:-$root/caddy}
case $output in
/*) ;;
*) output=$PWD/$output ;;
esac

# folders prints the folders that the binary is built from: this one, and those of MODULE…
folders() {
	printf '%s\n' "$root"
	for module in "$@"; do
		case $module in
		*=/*) printf '%s\n' "${module#*=}" ;;
		esac
	done
}

# sources FOLDER OPTION… prints the files that the packages in a folder are built from: Go
# files without tests, and all files of folders that embed some.
sources() {
	folder=$1
	shift
	find "$folder" \
		\( -name .git -o -name testdata -o -name node_modules -o -name example-data -o -name 'buildenv_*' -o -name '*_test.go' \
		-o -path "$root/benchmarks" -o -path "$root/docs" -o -path "$root/integration" -o -path "$root/examples" \) -prune -o \
		-type f \( -name '*.go' -o -name go.mod -o -name go.sum -o -path "$root/caddymodule/*" -o -path "$root/files/*" -o -path "$root/tools/*" -o -path "$root/store/*" -o -path "$root/internal/*" \) \
		"$@" -print
}

# each_source MODULE… -- OPTION… calls sources for the folders of the modules.
each_source() {
	modules_of_build=
	while [ "$1" != -- ]; do
		modules_of_build="$modules_of_build $1"
		shift
	done
	shift
	# shellcheck disable=SC2086 # a module's path has no spaces
	folders $modules_of_build | while read -r folder; do
		sources "$folder" "$@"
	done
}

# record MODULE… prints what OUTPUT.build has to be: the modules, and the source files.
record() {
	printf '%s\n' "$*"
	each_source "$@" -- | LC_ALL=C sort
}

# stale MODULE… succeeds if the binary is missing, or if a source file was changed, added or
# removed since it was built.
stale() {
	[ -x "$output" ] || return 0
	[ -z "$(each_source "$@" -- -newer "$output" | head -n 1)" ] || return 0
	[ -f "$output.build" ] && ! record "$@" | cmp -s - "$output.build"
}

# version prints the version of the checkout as Go names it: the tag of the commit, or a
# pseudo-version that comes after the latest tag. "caddy list-modules --versions" shows it.
version() {
	git -C "$root" describe --tags --exact-match --match 'v[0-9]*' 2>/dev/null && return
	commit=$(TZ=UTC git -C "$root" log -1 --abbrev=12 --date=format-local:%Y%m%d%H%M%S --format=%cd-%h 2>/dev/null) || commit=
	tag=$(git -C "$root" describe --tags --abbrev=0 --match 'v[0-9]*' 2>/dev/null) || tag=
	case $commit/$tag in
	/*) echo v0.0.0 ;; # not a Git checkout
	*/) echo "v0.0.0-$commit" ;;
	*/*-*) echo "$tag.0.$commit" ;;
	*) echo "${tag%.*}.$((${tag##*.} + 1))-0.$commit" ;;
	esac
}

# build MODULE… runs xcaddy with the versions of xcaddy and Caddy in go.mod. The arguments
# are further modules. They use this checkout too, whichever version of Fairway they require.
build() (
	cd -- "$root"
	mkdir -p -- "$(dirname -- "$output")"
	record "$@" >"$output.build.new"
	caddy=$(go list -m -f '{{.Version}}' github.com/caddyserver/caddy/v2)
	for module in "$@"; do
		set -- "$@" --with "$module"
		shift
	done
	go tool xcaddy build "$caddy" \
		--with "github.com/fairwayhq/fairway@$(version)=." \
		--replace github.com/fairwayhq/fairway=. "$@" \
		--output "$output"
	mv -- "$output.build.new" "$output.build"
)

modules=
while [ "${1-}" = --with ]; do
	[ $# -ge 2 ] || {
		echo 'xcaddy.sh: --with needs the path of a Go module, such as github.com/mholt/caddy-ratelimit' >&2
		exit 2
	}
	module=$2
	case $module in
	*=/*) ;;
	*=*) module=${module%%=*}=$PWD/${module#*=} ;;
	esac
	modules="$modules $module"
	shift 2
done

if [ $# -eq 0 ]; then
	# shellcheck disable=SC2086 # a module's path has no spaces
	build $modules
	exit
fi
if [ -n "$modules" ]; then
	# shellcheck disable=SC2086
	build $modules >&2
else
	[ ! -f "$output.build" ] || read -r modules <"$output.build"
	# shellcheck disable=SC2086
	if stale $modules; then
		build $modules >&2
	fi
fi

# When Caddy runs the example, store Caddy's own files beside the example's data (see
# Caddyfile.example), not in the user's Caddy folders.
case "$* " in
*"Caddyfile.example "*) export XDG_DATA_HOME="${XDG_DATA_HOME:-$PWD/example-data}" ;;
esac
exec "$output" "$@"
