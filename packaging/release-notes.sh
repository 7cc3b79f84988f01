#!/bin/sh
# Prints the section of a version in CHANGELOG.md, and fails if there is none. Pre-releases may use "Unreleased".
#
#	packaging/release-notes.sh 1.2.0
set -eu
cd -- "$(dirname -- "$0")/.."
for section in "${1#v}" "$(case $1 in *-*) echo Unreleased ;; esac)"; do
	[ -n "$section" ] || continue
	notes=$(awk -v section="$section" '/^## / { found = ($2 == section || $2 == "[" section "]") ; next } found' CHANGELOG.md)
	if [ -n "$notes" ]; then
		printf '%s\n' "$notes"
		exit
	fi
done
echo "CHANGELOG.md has no section ## $1" >&2
exit 1
