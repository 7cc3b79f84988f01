package oagent

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/fairwayhq/fairway/oagent/review"
	"github.com/fairwayhq/fairway/tools"
)

// Scheme is the prefix of a reference to an agent. With this prefix the reference is never to
// a tool.
const Scheme = review.AgentScheme

// Reference names a tool or an agent (OpenAgentSpec v1, Names & References).
type Reference struct {
	Name  string // RFC 1123 DNS subdomain
	Agent bool   // written as oagent://…, so never a tool

	// Host and Path are set for oagent://host/path/name, an agent of another server. Host is
	// "" if the reference is not remote.
	Host, Path string
}

// maxReference is the maximum length of a reference, in bytes.
const maxReference = 2048

// ParseReference parses a reference in one of the three forms: name, oagent://name, or
// oagent://host[/path]/name.
func ParseReference(text string) (Reference, error) {
	if len(text) > maxReference {
		return Reference{}, fmt.Errorf("the reference has %d characters; the limit is %d", len(text), maxReference)
	}
	rest, isAgent := strings.CutPrefix(text, Scheme)
	if !isAgent {
		if scheme, _, ok := strings.Cut(text, "://"); ok {
			return Reference{}, fmt.Errorf("%.64q: a reference must be a name or start with %s, not with %s://", text, Scheme, scheme)
		}
		return Reference{Name: text}, CheckName(text)
	}
	r := Reference{Name: rest, Agent: true}
	if slash := strings.LastIndexByte(rest, '/'); slash >= 0 {
		r.Name = rest[slash+1:]
		r.Host, r.Path, _ = strings.Cut(rest[:slash], "/")
		if err := checkHost(r.Host); err != nil {
			return Reference{}, fmt.Errorf("%.64q: %w", text, err)
		}
		if err := checkPath(r.Path); err != nil {
			return Reference{}, fmt.Errorf("%.64q: %w", text, err)
		}
	}
	if err := CheckName(r.Name); err != nil {
		return Reference{}, fmt.Errorf("%.64q: %w", text, err)
	}
	return r, nil
}

// checkHost checks a host name with an optional port.
func checkHost(host string) error {
	name, port, hasPort := strings.Cut(host, ":")
	if hasPort && (port == "" || len(port) > len("65535") || strings.Trim(port, "0123456789") != "") {
		return errors.New("the port is not a number")
	}
	if err := CheckName(name); err != nil {
		return fmt.Errorf("invalid host name: %w", err)
	}
	return nil
}

// checkPath checks the part between host and name. It may be "".
func checkPath(path string) error {
	if path == "" {
		return nil
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "" || segment == "." || segment == ".." {
			return errors.New("the path has an empty or relative segment")
		}
		for i := range len(segment) {
			if c := segment[i]; c <= ' ' || c >= 0x7f || strings.IndexByte(`"#%<>?\^{|}`+"`", c) >= 0 {
				return fmt.Errorf("the path contains %q", c)
			}
		}
	}
	return nil
}

// IsRemote reports whether the reference is to an agent of another server.
func (r Reference) IsRemote() bool {
	return r.Host != ""
}

// String returns the reference in the form that documents use.
func (r Reference) String() string {
	switch {
	case r.Host != "" && r.Path != "":
		return Scheme + r.Host + "/" + r.Path + "/" + r.Name
	case r.Host != "":
		return Scheme + r.Host + "/" + r.Name
	case r.Agent:
		return Scheme + r.Name
	}
	return r.Name
}

// Target is the resolved form of a Reference: a tool, an agent of this server, or an agent of
// another server.
type Target struct {
	Toolset string      // name of the tool's toolset; "" for an agent
	Tool    *tools.Tool // nil for an agent
	Remote  bool        // an agent of another server
}

