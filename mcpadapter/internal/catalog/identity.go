package catalog

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/mcpadapter/internal/content"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/mcpadapter/library"
)

// AppendIdentity appends serverInfo.
func (c *Catalog) AppendIdentity(dst []byte, v protocol.Revision) []byte {
	o, tools := c.options, c.Tools
	dst = strictjson.AppendString(append(dst, `{"name":`...), cmp.Or(o.Name, nameOfTitle(tools.Title), tools.Name, "fairway"))
	if title := cmp.Or(o.Title, tools.Title); title != "" && v.SupportsTitles() {
		dst = strictjson.AppendString(append(dst, `,"title":`...), title)
	}
	dst = strictjson.AppendString(append(dst, `,"version":`...), cmp.Or(o.Version, tools.Version, "0"))
	return append(content.AppendIcons(dst, library.ExtensionIcons(tools.MCP), v), '}')
}

// maxServerName is how many bytes of a document's title become the server's name.
const maxServerName = 64

// nameOfTitle converts a document's title to a server name: ASCII letters and digits in lower case,
// with a hyphen for everything else. It returns "" if the title has no such characters.
func nameOfTitle(title string) string {
	name := make([]byte, 0, min(len(title), maxServerName))
	for _, c := range []byte(strings.ToLower(title)) {
		isWord := 'a' <= c && c <= 'z' || '0' <= c && c <= '9'
		switch {
		case len(name) == maxServerName:
			return strings.TrimRight(string(name), "-")
		case isWord:
			name = append(name, c)
		case len(name) > 0 && name[len(name)-1] != '-':
			name = append(name, '-')
		}
	}
	return strings.TrimRight(string(name), "-")
}

// MaxInstructions is how many bytes of a document's description become instructions. Clients may add
// them to every conversation.
const MaxInstructions = 2048

// AppendInstructions appends the member instructions, with a comma before it, if there are any.
func (c *Catalog) AppendInstructions(dst []byte) []byte {
	instructions := cmp.Or(c.options.Instructions, text.Cut(c.Tools.Description, MaxInstructions))
	if instructions == "" {
		return dst
	}
	return strictjson.AppendString(append(dst, `,"instructions":`...), instructions)
}

// appendFreshness appends ttlMs and cacheScope: how long clients and proxies may cache a result, and
// whether users may share it. While a document is not loaded, lists are not cached.
func (c *Catalog) appendFreshness(dst []byte, public bool) []byte {
	ttl := c.options.ListTTL
	if c.Tools.LacksPart() {
		ttl = 0
	}
	dst = strconv.AppendInt(append(dst, `"ttlMs":`...), ttl.Milliseconds(), 10)
	if public {
		return append(dst, `,"cacheScope":"public"`...)
	}
	return append(dst, `,"cacheScope":"private"`...)
}
