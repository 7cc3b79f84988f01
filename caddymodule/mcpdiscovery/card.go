package mcpdiscovery

import (
	"cmp"
	"errors"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/fairwayhq/fairway/caddymodule/mcp"
	"github.com/fairwayhq/fairway/mcpadapter"
	"github.com/fairwayhq/fairway/tools"
)

// Maximum lengths of a card's members, in characters (schema v1).
const (
	maxCardName = 200
	MaxCardText = 100 // title and description
)

// ServerCard describes a server and where it is. A server card and the server.json of the MCP
// registry have the same members.
type ServerCard struct {
	Schema      string       `json:"$schema"`
	Name        string       `json:"name"` // reverse DNS name, a slash, and a name
	Title       string       `json:"title,omitempty"`
	Description string       `json:"description"`
	Version     string       `json:"version"`
	Remotes     []cardRemote `json:"remotes"`
}

// cardRemote is an endpoint of the server.
type cardRemote struct {
	Type     string   `json:"type"`
	URL      string   `json:"url"`
	Versions []string `json:"supportedProtocolVersions,omitempty"`
}

// Card returns the card of the endpoint at the given URL. Title and version are those that the server reports to clients, and so is the
// name, unless the options have one.
func Card(m *mcp.Handler, options *Discovery, at string, toolset *tools.Toolset) ServerCard {
	versions := mcpadapter.Versions()
	if len(m.Versions) > 0 {
		versions = slices.DeleteFunc(versions, func(v string) bool { return !slices.Contains(m.Versions, v) })
	}
	card := ServerCard{
		Schema:  cardSchema,
		Title:   CardText(cmp.Or(m.Title, toolset.Title), MaxCardText),
		Version: cmp.Or(m.Version, toolset.Version, "0"),
		Remotes: []cardRemote{{Type: "streamable-http", URL: at, Versions: versions}},
	}
	card.Description = CardText(cmp.Or(toolset.Description, card.Title), MaxCardText)
	if card.Description == "" {
		card.Description = "An API with the tools of " + toolset.Name
	}
	name := cmp.Or(m.Name, toolset.Name)
	switch {
	case options.Name != "":
		card.Name = options.Name
	case checkCardName(name) == nil:
		card.Name = name
	default:
		for _, ending := range []string{".json", ".yaml", ".yml"} {
			name = strings.TrimSuffix(name, ending)
		}
		card.Name = cardNamespace(at) + "/" + cardWord(name)
	}
	return card
}

// identifier returns the card's name in the form that a catalog uses.
func (c ServerCard) identifier() string {
	namespace, name, _ := strings.Cut(c.Name, "/")
	return "urn:air:" + reverseLabels(namespace) + ":mcp:" + name
}

// cardNamespace returns the host of a URL in reverse DNS notation.
func cardNamespace(at string) string {
	u, err := url.Parse(at)
	if err != nil || u.Hostname() == "" {
		return "localhost"
	}
	host := u.Hostname()
	if net.ParseIP(host) != nil {
		return strings.ReplaceAll(host, ":", "-")
	}
	return cardWord(reverseLabels(host))
}

// reverseLabels converts example.com to com.example and back. IP addresses stay unchanged.
func reverseLabels(host string) string {
	if net.ParseIP(host) != nil {
		return host
	}
	labels := strings.Split(host, ".")
	slices.Reverse(labels)
	return strings.Join(labels, ".")
}

// cardWord replaces the characters of a text that names must not contain.
func cardWord(text string) string {
	word := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '.', r == '-':
			return r
		}
		return '-'
	}, text)
	const longest = 64
	if word = strings.Trim(word[:min(len(word), longest)], "-."); word == "" {
		return "mcp"
	}
	return word
}

// CardText returns the first paragraph of a text as one line of at most limit characters.
func CardText(text string, limit int) string {
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n\n")
	characters := []rune(strings.Join(strings.Fields(text), " "))
	if len(characters) <= limit {
		return string(characters)
	}
	cut := string(characters[:limit-1])
	if space := strings.LastIndexByte(cut, ' '); space > len(cut)/2 {
		cut = cut[:space]
	}
	return cut + "…"
}

var cardNamePattern = regexp.MustCompile(`^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$`)

// checkCardName returns an error if the text is not a valid name of a server card.
func checkCardName(name string) error {
	if len(name) > maxCardName || !cardNamePattern.MatchString(name) {
		return errors.New("write it as a reversed domain, a slash and a name, such as com.example/trains")
	}
	return nil
}
