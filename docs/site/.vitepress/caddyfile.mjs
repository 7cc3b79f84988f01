// A grammar of Caddyfiles for the highlighter: comments, strings, placeholders, matchers, and the first word of a line.
export default {
	name: 'caddyfile',
	scopeName: 'source.caddyfile',
	patterns: [
		{ match: '(?<=^|\\s)#.*$', name: 'comment.line' },
		{ match: '"(\\\\.|[^"\\\\])*"', name: 'string.quoted.double' },
		{ begin: '`', end: '`', name: 'string.quoted.other' },
		{ match: '\\{[$\\w][^{}\\s]*\\}', name: 'constant.other.placeholder' },
		{ match: '(?<=^|\\s)@[\\w-]+', name: 'entity.name.tag' },
		{ match: '(?<=^\\s*)[a-z_]+(?=\\s|$)', name: 'entity.name.function' },
	],
	repository: {},
}
