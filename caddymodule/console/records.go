package console

import (
	"bytes"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/internal/respond"
)

// recordsPath returns the path of the endpoints of the n-th oagent handler of the site.
func (c *Handler) recordsPath(n int) string { return c.base + "/api/oagent/" + strconv.Itoa(n) }

// recordsRequest is a request for agents, Engagements or reviews. The endpoints of the site's oagent
// handlers have them.
type recordsRequest struct{ *request }

// asViewer returns the request for the endpoints of an oagent handler. Auditors of the console may
// see all Engagements.
func (q recordsRequest) asViewer() *http.Request {
	if q.viewer.Auditor {
		return q.r.WithContext(app.ContextWithAuditor(q.r.Context()))
	}
	return q.r
}

// serve serves the endpoints of an oagent handler to programs: oagent/{n}/…
func (q recordsRequest) serve() {
	guards := q.app.GuardsAt(q.site)
	if len(q.rest) > 2 {
		n, err := strconv.Atoi(q.rest[1])
		if err == nil && n >= 0 && n < len(guards) && q.rest[1] == strconv.Itoa(n) && guards[n].ServeRecords(q.recordsPath(n), q.w, q.asViewer()) {
			return
		}
	}
	q.fail(errNotFound)
}

// do requests a path of the endpoints of the n-th oagent handler, and decodes the response into to. If
// body is not nil, it is posted. Found is false if there is nothing there for the viewer.
func (q recordsRequest) do(n int, method, path string, body []byte, to any) (status int, err error) {
	r := q.asViewer().Clone(q.asViewer().Context())
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
	r.URL.Path, r.URL.RawQuery = q.recordsPath(n)+string(target), string(query)
	w := respond.NewRecorder(maxAnswer)
	if !q.app.GuardsAt(q.site)[n].ServeRecords(q.recordsPath(n), w, r) {
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
func (q recordsRequest) any(method, path string, body []byte, to any) (n int, err error) {
	for n = range q.app.GuardsAt(q.site) {
		var status int
		if status, err = q.do(n, method, path, body, to); status != http.StatusNotFound {
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
