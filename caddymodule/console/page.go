package console

import (
	"bytes"
	"embed"
	"encoding/hex"
	"errors"
	"hash/fnv"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/go-json-experiment/json"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/internal/respond"
)

//go:embed templates/*.html
var templateFiles embed.FS

//go:embed assets
var assetFiles embed.FS

// page is what a view shows.
type page struct {
	view     string // of the navigation
	template string // file in templates, without its extension
	part     string // template in that file that htmx gets, in place of the whole page; "" if it gets the page
	title    string
	model    any
	status   int    // 200 if 0
	redirect string // path to continue at, in place of a page; "" if there is none

	file func(http.ResponseWriter) // responds with a file, in place of a page; nil if there is none
}

// failure is the response to a request that has no page.
type failure struct {
	status        int
	title, detail string
}

// Error implements error.
func (f *failure) Error() string { return f.title }

var errNotFound = &failure{http.StatusNotFound, "Not found", "There is no such page, or you may not see what it shows."}

// layout is what the templates get.
type layout struct {
	Page   *page
	Title  string
	View   string
	Base   string // path of the console, without a trailing slash
	Home   string
	Viewer viewer
	Site   string
	Model  any

	records recordPages
}

// functions are what templates can call in addition to the standard functions.
var functions = template.FuncMap{
	"add":        func(a, b int) int { return a + b },
	"asset":      assetPath,
	"entryTitle": entryTitle,
	"entryClass": entryClass,
	"pretty":     pretty,
	"since":      func(at time.Time) string { return since(time.Since(at)) },
	"when":       when,
	"status":     statusTag,
	"lane": func(class string, at bar) any {
		return struct {
			Class string
			Bar   bar
		}{class, at}
	},
	"stamp":     func(at time.Time) string { return at.UTC().Format(time.RFC3339) },
	"thou":      func(n int) string { return humanize.Comma(int64(n)) },
	"plural":    plural,
	"query":     url.QueryEscape,
	"joined":    func(list []string) string { return strings.Join(list, ", ") },
	"ms":        milliseconds,
	"lower":     strings.ToLower,
	"outcome":   outcomeClass,
	"spark":     sparkline,
	"thou64":    humanize.Comma,
	"markdown":  renderMarkdown,
	"breakable": breakable,
	"middle":    middle,
	"ago":       ago,
	"pair":      func(a, b any) []any { return []any{a, b} },
	"sorted":    (*toolsModel).sortLink,
	"short":     func(id string) string { return id[:min(len(id), shortID)] },
}

// templates returns the parsed templates by name.
var templates = sync.OnceValue(func() map[string]*template.Template {
	files, err := templateFiles.ReadDir("templates")
	if err != nil {
		panic(err) // embedded
	}
	all := make(map[string]*template.Template, len(files))
	for _, file := range files {
		name := strings.TrimSuffix(file.Name(), ".html")
		all[name] = template.Must(template.New("layout.html").Funcs(functions).ParseFS(templateFiles, "templates/layout.html", "templates/parts.html", "templates/"+file.Name()))
	}
	return all
})

// pageWriter writes the response to a request.
type pageWriter struct {
	http.ResponseWriter
	site *siteOf
	in   *request
}

// write responds with a page, or with its model.
func (w *pageWriter) write(p *page) {
	status := p.status
	if status == 0 {
		status = http.StatusOK
	}
	switch {
	case p.file != nil:
		p.file(w.ResponseWriter)
	case w.in.api:
		body, err := json.Marshal(p.model, json.Deterministic(true))
		if err != nil {
			w.fail(err)
			return
		}
		w.send(status, "application/json", body)
	case p.redirect != "":
		w.Header().Set("Location", p.redirect)
		w.WriteHeader(http.StatusSeeOther)
	default:
		name := "layout.html"
		if p.part != "" && w.in.Header.Get("Hx-Request") == "true" {
			name = p.part
		}
		var body bytes.Buffer
		if err := templates()[p.template].ExecuteTemplate(&body, name, w.layout(p)); err != nil {
			w.site.logger.Error("a page of the console could not be written", zap.String("page", p.template), zap.Error(err))
			http.Error(w, "The page could not be written. The gateway's log has the reason.", http.StatusInternalServerError)
			return
		}
		w.send(status, "text/html; charset=utf-8", body.Bytes())
	}
}

