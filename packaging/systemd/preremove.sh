#!/bin/sh
# Runs before the package is removed or upgraded. dpkg gives "remove" or "upgrade", rpm the number of versions that remain.
set -e
[ -d /run/systemd/system ] || exit 0
case ${1-} in
remove | 0) systemctl disable --now fairway ;;
esac
