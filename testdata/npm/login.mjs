// Logs in at an MCP server as a client that knows nothing but the server's address, and lists its tools:
//
//	node login.mjs sdk URL
//	node login.mjs remote URL DIRECTORY
//	node login.mjs browser ADDRESS REDIRECT
//	node login.mjs conformance ISSUER CLIENT_ID PORT RESOURCE
//
// "sdk" is @modelcontextprotocol/sdk; "remote" is mcp-remote, which keeps its tokens in DIRECTORY. Both register themselves. "browser" only follows the address of a
// login until it leads to REDIRECT. "conformance" runs the scenarios for authorization servers. The browser is a script that agrees to everything. Prints one JSON object: tools,
// redirects (how often the browser was sent on), scope, address (where the browser was sent at last), and log (of the scenarios).

import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { UnauthorizedError } from '@modelcontextprotocol/sdk/client/auth.js';

const [kind, url, ...rest] = process.argv.slice(2);
let redirects = 0;

// browse opens an address and follows it, as a browser of a user who agrees, until stop says that an address is the last one.
async function browse(address, stop) {
	const jar = new Map(); // cookies by origin and name
	let request = { method: 'GET' };
	for (let i = 0; i < 20; i++) {
		const { origin } = new URL(address);
		const cookies = [...jar].filter(([key]) => key.startsWith(origin + ' ')).map(([key, value]) => `${key.slice(origin.length + 1)}=${value}`);
		const response = await fetch(address, { ...request, redirect: 'manual', headers: { ...request.headers, cookie: cookies.join('; ') } });
		for (const cookie of response.headers.getSetCookie()) {
			const [, name, value] = /^([^=]+)=([^;]*)/.exec(cookie);
			value ? jar.set(`${origin} ${name}`, value) : jar.delete(`${origin} ${name}`);
		}
		request = { method: 'GET' };
		const location = response.headers.get('location');
		if (location) {
			redirects++;
			address = new URL(location, address).href;
			if (stop(address)) {
				return address;
			}
			continue;
		}
		const body = await response.text();
		const action = /<form method="post" action="([^"]+)"/i.exec(body);
		const id = /name="id" value="([^"]+)"/.exec(body);
		if (action && id && body.includes('name="password"')) { // the page of testdata/zitadel
			address = new URL(action[1], address).href;
			request = { method: 'POST', body: new URLSearchParams({ id: id[1], username: 'test-user@localhost', password: 'verysecure' }) };
			continue;
		}
		const login = /name="login" value="([^"]+)"/.exec(body);
		if (!action || !login) {
			if (response.ok) {
				return address; // the page of the client
			}
			throw new Error(`${response.status} ${address}: ${body}`);
		}
		address = new URL(action[1], address).href;
		request = {
			method: 'POST',
			headers: { 'content-type': 'application/x-www-form-urlencoded', 'sec-fetch-site': 'same-origin', origin },
			body: new URLSearchParams({ login: login[1], answer: 'allow' }).toString(),
		};
	}
	throw new Error('too many redirects');
}

// memory keeps what the SDK wants to be kept, and gives the browser its addresses.
class Memory {
	redirectUrl = 'http://127.0.0.1:33418/callback';
	clientMetadata = { client_name: 'Login test', redirect_uris: [this.redirectUrl], token_endpoint_auth_method: 'none' };
	clientInformation() { return this.client; }
	saveClientInformation(client) { this.client = client; }
	tokens() { return this.saved; }
	saveTokens(tokens) { this.saved = tokens; }
	codeVerifier() { return this.verifier; }
	saveCodeVerifier(verifier) { this.verifier = verifier; }
	async redirectToAuthorization(address) {
		const back = await browse(address.href, (to) => to.startsWith(this.redirectUrl));
		const params = new URL(back).searchParams;
		if (params.has('error')) {
			throw new Error(params.get('error'));
		}
		this.code = params.get('code');
	}
}

async function bySDK() {
	const memory = new Memory();
	const client = () => new Client({ name: 'login-test', version: '1.0.0' });
	const first = new StreamableHTTPClientTransport(new URL(url), { authProvider: memory });
	try {
		await client().connect(first);
		throw new Error('the server asked for no login');
	} catch (error) {
		if (!(error instanceof UnauthorizedError)) {
			throw error;
		}
	}
	await first.finishAuth(memory.code);
	const connected = client();
	await connected.connect(new StreamableHTTPClientTransport(new URL(url), { authProvider: memory }));
	const { tools } = await connected.listTools();
	await connected.close();
	return { tools: tools.map((t) => t.name), scope: memory.saved.scope };
}

async function byRemote() {
	const [directory] = rest;
	const program = createRequire(import.meta.url).resolve('mcp-remote/package.json').replace(/package\.json$/, 'dist/proxy.js');
	// Without a display and with an empty PATH, mcp-remote cannot open a browser; it prints the address instead.
	const transport = new StdioClientTransport({
		command: process.execPath, args: [program, url, '--allow-http'], stderr: 'pipe', env: { MCP_REMOTE_CONFIG_DIR: directory, HOME: directory, PATH: directory },
	});
	let text = '';
	let browsed;
	transport.stderr.on('data', (data) => {
		text += data;
		const address = /(http\S+\/login\/authorize\?\S+)/.exec(text);
		if (address && text.indexOf('\n', address.index) > 0) {
			browsed ??= browse(address[1], () => false);
			browsed.catch((error) => { console.error(error); process.exit(1); });
		}
	});
	const connected = new Client({ name: 'login-test', version: '1.0.0' });
	try {
		await connected.connect(transport);
	} catch (error) {
		throw new Error(`${error}\n${text}`);
	}
	const { tools } = await connected.listTools();
	await connected.close();
	return { tools: tools.map((t) => t.name) };
}

async function conformance() {
	const [client, port, resource] = rest;
	const program = new URL('node_modules/@modelcontextprotocol/conformance/dist/index.js', import.meta.url).pathname;
	const suite = spawn(process.execPath, [program, 'authorization', '--url', url, '--client-id', client, '--resource', resource, '-p', port]);
	let log = '';
	let browsed;
	const read = (data) => {
		log += data;
		const address = /(http\S+\/login\/authorize\?\S+)\n[^]*Callback server started/.exec(log);
		if (address) {
			browsed ??= browse(address[1], () => false).catch((error) => { log += error; suite.kill(); });
		}
	};
	suite.stdout.on('data', read);
	suite.stderr.on('data', read);
	const exit = await new Promise((resolve) => suite.on('close', resolve));
	return { log, exit };
}

const modes = {
	sdk: bySDK, remote: byRemote, conformance,
	browser: async () => ({ address: await browse(url, (to) => to.startsWith(rest[0])) }),
};
const result = await modes[kind]();
console.log(JSON.stringify({ ...result, redirects }));
process.exit(0);
