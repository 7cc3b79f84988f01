// Responds to each request with what Node's own parsers and busboy, the parser of multer, read
// from it:
//
//	node parse.mjs PORT

import http from 'node:http';
import querystring from 'node:querystring';
import busboy from 'busboy';

// lists returns an object whose values are lists.
const lists = (read) => Object.fromEntries(Object.entries(read).map(([name, value]) => [name, [value].flat()]));

function multipart(request, body) {
	return new Promise((resolve, reject) => {
		const form = {}, files = {};
		const parser = busboy({ headers: request.headers });
		parser.on('field', (name, value) => (form[name] ??= []).push(value));
		parser.on('file', (name, stream, { filename }) => {
			const chunks = [];
			stream.on('data', (chunk) => chunks.push(chunk));
			stream.on('end', () => (files[name] ??= []).push([filename, Buffer.concat(chunks).toString('base64')]));
		});
		parser.on('close', () => resolve({ form, files }));
		parser.on('error', reject);
		parser.end(body);
	});
}

async function read(request) {
	const chunks = [];
	for await (const chunk of request) chunks.push(chunk);
	const body = Buffer.concat(chunks);
	const [path, ...rest] = request.url.split('?');
	const query = rest.join('?');
	const all = { path: decodeURIComponent(path), query: lists(querystring.parse(query)), form: {}, files: {}, json: null };
	const type = request.headers['content-type'] ?? '';
	if (type.startsWith('multipart/form-data')) Object.assign(all, await multipart(request, body));
	else if (type.startsWith('application/x-www-form-urlencoded')) all.form = lists(querystring.parse(body.toString()));
	else if (body.length) all.json = JSON.parse(body.toString());
	return all;
}

http.createServer(async (request, response) => {
	response.setHeader('Content-Type', 'application/json');
	response.end(JSON.stringify(await read(request).catch((error) => ({ error: String(error) }))));
}).listen(Number(process.argv[2]), '127.0.0.1');
