package openapi

import "net/url"

// Origin returns the scheme and host of the document's first server, or "" if it has
// none. A relative server URL is on the host that the document came from.
func (d *Document) Origin() string {
	base, err := url.Parse(d.Location())
	if err != nil || base.Scheme != "http" && base.Scheme != "https" {
		base = &url.URL{}
	}
	server, err := d.serverURL()
	if err != nil {
		return ""
	}
	server = base.ResolveReference(server)
	if server.Scheme != "http" && server.Scheme != "https" || server.Host == "" {
		return ""
	}
	return server.Scheme + "://" + server.Host
}

// serverURL returns the URL of the first server. For Swagger 2.0 it has the document's scheme and host.
func (d *Document) serverURL() (*url.URL, error) {
	host := d.root.Get("host").Text()
	if host == "" || d.root.File.Version != Swagger20 {
		return firstServer(d.root.At("servers"))
	}
	if schemes := d.root.Get("schemes").Items(); len(schemes) > 0 && schemes[0].Text() == "http" {
		return url.Parse("http://" + host)
	}
	return url.Parse("https://" + host)
}
