package openapi

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// serve reads the servers of the operation or its path, if they have their own.
func (r *operationReader) serve(item Place) {
	if r.File.Version == Swagger20 {
		return
	}
	servers := r.At("servers")
	if len(servers.Items()) == 0 {
		servers = item.At("servers")
	}
	if len(servers.Items()) == 0 {
		return
	}
	path, err := r.document.firstBasePath(servers)
	if err != nil {
		r.warn("%v", err)
	}
	r.BasePath = path
	own, usual := r.document.firstHost(servers), r.document.firstHost(r.document.root.At("servers"))
	if own != "" && usual != "" && own != usual {
		r.warn("its server is at %s and that of the document at %s: requests go where the site sends those of the toolset", own, usual)
	}
}

// firstHost returns the host of the first server of a list, or "" if the list does not say it.
func (d *Document) firstHost(servers Place) string {
	server, err := firstServer(servers)
	if err != nil {
		return ""
	}
	if base, err := url.Parse(d.location); err == nil && !isPath(d.location) {
		server = base.ResolveReference(server)
	}
	return strings.ToLower(server.Host)
}

// firstBasePath returns the path of the first server of a list, escaped and without a trailing slash, or
// "" for the root. A relative URL is resolved against the document's location.
func (d *Document) firstBasePath(servers Place) (string, error) {
	if len(servers.Items()) == 0 {
		return "", nil
	}
	server, err := firstServer(servers)
	if err != nil {
		return "", fmt.Errorf("%w: its base path is ignored", err)
	}
	base, err := url.Parse(d.location)
	if err != nil || !base.IsAbs() || base.Opaque != "" || isPath(d.location) {
		base = &url.URL{Scheme: "http", Host: "server", Path: "/"}
	}
	server = base.ResolveReference(server)
	if server.Opaque != "" {
		return "", fmt.Errorf("server %q: a %s URL has no path: its base path is ignored", server, server.Scheme)
	}
	return strings.TrimRight(server.EscapedPath(), "/"), nil
}

// firstServer returns the URL of the first server of a list, with the defaults of its variables. It may be relative.
func firstServer(servers Place) (*url.URL, error) {
	if len(servers.Items()) == 0 {
		return &url.URL{}, nil
	}
	server := servers.Item(servers.Items()[0])
	address := server.Node
	if address.Kind() == '{' {
		address = address.Get("url")
	}
	if len(address.Raw()) > maxPath {
		return nil, fmt.Errorf("the URL of a server has more than %d bytes", maxPath)
	}
	source, err := substitute(strings.TrimSpace(address.Text()), server.Get("variables"))
	if err != nil {
		return nil, fmt.Errorf("server %q: %w", address.Text(), err)
	}
	parsed, err := url.Parse(source)
	if err != nil {
		return nil, fmt.Errorf("server %q: %w", address.Text(), err)
	}
	return parsed, nil
}

// substitute replaces the variables in a server URL by their defaults.
func substitute(source string, variables *Node) (string, error) {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(source, "{")
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		name, after, closed := strings.Cut(rest, "}")
		if !closed {
			return "", errors.New("a brace is not closed")
		}
		value := variables.Get(name).Get("default")
		if allowed := variables.Get(name).Get("enum").Items(); value == nil && len(allowed) > 0 {
			value = allowed[0]
		}
		if value == nil {
			return "", fmt.Errorf("the variable %q has no default", name)
		}
		if out.Len()+len(value.Raw()) > maxPath {
			return "", fmt.Errorf("with its variables it has more than %d bytes", maxPath)
		}
		out.WriteString(plainText(value))
		source = after
	}
}

// swaggerBasePath returns the basePath of a Swagger 2.0 document.
func (d *Document) swaggerBasePath() (string, error) {
	source := plainText(d.root.Get("basePath"))
	if strings.Trim(source, "/") == "" {
		return "", nil
	}
	base, err := url.Parse("/" + strings.Trim(source, "/"))
	if err != nil {
		return "", fmt.Errorf("basePath %q: %w: it is ignored", source, err)
	}
	return base.EscapedPath(), nil
}
