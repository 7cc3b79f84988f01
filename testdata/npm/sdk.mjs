// Speaks MCP with @modelcontextprotocol/sdk (revisions up to 2025-11-25):
//
//	node sdk.mjs URL TOOL ARGUMENTS
//
// connects to URL, lists the tools, calls TOOL with the JSON object ARGUMENTS
// and prints one JSON object: protocol, server, tools, result.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

const [url, tool, args] = process.argv.slice(2);

const client = new Client({ name: 'fairway-test', version: '1.0.0' });
const transport = new StreamableHTTPClientTransport(new URL(url));
await client.connect(transport);

const { tools } = await client.listTools();
const result = await client.callTool({ name: tool, arguments: JSON.parse(args) });

console.log(JSON.stringify({
	protocol: transport.protocolVersion,
	server: client.getServerVersion(),
	tools: tools.map((t) => t.name),
	result,
}));
await client.close();
