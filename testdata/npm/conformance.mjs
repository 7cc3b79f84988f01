// Runs the official conformance suite against an MCP server:
//
//	node conformance.mjs URL REVISION [SCENARIO...]
//
// runs every scenario that REVISION requires, and those that the suite runs
// beside them, or only the given ones. It prints one JSON object: exit is the suite's exit code,
// scenarios has the checks of each scenario by its name, and log is what the
// suite says if it says nothing else.

import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const [url, revision, ...chosen] = process.argv.slice(2);
const suite = 'node_modules/@modelcontextprotocol/conformance/dist/index.js';

const results = mkdtempSync(join(tmpdir(), 'conformance-'));
const which = chosen.length > 0
	? chosen.map((scenario) => ['--scenario', scenario, '--spec-version', revision, '--force'])
	: [['--requirements', revision]];
const runs = which.map((options) => spawnSync(
	process.execPath,
	[suite, 'server', '--url', url, ...options, '-o', results],
	{ encoding: 'utf8', maxBuffer: 64 << 20 },
));

// The results of a scenario are in a directory named server-SCENARIO-TIME.
const scenarios = {};
for (const directory of readdirSync(results)) {
	const name = directory.replace(/^server-/, '').replace(/-\d{4}-\d\d-\d\dT[\d-]+Z$/, '');
	const checks = JSON.parse(readFileSync(join(results, directory, 'checks.json'), 'utf8'));
	scenarios[name] = checks.map(({ id, status, errorMessage }) => ({ id, status, errorMessage }));
}
rmSync(results, { recursive: true });

console.log(JSON.stringify({
	exit: Math.max(...runs.map((run) => run.status ?? 1)),
	scenarios,
	log: Object.keys(scenarios).length > 0 ? '' : runs.map((run) => run.stdout + run.stderr).join(''),
}));