func (w *pageWriter) layout(p *page) layout {
	return layout{
		Page: p, Title: p.title, View: p.view, Base: w.site.base, Home: w.site.home, Viewer: w.in.viewer, Site: w.in.Host, Model: p.model,
		records: recordPages{w.site, w.in},
	}
}

// Waiting returns the number of reviews that wait for the viewer.
func (l layout) Waiting() int {
	if l.View == viewLogin || l.Viewer.User == "" {
		return 0
	}
	return l.records.waiting()
}

// HasEvents reports whether there is a page of events for the viewer.
func (l layout) HasEvents() bool { return l.View != viewLogin && l.records.site.hasEvents(&l.Viewer) }

// send responds with a body, which it compresses if it may.
func (w *pageWriter) send(status int, mediaType string, body []byte) {
	w.Header().Add("Vary", "Accept-Encoding, Sec-Fetch-Site")
	if len(body) >= minCompressed && mayCompress(w.Header(), w.in) {
		body = compressed(body)
		w.Header().Set("Content-Encoding", encodingGzip)
	}
	w.writeBody(status, mediaType, body)
}

// writeBody responds with a body as it is.
func (w *pageWriter) writeBody(status int, mediaType string, body []byte) {
	header := w.Header()
	header.Set("Content-Type", mediaType)
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if w.in.Method != http.MethodHead {
		_, _ = w.Write(body) // the client may have disconnected
	}
}

// fail responds with an error.
func (w *pageWriter) fail(err error) {
	var f *failure
	if !errors.As(err, &f) {
		w.site.logger.Error("a page of the console failed", zap.String("path", w.in.URL.Path), zap.Error(err))
		f = &failure{http.StatusServiceUnavailable, "Not available now", "The data could not be read. Try again later; the gateway's log has the reason."}
	}
	if w.in.api || !showsPages(w.in.Request) {
		respond.WriteProblem(w, f.status, f.title, f.detail)
		return
	}
	shown := &page{template: "error", title: f.title, status: f.status, model: f.detail}
	if f.status == http.StatusUnauthorized {
		shown.view, shown.template = viewLogin, viewLogin // without what only users of the site may know
	}
	w.write(shown)
}

// viewLogin is the view without a viewer.
const viewLogin = "login"

// loginAssets are the files that the page of viewLogin needs.
var loginAssets = []string{"console.css", "icon.svg"}

// isLoginAsset reports whether clients get the file before they log in. Segments are those of its path below assets.
func isLoginAsset(segments []string) bool {
	return len(segments) == 1 && slices.Contains(loginAssets, segments[0])
}

// showsPages reports whether the client shows pages. Programs get errors as JSON.
func showsPages(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "text/html") || r.Header.Get("Hx-Request") == "true"
}

// assetPath returns the path of a file below the console, with a version that changes with its content.
func assetPath(base, name string) string {
	return base + "/assets/" + name + "?v=" + assets()[name].version
}

// digest returns a short digest of a content.
func digest(content []byte) string {
	sum := fnv.New64a()
	_, _ = sum.Write(content) // never fails
	return hex.EncodeToString(sum.Sum(nil))
}

// assetTypes are the media types of the files in assets.
var assetTypes = map[string]string{
	".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml", ".LICENSE": "text/plain; charset=utf-8",
}

// writeAsset responds with a file.
func (w *pageWriter) writeAsset(name string) {
	file, ok := assets()[name]
	if !ok || !w.in.isRead() {
		w.fail(errNotFound)
		return
	}
	if w.in.URL.Query().Get("v") == file.version {
		w.Header().Set("Cache-Control", "private, max-age=31536000, immutable")
	}
	w.Header().Add("Vary", "Accept-Encoding")
	body := file.content
	if acceptsGzip(w.Header(), w.in.Request) {
		body = file.gzipped
		w.Header().Set("Content-Encoding", encodingGzip)
	}
	w.writeBody(http.StatusOK, file.mediaType, body)
}

