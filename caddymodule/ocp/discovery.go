package ocp

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/internal/respond"
	"github.com/fairwayhq/fairway/ocp/advertise"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/loader"
)

// The forms of a document. Each is the extension of a path.
const (
	formJSON       = ".json"
	formYAML       = ".yaml"
	formNegotiated = "*" // the form that the client prefers
)

// discovery serves the document of the handler's toolset with the flags that apply to this
// site. The document is encoded once each time it is loaded.
type discovery struct {
	handler        *Handler
	stem           string // the path without an extension
	configuredForm string // the form given by the configured path's extension, or formNegotiated

	mu      sync.Mutex // held while a document is encoded
	current atomic.Pointer[encodedForms]
}

// encodedForms is a document in the forms in which it is served.
type encodedForms struct {
	source *loader.Document
	json   respond.Prepared
	yaml   respond.Prepared
	err    error // why it cannot be served
}

// newDiscovery returns the discovery of the handler and makes the toolset keep its document.
func newDiscovery(ctx caddy.Context, h *Handler) (*discovery, error) {
	if h.toolset == nil {
		return nil, errors.New("discovery needs a toolset, whose document is served")
	}
	if err := checkDiscoveryPath(h.Discovery); err != nil {
		return nil, fmt.Errorf("discovery %q: %w", h.Discovery, err)
	}
	d := &discovery{handler: h, stem: h.Discovery, configuredForm: formNegotiated}
	for _, ending := range []string{formJSON, formYAML, ".yml"} {
		if stem, ok := strings.CutSuffix(h.Discovery, ending); ok {
			d.stem, d.configuredForm = stem, formOfExtension(ending)
		}
	}
	h.toolset.Loader.KeepDocument()
	if err := h.toolset.LoadFile(ctx); err != nil {
		return nil, err
	}
	return d, nil
}

// formOfExtension returns the form for an extension. It returns "" for other extensions.
func formOfExtension(ending string) string {
	switch ending {
	case formJSON:
		return formJSON
	case formYAML, ".yml":
		return formYAML
	}
	return ""
}

// requestedForm returns the form in which a request asks for the document. It returns "" for other
// requests.
func (d *discovery) requestedForm(r *http.Request) (form string) {
	ending, ok := strings.CutPrefix(r.URL.Path, d.stem)
	if !ok || r.Method != http.MethodGet && r.Method != http.MethodHead || tools.CallFromContext(r.Context()) != nil {
		return ""
	}
	if r.URL.Path == d.handler.Discovery {
		return d.configuredForm
	}
	return formOfExtension(ending)
}

// serve responds with the document. Until the document is loaded, the status is 503, as for its
// tools. If the document cannot be served, the request is passed on.
func (d *discovery) serve(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler, form string) error {
	route.CurrentTools(d.handler.toolset, r, next) // loads a document of the site
	loaded := d.handler.toolset.Loader.Document()
	if loaded == nil {
		return route.WriteUnavailable(w, d.handler.toolset.Key.ShownName(), d.handler.toolset.Loader.RetryAfter())
	}
	document := d.encodedDocument(loaded)
	if document.err != nil {
		return next.ServeHTTP(w, r)
	}
	header := w.Header()
	if form == formNegotiated {
		header["Vary"] = append(slices.Clip(header["Vary"]), "Accept")
		form = preferredForm(r.Header["Accept"])
	}
	document.form(form).Serve(w, r)
	return nil
}

// encodedDocument returns the encoded document.
func (d *discovery) encodedDocument(loaded *loader.Document) *encodedForms {
	if made := d.current.Load(); made != nil && made.source == loaded {
		return made
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if made := d.current.Load(); made != nil && made.source == loaded {
		return made
	}
	made := d.encode(loaded)
	d.current.Store(made)
	if made.err != nil {
		d.handler.logger.Error("encoding the document with OCP flags failed; requests for it are passed on",
			zap.String("path", d.handler.Discovery), zap.Error(made.err))
	}
	return made
}

// encode encodes a loaded document.
func (d *discovery) encode(loaded *loader.Document) *encodedForms {
	h := d.handler
	site := advertise.Site{
		Toolset:  loaded.Toolset,
		Forwards: h.Forward != forwardStrip,
		Replies:  !h.NoReply,
		Requires: h.Require,
		BasePath: basePath(loaded.Toolset),
	}
	if h.enhancer != nil {
		site.Enhancer = h.enhancer.Enhancer
	}
	key := h.toolset.Key
	options := advertise.Options{Location: loaded.Location, Refs: key.Refs, MaxDocument: key.MaxDocument}
	asJSON, asYAML, err := advertise.Document(loaded.Data, options, site)
	if err != nil {
		return &encodedForms{source: loaded, err: err}
	}
	return &encodedForms{
		source: loaded,
		json:   respond.Prepare(asJSON, "application/json"),
		yaml:   respond.Prepare(asYAML, "application/yaml"),
	}
}

// basePath returns the path of the site below which the API is served.
func basePath(toolset *tools.Toolset) string {
	if list := toolset.Tools(); len(list) > 0 && list[0].Plan.Base != "" {
		return list[0].Plan.Base
	}
	return "/"
}

// form returns the document in the given form.
func (a *encodedForms) form(form string) *respond.Prepared {
	if form == formYAML {
		return &a.yaml
	}
	return &a.json
}

// preferredForm returns the form that is first in an Accept header. Without a preference it is
// JSON.
func preferredForm(accept []string) string {
	for item := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		mediaType, _, _ := strings.Cut(item, ";")
		switch strings.ToLower(strings.TrimSpace(mediaType)) {
		case "application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml", "application/vnd.oai.openapi":
			return formYAML
		case "application/json", "application/vnd.oai.openapi+json", "application/*", "*/*":
			return formJSON
		}
	}
	return formJSON
}
