// Links and anchors as GitHub makes them, so that pages read the same there and on the site.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'

// slugify returns the id of a heading. docs/links_test.go has the same rule.
export function slugify(title) {
	return title.trim().toLowerCase().replace(/[^\p{L}\p{Nd}\-_ ]/gu, '').replaceAll(' ', '-')
}

// linksOf returns the first link of a line of Markdown in each cell: its text, and its target as a path of the repository.
export function linksOf(line, from) {
	return [...line.matchAll(/\[([^\]]+)\]\(([^)#\s]+)(#[^)]*)?\)/g)]
		.filter((l) => !l[2].includes('://'))
		.map((l) => ({ text: l[1], file: path.posix.join(path.posix.dirname(from), l[2]), anchor: l[3] ?? '' }))
}

// siteLinks makes relative links of pages addresses of the site, and those to other files links to the repository.
export function siteLinks(md, { root, pages, address, source }) {
	md.core.ruler.push('site-links', ({ tokens, env }) => {
		const from = path.relative(root, env.realPath ?? env.path).replaceAll(path.sep, '/')
		for (const token of tokens.flatMap((t) => t.children ?? [])) {
			if (token.type === 'code_inline') token.attrSet('v-pre', '') // its braces are no templates
			const href = token.type === 'link_open' ? token.attrGet('href') : null
			if (!href || /^([a-z]+:|#|\/)/.test(href)) continue
			const [target, anchor] = decodeURI(href).split('#')
			const file = path.posix.join(path.posix.dirname(from), target).replace(/\/$/, '')
			if (!existsSync(path.join(root, file))) throw new Error(`${from}: ${href} does not exist`)
			token.attrSet('href', (pages.has(file) ? address(file) : `${source}/${file}`) + (anchor ? '#' + anchor : ''))
		}
	})
	const fence = md.renderer.rules.fence
	md.renderer.rules.fence = (tokens, i, ...rest) =>
		tokens[i].info.trim() === 'mermaid' ? `<Mermaid code="${encodeURIComponent(tokens[i].content)}" />` : fence(tokens, i, ...rest)
}

// checkAnchors fails if a link of a page leads to an id that its target does not have.
export function checkAnchors(dir, base) {
	const pages = new Map(readdirSync(dir, { recursive: true }).filter((file) => file.endsWith('.html')).map((file) => {
		const html = readFileSync(path.join(dir, file), 'utf8')
		const at = base + file.replaceAll(path.sep, '/').replace(/(^|\/)index\.html$/, '$1').replace(/\.html$/, '')
		return [at, { html, ids: new Set([...html.matchAll(/ id="([^"]+)"/g)].map((m) => m[1])) }]
	}))
	const missing = []
	for (const [at, { html }] of pages) {
		for (const [, to, id] of html.matchAll(/href="([^"#:]*)#([^"]+)"/g)) {
			const target = pages.get(to || at)
			if (!target?.ids.has(decodeURIComponent(id))) missing.push(`${at}: ${to}#${id}`)
		}
	}
	if (missing.length > 0) throw new Error(`links to missing headings:\n${missing.join('\n')}`)
}
