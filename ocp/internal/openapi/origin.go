package openapi

import (
	"net/url"
	"strings"
)

// Origin returns the scheme and host of the document's first server, or "" if it has
// none. A relative server URL is on the host that the document came from.
func (d *Document) Origin() string {
	base, err := url.Parse(d.Location())
	if err != nil || base.Scheme != "http" && base.Scheme != "https" {
		base = &url.URL{}
	}
	server, err := url.Parse(d.serverAddress())
	if err != nil {
		return ""
	}
	server = base.ResolveReference(server)
	if server.Scheme != "http" && server.Scheme != "https" || server.Host == "" {
		return ""
	}
	return server.Scheme + "://" + server.Host
}

// serverAddress returns the URL of the first server, with the defaults of its variables.
// For Swagger 2.0 it builds the URL from the document's scheme and host.
func (d *Document) serverAddress() string {
	root := d.Root()
	if host := root.Get("host").Text(); host != "" && strings.HasPrefix(d.OpenAPI, "2") {
		if schemes := root.Get("schemes").Items(); len(schemes) > 0 && schemes[0].Text() == "http" {
			return "http://" + host
		}
		return "https://" + host
	}
	servers := root.Get("servers").Items()
	if len(servers) == 0 {
		return ""
	}
	address := servers[0].Get("url").Text()
	if len(address) > maxServerAddress {
		return ""
	}
	for _, variable := range servers[0].Get("variables").Members() {
		value := variable.Value.Get("default").Text()
		if len(value) <= maxServerAddress {
			address = strings.ReplaceAll(address, "{"+variable.Name+"}", value)
		}
		if len(address) > maxServerAddress {
			return ""
		}
	}
	return address
}

// maxServerAddress is the maximum length of a server's URL, in bytes.
const maxServerAddress = 2 << 10
