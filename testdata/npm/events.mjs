// Subscribes to events with the client of the AI SDK, and receives them with its webhook:
//
//	node events.mjs MCP_URL API_KEY EVENT CERTIFICATE PRIVATE_KEY
//
// It prints "subscribed", then each event that the webhook accepts as a line of JSON. At the end of its input it unsubscribes.

import { readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import { experimental_createMCPClient as createMCPClient, experimental_createMCPEventWebhook as createMCPEventWebhook } from '@ai-sdk/mcp';

const [url, apiKey, name, cert, key] = process.argv.slice(2);
const saved = new Map();
const store = {
	get: async key => saved.get(key),
	getById: async id => [...saved.values()].find(s => s.id === id),
	set: async s => void saved.set(s.key, s),
	update: async (key, patch) => void saved.set(key, { ...saved.get(key), ...patch }),
	delete: async key => void saved.delete(key),
};
const handle = createMCPEventWebhook({
	store,
	onEvent: async ({ event }) => console.log(JSON.stringify(event)),
	onError: error => console.error(error),
});
const server = createServer({ cert: readFileSync(cert), key: readFileSync(key) }, async (request, response) => {
	const chunks = [];
	for await (const chunk of request) chunks.push(chunk);
	const answer = await handle(new Request(new URL(request.url, 'https://127.0.0.1'), { method: request.method, headers: request.headers, body: Buffer.concat(chunks) }));
	response.writeHead(answer.status, Object.fromEntries(answer.headers)).end(Buffer.from(await answer.arrayBuffer()));
});
await new Promise(done => server.listen(0, '127.0.0.1', done));

const client = await createMCPClient({ transport: { type: 'http', url, headers: { 'X-API-Key': apiKey } }, experimental_events: { store } });
const { id } = await client.experimental_events.subscribe({ name, delivery: { mode: 'webhook', url: `https://127.0.0.1:${server.address().port}/events` } });
console.log('subscribed');
process.stdin.resume();
process.stdin.on('end', async () => {
	await client.experimental_events.unsubscribe({ id });
	process.exit();
});
