// The site of the documentation. See ../README.md.
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { defineConfig } from 'vitepress'
import caddyfile from './caddyfile.mjs'
import { checkAnchors, linksOf, siteLinks, slugify } from './links.mjs'

const root = path.resolve(import.meta.dirname, '../../..')
const repository = 'https://github.com/fairwayhq/fairway'

// Pages of the site. Links to all other files lead to the repository.
const markdown = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', '*.md'], { cwd: root, encoding: 'utf8' }).trim().split('\n')
const pages = new Set(markdown.filter((f) => /^(docs\/[^/]+|examples\/(.+\/)?README|packaging\/helm\/fairway\/README|CHANGELOG)\.md$/.test(f)))

// The version that is built, and all that the menu lists: "main=/main/ 1.2=/ 1.1=/1.1/".
const version = process.env.SITE_VERSION ?? 'main'
const versions = (process.env.SITE_VERSIONS ?? '').split(' ').filter(Boolean).map((v) => v.split('='))

const base = process.env.SITE_BASE ?? '/'
const origin = process.env.SITE_ORIGIN ?? '' // https://HOST, for llms.txt

// fromBase returns the address of another version. VitePress puts the base before each address that begins with a slash.
function fromBase(to) {
	return `/${path.posix.relative(base, to)}/`.replace('//', '/')
}

// sidebar makes a group of each heading of the index, and an item of each first link of a row.
function sidebar() {
	const groups = []
	for (const line of readFileSync(path.join(root, 'docs/README.md'), 'utf8').split('\n')) {
		const heading = line.match(/^#{2,3} (.*)$|^\*\*(.*)\*\*$/)
		if (heading) groups.push({ text: heading[1] ?? heading[2], collapsed: true, items: [] })
		if (groups.length === 0 || !(line.startsWith('| ') || groups.at(-1).text === 'Tutorial')) continue
		groups.at(-1).items.push(...linksOf(line, 'docs/README.md').filter((l) => pages.has(l.file)))
	}
	return groups.filter((g) => g.items.length > 0).map((g) => ({
		...g,
		items: g.items.map((l) => ({ text: l.text.replaceAll('`', ''), link: address(l.file) + l.anchor })),
	}))
}

// address returns the address of a page of the repository below the base of the site.
function address(file) {
	return '/' + file.replace(/^docs\//, '').replace(/README\.md$/, '').replace(/\.md$/, '')
}

export default defineConfig({
	title: 'Fairway',
	description: 'Lets AI agents use existing REST APIs as tools, as modules of Caddy.',
	base,
	cleanUrls: true,
	lastUpdated: true,
	ignoreDeadLinks: 'localhostLinks',
	srcDir: root,
	srcExclude: markdown.filter((f) => !pages.has(f)),
	rewrites: Object.fromEntries([...pages].map((f) => [f, address(f).slice(1).replace(/^$|\/$/, '$&index') + '.md'])),
	markdown: {
		attrs: { disable: true }, // braces are placeholders of Caddy
		languages: [caddyfile],
		languageAlias: { cel: 'js' },
		anchor: { slugify },
		config: (md) => siteLinks(md, { root, pages, address, source: `${repository}/blob/${version === 'main' ? 'main' : 'v' + version}` }),
	},
	buildEnd({ outDir, site: { base } }) {
		checkAnchors(outDir, base)
		const index = readFileSync(path.join(root, 'llms.txt'), 'utf8')
		writeFileSync(path.join(outDir, 'llms.txt'), index.replace(/\]\(([^)#\s]+\.md)/g, (_, file) => `](${origin}${base}${address(file).slice(1)}`))
	},
	vite: {
		build: { chunkSizeWarningLimit: 2000 },
		// The pages are not in the folder that has node_modules, so Vite does not find what they import.
		plugins: [{ name: 'vue-of-pages', enforce: 'pre', resolveId: (id, _, { ssr }) => (ssr && /^vue(\/server-renderer)?$/.test(id) ? { id, external: true } : null) }],
	},
	themeConfig: {
		nav: [
			{ text: 'Tutorial', link: '/tutorial' },
			{ text: 'Examples', link: '/examples/' },
			{ text: 'Changelog', link: '/CHANGELOG' },
			...(versions.length > 1 ? [{ text: version, items: versions.map(([text, to]) => ({ text, link: fromBase(to), target: '_self', noIcon: true })) }] : []),
		],
		sidebar: sidebar(),
		outline: [2, 3],
		search: { provider: 'local' },
		socialLinks: [{ icon: 'github', link: repository }],
		editLink: { text: 'Edit this page', pattern: `${repository}/edit/main/:path` },
	},
})
