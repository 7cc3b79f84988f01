#!/bin/sh
# Runs after the package was removed. The store in /var/lib/private/fairway stays: it has records that you may have to keep.
set -e
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
