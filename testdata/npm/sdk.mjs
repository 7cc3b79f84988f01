// Speaks MCP with @modelcontextprotocol/sdk (revisions up to 2025-11-25):
//
//	node sdk.mjs URL TOOL ARGUMENTS...
//
// For each JSON object in ARGUMENTS, it connects to URL, lists the tools and calls TOOL.
// It prints a JSON array with an object for each: protocol, server, tools, result.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

const [url, tool, ...inputs] = process.argv.slice(2);

const outputs = [];
for (const input of inputs) {
	const client = new Client({ name: 'fairway-test', version: '1.0.0' });
	const transport = new StreamableHTTPClientTransport(new URL(url));
	await client.connect(transport);

	const { tools } = await client.listTools();
	const result = await client.callTool({ name: tool, arguments: JSON.parse(input) });

	outputs.push({
		protocol: transport.protocolVersion,
		server: client.getServerVersion(),
		tools: tools.map((t) => t.name),
		result,
	});
	await client.close();
}
console.log(JSON.stringify(outputs));
