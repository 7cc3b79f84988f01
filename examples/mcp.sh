#!/bin/sh
# Lists and calls the tools of an MCP endpoint, for the examples in this folder:
#
#	../mcp.sh [CURL OPTIONS] list
#	../mcp.sh [CURL OPTIONS] call TOOL [ARGUMENTS]
#
# It prints the names of the tools, or the text of the result. MCP_URL is the endpoint.
# Default: http://localhost:8080/mcp. Needs curl.

set -eu

# Move the options for curl behind the command.
n=$#
while [ "$n" -gt 0 ] && [ "$1" != list ] && [ "$1" != call ]; do
	set -- "$@" "$1"
	shift
	n=$((n - 1))
done

case ${1-} in
list)
	message='{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
	;;
call)
	arguments='{}'
	[ "$n" -lt 3 ] || arguments=$3
	message='{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"'$2'","arguments":'$arguments'}}'
	;;
*)
	echo "mcp.sh: give a command: list, or call TOOL [ARGUMENTS]" >&2
	exit 2
	;;
esac
shift "$n"

response=$(curl -sS -w '\n%{http_code}' "$@" -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' \
	-H 'MCP-Protocol-Version: 2025-11-25' -d "$message" "${MCP_URL:-http://localhost:8080/mcp}")
status=$(printf '%s\n' "$response" | tail -n 1)
body=$(printf '%s\n' "$response" | sed '$d')

case $body in
*'"result":{"tools":'*)
	printf '%s\n' "$body" | grep -o '"name":"[^"]*"' | cut -d '"' -f 4
	;;
*'"content":[{"type":"text"'*)
	case $body in *'"isError":true'*) printf 'error: ' ;; esac
	text=$(printf '%s\n' "$body" | sed -E 's/.*"content":\[\{"type":"text","text":"(([^"\\]|\\.)*)".*/\1/; s/\\"/"/g')
	printf '%b\n' "$text"
	;;
*)
	printf 'HTTP status %s: %s\n' "$status" "$body"
	;;
esac
