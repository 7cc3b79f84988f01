package oagent

import (
	"errors"
	"fmt"
	"strings"

	"github.com/fairwayhq/fairway/ocp"
)

// Scheme begins a reference that is to an agent, never to a tool.
const Scheme = "oagent://"

// A Reference names a tool or an agent (OpenAgentSpec v1, Names & References).
type Reference struct {
	Name  string // RFC 1123 DNS subdomain
	Agent bool   // written oagent://…, so that it is never a tool

	// Host and Path are of oagent://host/path/name, an agent of another server.
	// Host is "" if the reference is not remote.
	Host, Path string
}

// maxReference is the longest reference, in bytes.
const maxReference = 2048

// ParseReference reads a reference of any of the three forms: name,
// oagent://name, or oagent://host[/path]/name.
func ParseReference(text string) (Reference, error) {
	if len(text) > maxReference {
		return Reference{}, fmt.Errorf("the reference has %d characters; %d is the most", len(text), maxReference)
	}
	rest, isAgent := strings.CutPrefix(text, Scheme)
	if !isAgent {
		if scheme, _, ok := strings.Cut(text, "://"); ok {
			return Reference{}, fmt.Errorf("%.64q: a reference is a name or begins with %s, not with %s://", text, Scheme, scheme)
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

// checkHost checks a host name with or without a port.
func checkHost(host string) error {
	name, port, hasPort := strings.Cut(host, ":")
	if hasPort && (port == "" || len(port) > len("65535") || strings.Trim(port, "0123456789") != "") {
		return errors.New("the port is no number")
	}
	if err := CheckName(name); err != nil {
		return fmt.Errorf("the host name is none: %w", err)
	}
	return nil
}

// checkPath checks what stands between host and name, "" if nothing.
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
				return fmt.Errorf("the path has %q in it", c)
			}
		}
	}
	return nil
}

// IsRemote reports whether the reference is to an agent of another server.
func (r Reference) IsRemote() bool {
	return r.Host != ""
}

// String returns the reference as a document writes it.
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

// A Target is what a Reference refers to: a tool, or an agent of this server.
type Target struct {
	Toolset string    // the name of the tool's toolset; "" for an agent
	Tool    *ocp.Tool // nil for an agent
}

// Resolve returns what the reference refers to. A name that is both a tool's and
// an agent's is the tool's, unless the reference begins with oagent://. Agents
// of other servers are not invoked, and so not found.
func (r Reference) Resolve(names Names) (Target, error) {
	if r.IsRemote() {
		return Target{}, fmt.Errorf("%s is an agent of another server, which is not supported: refer to an agent of this one by %s%s", r, Scheme, r.Name)
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
			return Target{}, fmt.Errorf("there is no agent %s, but a tool: write %s", r.Name, r.Name)
		}
		return Target{}, fmt.Errorf("there is no agent %s%s", r.Name, suggest(r.Name, names.All()))
	}
	return Target{}, fmt.Errorf("there is no tool or agent %s%s", r.Name, suggest(r.Name, names.All()))
}
