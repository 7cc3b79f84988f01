// Speaks MCP with @modelcontextprotocol/client, the client of revision 2026-07-28:
//
//	node client.mjs URL TOOL ARGUMENTS MODE
//
// connects to URL, lists the tools, calls TOOL with the JSON object ARGUMENTS
// and prints one JSON object: protocol, server, tools, result. MODE is how the
// revision is chosen: "auto" (ask the server), "legacy" (initialize), or the
// one revision to insist on.

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const [url, tool, args, mode] = process.argv.slice(2);

const client = new Client(
	{ name: 'fairway-test', version: '1.0.0' },
	{ versionNegotiation: { mode: mode === 'auto' || mode === 'legacy' ? mode : { pin: mode } } },
);
await client.connect(new StreamableHTTPClientTransport(new URL(url)));

const { tools } = await client.listTools();
const result = await client.callTool({ name: tool, arguments: JSON.parse(args) });

console.log(JSON.stringify({
	protocol: client.getNegotiatedProtocolVersion(),
	server: client.getServerVersion(),
	tools: tools.map((t) => t.name),
	result,
}));
await client.close();