// shortID is how many characters of a trace id are shown.
const shortID = 8

// since returns how long something is ago as people say it. A negative duration is in the future.
func since(d time.Duration) string {
	if d < -2*time.Minute {
		d -= 30 * time.Second // what is planned in 7 days is not in 6 days a moment later
	}
	switch {
	case d <= -48*time.Hour:
		return "in " + strconv.Itoa(int(-d.Hours()/24)) + " days"
	case d <= -2*time.Hour:
		return "in " + strconv.Itoa(int(-d.Hours())) + " h"
	case d <= -2*time.Minute:
		return "in " + strconv.Itoa(int(-d.Minutes())) + " min"
	case d <= -time.Second:
		return "in " + strconv.Itoa(int(-d.Seconds())) + " s"
	case d < 2*time.Second:
		return "now"
	case d < 2*time.Minute:
		return strconv.Itoa(int(d.Seconds())) + " s ago"
	case d < 2*time.Hour:
		return strconv.Itoa(int(d.Minutes())) + " min ago"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d.Hours())) + " h ago"
	}
	return strconv.Itoa(int(d.Hours()/24)) + " days ago"
}

// ago returns a time as an element that console.js keeps current.
func ago(at time.Time) template.HTML {
	stamp := at.UTC().Format(time.RFC3339)
	return template.HTML(`<time datetime="` + stamp + `" title="` + stamp + `">` + since(time.Since(at)) + "</time>") //nolint:gosec // has no texts of others
}

// Long names are cut in the middle where there is no room for them, because they differ at their ends.
const (
	longName = 28 // characters
	nameTail = 12 // characters that are never cut
)

// middle returns a name in two parts, of which the first is cut if there is no room for the name.
func middle(name string) template.HTML {
	runes := []rune(name)
	if len(runes) < longName {
		return breakable(name)
	}
	head, tail := string(runes[:len(runes)-nameTail]), string(runes[len(runes)-nameTail:])
	return `<span class="middle"><span>` + breakable(head) + `</span><span>` + breakable(tail) + `</span></span>`
}

// breakable returns a name that browsers break into lines only after its separators.
func breakable(name string) template.HTML {
	escaped := template.HTMLEscapeString(name)
	for _, separator := range []string{"_", "/", "-"} {
		escaped = strings.ReplaceAll(escaped, separator, separator+"<wbr>")
	}
	return template.HTML(escaped) //nolint:gosec // escaped
}

// plural returns a number with a noun.
func plural(n int, noun string) string {
	if n != 1 {
		if cut, ok := strings.CutSuffix(noun, "y"); ok {
			noun = cut + "ie"
		}
		noun += "s"
	}
	return humanize.Comma(int64(n)) + " " + noun
}

// milliseconds returns a duration in milliseconds with two or three digits.
func milliseconds(ms float64) string {
	switch {
	case ms >= 1000:
		return strconv.FormatFloat(ms/1000, 'f', 1, 64) + " s"
	case ms >= 10:
		return strconv.FormatFloat(ms, 'f', 0, 64) + " ms"
	}
	return strconv.FormatFloat(ms, 'f', 1, 64) + " ms"
}

// outcomeClass returns the CSS class of an outcome.
func outcomeClass(outcome string) string {
	switch outcome {
	case "ok", "replayed", "approved":
		return "good"
	case "input_required", "canceled", "pending", "redirected":
		return "warn"
	}
	return "bad"
}

// when is ago for a time that may be zero.
func when(at time.Time) template.HTML {
	if at.IsZero() {
		return ""
	}
	return ago(at)
}

// statusTag returns the status of an Engagement with its explanation.
func statusTag(status string) template.HTML {
	return template.HTML(`<span class="tag ` + statusClass(status) + `" title="` + statusWords[status] + `">` + template.HTMLEscapeString(status) + `</span>`) //nolint:gosec // escaped
}
