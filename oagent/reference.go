package oagent

import (
	"errors"
	"fmt"
	"strings"

	"github.com/fairwayhq/fairway/oagent/review"
	"github.com/fairwayhq/fairway/ocp/tool"
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
	Toolset string     // name of the tool's toolset; "" for an agent
	Tool    *tool.Tool // nil for an agent
	Remote  bool       // an agent of another server
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
	return Target{}, fmt.Errorf("unknown tool or agent %s%s", r.Name, suggest(r.Name, names.All()))
}

func checkRemote(names Names, r Reference) error {
	if remote, ok := names.(RemoteNames); ok {
		return remote.CheckRemote(r)
	}
	return fmt.Errorf("%s is an agent of another server, and this server calls none; refer to an agent of this server by %s%s", r, Scheme, r.Name)
}
