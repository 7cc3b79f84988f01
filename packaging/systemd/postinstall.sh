#!/bin/sh
# Runs after the package was installed or upgraded. It starts nothing that did not run before.
set -e
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
if systemctl is-active --quiet fairway; then
	systemctl restart fairway
else
	echo 'Fairway is installed. Its configuration is /etc/fairway/Caddyfile. To start it: systemctl enable --now fairway'
fi
