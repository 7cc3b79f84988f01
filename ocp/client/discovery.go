package client

import (
	"context"
	"fmt"
	"net/url"
	"sync"
	"time"

	"github.com/fairwayhq/fairway/ocp"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/loader"
	"github.com/fairwayhq/fairway/tools/source"
)

// maxDiscovered is the largest number of documents whose tools a Discovery keeps.
const maxDiscovered = 64

// A Discovery finds the tools of APIs by the addresses of their documents (OCP 1.0, Schema
// Discovery) and caches them. When a document is older than Refresh, it is fetched again
// with a conditional request (ETag, Last-Modified). If the fetch fails, the tools stay as
// they are. The zero value is ready for use and safe for concurrent use.
//
// Addresses must be http or https URLs: an address may come from another party's context,
// which must not make a Discovery read a file. Build and Loader read documents from files.
type Discovery struct {
	// Context is the agent's context. The address of each discovered API is added to its
	// api_specs under the API's name. nil disables this.
	Context *ocp.SharedContext

	// Refresh is how long a fetched document is current. 0 means DefaultRefresh; a
	// negative value means forever.
	Refresh time.Duration

	// Options configure how the tools are built. Name, Location and ResponseSchemas are set for each
	// document.
	Options tools.BuildOptions

	mu      sync.Mutex
	entries map[string]*loader.Loader
	order   []string // addresses, least recently used first
}

// Tools returns the tools of the document at address, an http or https URL. Name becomes
// the name of the Toolset.
func (d *Discovery) Tools(ctx context.Context, name, address string) (*tools.Toolset, error) {
	documents, err := d.loader(name, address)
	if err != nil {
		return nil, err
	}
	if toolset := documents.Toolset(); toolset != nil && !documents.Due() {
		d.specify(name, address)
		return toolset, nil
	}
	if err := documents.Load(ctx); err != nil && documents.Toolset() == nil {
		return nil, fmt.Errorf("discovering the tools of %s: %w", name, err)
	}
	d.specify(name, address)
	return documents.Toolset(), nil
}

// specify adds the document's address to the context unless it is there already. It skips
// names that are invalid in api_specs and addresses that contain a password.
func (d *Discovery) specify(name, address string) {
	known := d.Context.Context()
	if known == nil || known.APISpecs[name] == address || !ocp.ValidAPISpec(name, address) {
		return
	}
	if u, err := url.Parse(address); err != nil || u.User != nil {
		return
	}
	d.Context.Change(func(c *ocp.Context) { c.AddAPISpec(name, address) })
}

// Forget removes the document at address from the cache.
func (d *Discovery) Forget(name, address string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drop(discoveryKey(name, address))
}

func discoveryKey(name, address string) string {
	return name + "\x00" + address
}

// loader returns the Loader of a document. It makes one for a new document.
func (d *Discovery) loader(name, address string) (*loader.Loader, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := discoveryKey(name, address)
	documents, known := d.entries[key]
	if !known {
		origin, err := sourceOf(address, int64(d.Options.MaxDocument))
		if err != nil {
			return nil, err
		}
		documents = loader.New(loader.Options{Source: origin, Build: d.build(name), Refresh: d.Refresh})
		if d.entries == nil {
			d.entries = make(map[string]*loader.Loader)
		}
		if len(d.order) == maxDiscovered {
			d.drop(d.order[0])
		}
	} else {
		d.drop(key)
	}
	d.entries[key] = documents
	d.order = append(d.order, key)
	return documents, nil
}

func (d *Discovery) drop(key string) {
	delete(d.entries, key)
	for i, k := range d.order {
		if k == key {
			d.order = append(d.order[:i], d.order[i+1:]...)
			return
		}
	}
}

func (d *Discovery) build(name string) loader.BuildFunc {
	options := d.Options
	return func(_ context.Context, data []byte, location string, _ *tools.Toolset) (*tools.Toolset, []string, error) {
		options := options
		options.Name, options.Location, options.ResponseSchemas = name, location, true
		toolset, err := tools.Build(data, options)
		if err != nil {
			return nil, nil, err
		}
		return toolset, toolset.Report.Files, nil
	}
}

func sourceOf(address string, limit int64) (source.Source, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, fmt.Errorf("documents are discovered only at http and https URLs, not at %.200q", address)
	}
	return source.NewURL(address, source.URLOptions{MaxSize: limit})
}
