package console

import (
	"bytes"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	guard "github.com/fairwayhq/fairway/caddymodule/oagent"
	"github.com/fairwayhq/fairway/internal/respond"
)

// recordPages are the pages of agents, Engagements and reviews. The endpoints of the site's oagent handlers have them.
type recordPages struct {
	site *siteOf
	in   *request
}

// path returns the path of the endpoints of the n-th oagent handler of the site.
func (p *recordPages) path(n int) string { return p.site.base + "/api/oagent/" + strconv.Itoa(n) }

// asViewer returns the request for the endpoints of an oagent handler. Auditors of the console may
// see all Engagements.
func (p *recordPages) asViewer() *http.Request {
	if p.in.viewer.Auditor {
		return p.in.WithContext(guard.ContextWithAuditor(p.in.Context()))
	}
	return p.in.Request
}

// serve serves the endpoints of an oagent handler to programs: oagent/{n}/… It reports whether there is something.
func (p *recordPages) serve(w http.ResponseWriter) bool {
	guards := p.site.guards()
	if len(p.in.rest) <= 2 {
		return false
	}
	n, err := strconv.Atoi(p.in.rest[1])
	return err == nil && n >= 0 && n < len(guards) && p.in.rest[1] == strconv.Itoa(n) && guards[n].ServeRecords(p.path(n), w, p.asViewer())
}

// do requests a path of the endpoints of the n-th oagent handler, and decodes the response into to. If
// body is not nil, it is posted. Found is false if there is nothing there for the viewer.
func (p *recordPages) do(n int, method, path string, body []byte, to any) (status int, err error) {
	r := p.asViewer().Clone(p.asViewer().Context())
	r.Method, r.Body, r.ContentLength = method, http.NoBody, 0
	r.Header.Del("Content-Type")
	if body != nil {
		r.Body, r.ContentLength = readCloser{bytes.NewReader(body)}, int64(len(body))
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Del("Accept") // no stream of events
	r.Header.Del("Prefer")
	r.URL.RawPath, r.URL.RawQuery = "", ""
	target, query, _ := bytes.Cut([]byte(path), []byte("?"))
	r.URL.Path, r.URL.RawQuery = p.path(n)+string(target), string(query)
	w := respond.NewRecorder(maxAnswer)
	if !p.site.guards()[n].ServeRecords(p.path(n), w, r) {
		return http.StatusNotFound, errNotFound
	}
	if w.Status >= http.StatusBadRequest {
		var p struct {
			Title  string `json:"title"`
			Detail string `json:"detail"`
		}
		if json.Unmarshal(w.Body.B, &p) != nil || p.Title == "" {
			p.Title = http.StatusText(w.Status)
		}
		return w.Status, &failure{w.Status, p.Title, p.Detail}
	}
	if to != nil && len(w.Body.B) > 0 {
		err = json.Unmarshal(w.Body.B, to)
	}
	return w.Status, err
}

// any is do for the first oagent handler that has the path.
func (p *recordPages) any(method, path string, body []byte, to any) (n int, err error) {
	for n = range p.site.guards() {
		var status int
		if status, err = p.do(n, method, path, body, to); status != http.StatusNotFound {
			return n, err
		}
	}
	return n, errNotFound
}

type readCloser struct{ *bytes.Reader }

// Close implements io.Closer.
func (readCloser) Close() error { return nil }

// raw is JSON that templates show.
type raw = jsontext.Value
