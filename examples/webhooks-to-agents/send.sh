#!/bin/sh
# Sends a webhook as the API does, by the rules of Standard Webhooks: ./send.sh ID BODY [SECRET]
time=$(date +%s)
signature=$(printf '%s.%s.%s' "$1" "$time" "$2" | openssl dgst -sha256 -hmac "${3:-a-secret-of-the-railway}" -binary | base64)
curl -s -w '%{http_code}\n' http://localhost:8080/hooks/railway -H 'Content-Type: application/json' \
	-H "webhook-id: $1" -H "webhook-timestamp: $time" -H "webhook-signature: v1,$signature" -d "$2"
