// Reads the skills of a server with @modelcontextprotocol/client/ext/skills, which
// verifies the size and the digest of every file and the frontmatter:
//
//	node skills.mjs URL
//
// lists the skills, reads all their files and folders, and prints one JSON object:
// directoryRead, invalid (entries that the client refuses), and skills: the URI
// and the number of verified files and of children of the folder of each.

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { SkillsClient } from '@modelcontextprotocol/client/ext/skills';

const client = new Client({ name: 'fairway-test', version: '1.0.0' }, { versionNegotiation: { mode: 'auto' } });
await client.connect(new StreamableHTTPClientTransport(new URL(process.argv[2])));

const reader = new SkillsClient(client, { skipInvalid: true });
const { skills, invalid } = await reader.list();
const found = [];
for (const skill of skills) {
	const { skill: same } = await reader.get(skill.uri);
	let verified = 0;
	for (const { uri } of same.resources) {
		verified += (await reader.read(skill, uri)).verified ? 1 : 0;
	}
	const { resources } = await reader.readDirectory(skill.uri.replace(/\/SKILL\.md$/, ''));
	found.push({ uri: skill.uri, verified, children: resources.length });
}
console.log(JSON.stringify({ directoryRead: reader.directoryRead, invalid, skills: found }));
await client.close();
