package console

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/internal/respond"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/result"
)

const (
	maxAnswer = 4 << 20 // bytes of a response of the site to a request of the console
	maxShown  = 1 << 20 // bytes of an answer that a page shows
)

// answerModel is the answer to a tool call, as a model reads it.
type answerModel struct {
	Outcome  string  `json:"outcome"`
	Status   int     `json:"status,omitzero"` // of the API
	Took     float64 `json:"duration_ms"`
	Tokens   int     `json:"tokens"`
	Text     string  `json:"text"`
	IsError  bool    `json:"is_error,omitzero"`
	Cut      bool    `json:"cut,omitzero"` // the text is longer
	HTTP     int     `json:"http_status"`  // of the endpoint
	Trace    string  `json:"trace,omitzero"`
	Protocol string  `json:"protocol"`
	Hint     string  `json:"hint,omitzero"` // how the operator makes the call work

	Shaped *shapedModel `json:"shaped,omitzero"` // nil unless the viewer tries a shape

	shape *shape
	in    *http.Request
}

// call calls the tool as the viewer. It sends the request of a client to the endpoint, through all handlers of
// the server, with the headers of the viewer's request. So the call has the viewer's rights and no others. The outcome
// is the one that the endpoint's Caller returns. The response is read only if there was no such call.
func (p *toolPage) call(arguments []byte, tried *shape) *answerModel {
	m := &answerModel{Protocol: p.endpoint.Protocol, shape: tried, in: p.in.Request}
	began := time.Now()
	path, body := p.endpoint.Message(p.toolset, p.tool.Name, arguments)
	ctx := route.ContextWithCallListener(p.in.Context(), m.read)
	response := p.site.ask(p.in.WithContext(ctx), http.MethodPost, p.endpoint.Path+path, body)
	m.HTTP = response.Status
	if m.Took == 0 {
		m.Took = float64(time.Since(began)) / float64(time.Millisecond)
	}
	if m.Outcome == "" {
		m.Outcome = tools.OutcomeOfStatus(max(response.Status, http.StatusBadRequest))
	}
	if m.Text == "" {
		m.Text, m.IsError = refusedText(response), true
	}
	if m.HTTP == http.StatusUnauthorized || m.Status == http.StatusUnauthorized {
		m.Hint = credentialsHint
	}
	m.Tokens = len(m.Text) / result.BytesPerToken
	m.Text, m.Cut = shownText(m.Text), len(m.Text) > maxShown
	return m
}

// shownText returns what a page shows of a text.
func shownText(answer string) string {
	return strings.ToValidUTF8(answer[:min(len(answer), maxShown)], "\uFFFD")
}

// credentialsHint says how to make a call work that was rejected for lack of credentials.
const credentialsHint = "The console sends the credentials of your own request to this page, and none were accepted. " +
	"If agent_auth before the console removes them, set pass_token (access tokens) or pass_through (API keys) there. " +
	"Otherwise log in to the console with what the endpoint and the API accept."

// read takes what an answer shows of a call that has ended.
func (m *answerModel) read(c route.EndedCall) {
	m.Outcome, m.Trace = c.Name, c.Trace
	if c.Outcome == nil {
		return
	}
	m.Took, m.IsError = float64(c.Outcome.Duration)/float64(time.Millisecond), c.Outcome.Failure != nil
	var parts []string
	if m.IsError {
		parts = append(parts, c.Outcome.Failure.Message)
	}
	if r := c.Outcome.Result; r != nil {
		m.Status = r.Status
		if !m.IsError && !m.shape.isEmpty() {
			m.Shaped = m.shape.apply(m.in, r.Body, httpheader.IsJSON(r.MediaType()))
		}
		parts = append(parts, resultText(r, m.IsError), r.Note)
	}
	m.Text = strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), "\n")
}

// resultText returns the text of a result, as a model reads it. Other data are described. The page of an error is
// left out, because it is for browsers.
func resultText(r *tools.Result, isError bool) string {
	switch media := r.MediaType(); {
	case isError && (len(r.Body) == 0 || media == "text/html"):
		return ""
	case len(r.Body) == 0:
		return text.StatusLine(r.Status)
	case httpheader.IsJSON(media), httpheader.IsText(media), media == "" && utf8.Valid(r.Body):
		return string(r.Body)
	default:
		return fmt.Sprintf("[%s, %d bytes]", media, len(r.Body))
	}
}

// ask sends a request of a viewer to the site, in this process. It has the headers and the context of the viewer's own request.
func (s *siteOf) ask(viewer *http.Request, method, target string, body []byte) *respond.Recorder {
	w := respond.NewRecorder(maxAnswer)
	if s.server == nil {
		w.Status = http.StatusServiceUnavailable
		return w
	}
	if !strings.HasPrefix(target, "/") {
		target = "/" + target
	}
	r, err := http.NewRequestWithContext(viewer.Context(), method, target, bytes.NewReader(body))
	if err != nil {
		w.Status = http.StatusBadRequest
		return w
	}
	connection := httpheader.ConnectionOptions(viewer.Header)
	for name, values := range viewer.Header {
		if httpheader.Forwarded(name, connection) && !strings.HasPrefix(name, "Sec-") && !strings.HasPrefix(name, "Hx-") {
			r.Header[name] = append([]string(nil), values...)
		}
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
	}
	r.Host, r.RemoteAddr, r.TLS = viewer.Host, viewer.RemoteAddr, viewer.TLS
	r.Proto, r.ProtoMajor, r.ProtoMinor, r.RequestURI = viewer.Proto, viewer.ProtoMajor, viewer.ProtoMinor, target
	r.URL.Scheme, r.URL.Host = "", ""
	defer func() {
		if value := recover(); value != nil {
			w.Status = http.StatusInternalServerError
			if value != http.ErrAbortHandler {
				s.logger.Error("a handler panicked in a request of the console", zap.String("panic", fmt.Sprint(value)))
			}
		}
	}()
	s.server.ServeHTTP(w, r)
	return w
}

// refusedText describes the response to a request that did not get to the Caller, such as one of a handler before the
// endpoint.
func refusedText(w *respond.Recorder) string {
	const most = 4 << 10 // bytes
	body := strings.TrimSpace(string(w.Body.B))
	refusal := "The site responded with " + text.StatusLine(w.Status) + "."
	if body != "" {
		refusal += "\n" + body[:min(len(body), most)]
	}
	return refusal
}