// Resolve returns the target of the reference. If a tool and an agent have the same name, the
// target is the tool, unless the reference begins with oagent:// (OpenAgentSpec v1, Names &
// References). An agent of another server is found only if names is a RemoteNames.
func (r Reference) Resolve(names Names) (Target, error) {
	if r.IsRemote() {
		return Target{Remote: true}, checkRemote(names, r)
	}
	if !r.Agent {
		if toolset, tool, ok := names.Tool(r.Name); ok {
			return Target{Toolset: toolset, Tool: tool}, nil
		}
	}
	if names.Agent(r.Name) {
		return Target{}, nil
	}
	if r.Agent {
		if _, _, isTool := names.Tool(r.Name); isTool {
			return Target{}, fmt.Errorf("%s is a tool, not an agent; write %s", r.Name, r.Name)
		}
		return Target{}, fmt.Errorf("unknown agent %s%s", r.Name, suggest(r.Name, names.All()))
	}
	return Target{}, fmt.Errorf("unknown tool or agent %s%s", r.Name, suggestTool(r.Name, names, names.All()))
}

func checkRemote(names Names, r Reference) error {
	if remote, ok := names.(RemoteNames); ok {
		return remote.CheckRemote(r)
	}
	return fmt.Errorf("%s is an agent of another server, and this server calls none; refer to an agent of this server by %s%s", r, Scheme, r.Name)
}

// maxName is the maximum length of the name of a tool or an agent, in bytes (OpenAgentSpec v1,
// Names & References).
const maxName = 253

// CheckName returns an error if the name is not an RFC 1123 DNS subdomain. Names of tools and
// agents must have this form (OpenAgentSpec v1, Names & References): at most 253 lowercase
// letters, digits, "-" and ".", with a letter or a digit at both ends.
func CheckName(name string) error {
	if name == "" {
		return errors.New("the name is empty")
	}
	if len(name) > maxName {
		return fmt.Errorf("the name has %d characters; the limit is %d", len(name), maxName)
	}
	for _, r := range name {
		if !isNameRune(r) && r != '-' && r != '.' {
			return fmt.Errorf("the name %.64q contains %q; only a-z, 0-9, '-' and '.' are allowed%s", name, r, suggestName(name))
		}
	}
	for label := range strings.SplitSeq(name, ".") {
		switch {
		case label == "":
			return fmt.Errorf("the name %.64q has an empty part; put at least one letter or digit before and after each '.'", name)
		case !isNameRune(rune(label[0])) || !isNameRune(rune(label[len(label)-1])):
			return fmt.Errorf("the name %.64q must start and end with a letter or digit, and so must each part between dots", name)
		}
	}
	return nil
}

func isNameRune(r rune) bool {
	return 'a' <= r && r <= 'z' || '0' <= r && r <= '9'
}

// suggestName returns a valid form of the name, or "" if there is no obvious one.
func suggestName(name string) string {
	var parts []string
	for part := range strings.SplitSeq(name, ".") {
		parts = append(parts, KebabName(part))
	}
	if right := strings.Join(parts, "."); CheckName(right) == nil {
		return "; write " + right
	}
	return ""
}

// KebabName converts the name of an OCP tool to its OpenAgentSpec name. getTrip and get_trip
// both become get-trip, so two tools can get the same name. It returns "" if the name has no
// ASCII letter or digit.
func KebabName(tool string) string {
	var kebab strings.Builder
	runes := []rune(tool)
	for i, r := range runes {
		lower := unicode.ToLower(r)
		if !isNameRune(lower) {
			if !endsInDash(&kebab) {
				kebab.WriteByte('-')
			}
			continue
		}
		if startsWord(runes, i) && !endsInDash(&kebab) {
			kebab.WriteByte('-')
		}
		kebab.WriteRune(lower)
	}
	return strings.TrimRight(kebab.String(), "-")
}

// endsInDash reports whether the text is empty or ends with a dash, so that no other dash may
// follow.
func endsInDash(kebab *strings.Builder) bool {
	text := kebab.String()
	return text == "" || text[len(text)-1] == '-'
}

// startsWord reports whether an uppercase letter begins a word: the T in getTrip and in
// HTTPTrip.
func startsWord(name []rune, i int) bool {
	if i == 0 || !unicode.IsUpper(name[i]) {
		return false
	}
	previous := name[i-1]
	return unicode.IsLower(previous) || unicode.IsDigit(previous) ||
		unicode.IsUpper(previous) && i+1 < len(name) && unicode.IsLower(name[i+1])
}
