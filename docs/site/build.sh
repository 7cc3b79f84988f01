#!/usr/bin/env bash
# Builds the site of all versions into a directory: the newest patch release of each of the five newest minor versions,
# from its tag, and the checkout as "main". The newest release is at the top; without a release, that is main.
#
#	[SITE_ORIGIN=https://HOST] docs/site/build.sh dist/site [/fairway/]
set -euo pipefail
out=$(realpath -m -- "$1")
base=${2:-/}
cd -- "$(dirname -- "$0")/../.."
scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"; git worktree prune' EXIT

# release_tags prints the tags, newest first. A version without the configuration of the site has no pages.
release_tags() {
	local tag minors=" "
	git tag --list 'v*' --sort=-version:refname | grep -E '^v[0-9]+\.[0-9]+\.[0-9]+$' | while read -r tag; do
		case $minors in *" ${tag%.*} "*) continue ;; esac
		minors+="${tag%.*} "
		if git cat-file -e "$tag:docs/site/package-lock.json" 2>/dev/null; then printf '%s\n' "$tag"; fi
	done | head -n 5
}

mapfile -t tags < <(release_tags || true)
list=() # "version=address" for the menu of versions
[ "${#tags[@]}" -eq 0 ] && list+=("main=$base") || list+=("main=${base}main/")
for tag in "${tags[@]}"; do
	[ "$tag" = "${tags[0]}" ] && list+=("${tag#v}=$base") || list+=("${tag#v}=$base${tag#v}/")
done

# build VERSION ADDRESS SOURCE
build() {
	npm ci --prefix "$3/docs/site" --ignore-scripts --no-audit --no-fund --loglevel error
	SITE_VERSION=$1 SITE_BASE=$2 SITE_VERSIONS="${list[*]}" npm run --prefix "$3/docs/site" build -- --outDir "$scratch/$1"
	mkdir -p -- "$out/${2#"$base"}"
	cp -a -- "$scratch/$1/." "$out/${2#"$base"}"
}

for entry in "${list[@]}"; do
	version=${entry%%=*} source=$PWD
	if [ "$version" != main ]; then
		source=$scratch/checkout-$version
		git worktree add --quiet --detach "$source" "v$version"
	fi
	build "$version" "${entry#*=}" "$source"
done
