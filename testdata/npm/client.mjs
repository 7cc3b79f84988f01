// Speaks MCP with @modelcontextprotocol/client, the client of revision 2026-07-28:
//
//	node client.mjs MODES URL TOOL ARGUMENTS...
//
// For each of the MODES, which commas separate, and each JSON object in ARGUMENTS, it connects
// to URL, lists the tools and calls TOOL. It prints a JSON array with an object for each:
// protocol, server, tools, result. A mode is how the revision is chosen: "auto" (ask the
// server), "legacy" (initialize), or the one revision to insist on.

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const [modes, url, tool, ...inputs] = process.argv.slice(2);

const outputs = [];
for (const mode of modes.split(',')) {
	for (const input of inputs) {
		const client = new Client(
			{ name: 'fairway-test', version: '1.0.0' },
			{ versionNegotiation: { mode: mode === 'auto' || mode === 'legacy' ? mode : { pin: mode } } },
		);
		await client.connect(new StreamableHTTPClientTransport(new URL(url)));

		const { tools } = await client.listTools();
		const result = await client.callTool({ name: tool, arguments: JSON.parse(input) });

		outputs.push({
			protocol: client.getNegotiatedProtocolVersion(),
			server: client.getServerVersion(),
			tools: tools.map((t) => t.name),
			result,
		});
		await client.close();
	}
}
console.log(JSON.stringify(outputs));
