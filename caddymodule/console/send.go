package console

import (
	"bytes"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app/calllog"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/internal/respond"
	"github.com/fairwayhq/fairway/internal/sse"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/result"
)

const (
	maxAnswer = 4 << 20 // bytes of a response of the site to a request of the console
	maxShown  = 1 << 20 // bytes of an answer that a page shows

	// mcpVersion is the revision of MCP that the console speaks.
	mcpVersion = "2025-11-25"
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

	id string // of the tool at an OTC endpoint
}

// call calls a tool of the endpoint as the viewer: it sends an ordinary request of a client to the
// endpoint, through all handlers of the server, with the headers of the viewer's request. So it has the
// viewer's rights and no others.
func (q toolRequest) call(e siteEndpoint, t *tools.Tool, arguments []byte) *answerModel {
	m := &answerModel{Protocol: e.Protocol}
	began := time.Now()
	path, body := e.Path, mcpMessage(t.Name, arguments)
	if path == "" {
		path = "/"
	}
	if e.Protocol == "otc" {
		id, found := q.otcID(e, t)
		if !found {
			m.Outcome, m.Text, m.IsError = "unreachable", "The endpoint does not list this tool for you.", true
			return m
		}
		m.id, path, body = id, e.Path+"/call", otcMessage(id, arguments)
	}
	response := q.ask(http.MethodPost, path, body, func(c calllog.Call) {
		m.Outcome, m.Status, m.Took, m.Trace = c.Outcome, c.Status, c.Took, c.Trace
	})
	if m.Took == 0 {
		m.Took = float64(time.Since(began)) / float64(time.Millisecond)
	}
	m.HTTP = response.Status
	if e.Protocol == "otc" {
		m.Text, m.IsError = otcText(response)
	} else {
		m.Text, m.IsError = mcpText(response)
	}
	if m.Outcome == "" {
		if m.Outcome = tools.OutcomeOK; m.IsError {
			m.Outcome = tools.OutcomeOfStatus(max(response.Status, http.StatusBadRequest))
		}
	}
	if m.HTTP == http.StatusUnauthorized || m.Status == http.StatusUnauthorized {
		m.Hint = credentialsHint
	}
	m.Tokens = len(m.Text) / result.BytesPerToken
	if len(m.Text) > maxShown {
		m.Text, m.Cut = m.Text[:maxShown], true
	}
	m.Text = strings.ToValidUTF8(m.Text, "\uFFFD")
	return m
}

// credentialsHint says how to make a call work that was rejected for lack of credentials.
const credentialsHint = "The console sends the credentials of your own request to this page, and none were accepted. " +
	"If agent_auth before the console removes them, set pass_token (access tokens) or pass_through (API keys) there. " +
	"Otherwise log in to the console with what the endpoint and the API accept."

// mcpMessage returns the message that calls a tool.
func mcpMessage(name string, arguments []byte) []byte {
	message := append([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":`), strictjson.AppendString(nil, name)...)
	message = append(append(message, `,"arguments":`...), arguments...)
	return append(message, "}}"...)
}

// otcMessage returns the request that calls a tool over OTC.
func otcMessage(id string, arguments []byte) []byte {
	message := append([]byte(`{"request":{"tool_id":`), strictjson.AppendString(nil, id)...)
	message = append(append(message, `,"input":`...), arguments...)
	return append(message, "}}"...)
}

// otcID returns the id of a tool at an OTC endpoint.
func (q toolRequest) otcID(e siteEndpoint, t *tools.Tool) (id string, found bool) {
	const most = 100 // tools that the endpoint finds at once
	response := q.ask(http.MethodGet, e.Path+"/tools?limit="+strconv.Itoa(most)+"&query="+url.QueryEscape(strings.ReplaceAll(t.Name, "_", " ")), nil, nil)
	var list struct {
		Tools []struct {
			ID   string `json:"id"`
			Name string `json:"name"`
		} `json:"tools"`
	}
	if json.Unmarshal(response.Body.B, &list) != nil {
		return "", false
	}
	for _, listed := range list.Tools {
		id, _, _ := strings.Cut(listed.ID, "@")
		if _, name, ok := strings.Cut(id, "."); ok && name == t.Name {
			return listed.ID, true
		}
	}
	return "", false
}

// ask sends a request of the viewer to the site, in this process. Ended is called with each tool
// call of the request; it may be nil.
func (q *request) ask(method, target string, body []byte, ended func(calllog.Call)) *respond.Recorder {
	w := respond.NewRecorder(maxAnswer)
	if q.server == nil {
		w.Status = http.StatusServiceUnavailable
		return w
	}
	ctx := q.r.Context()
	if ended != nil {
		ctx = route.ContextWithCallListener(ctx, ended)
	}
	r, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		w.Status = http.StatusBadRequest
		return w
	}
	connection := httpheader.ConnectionOptions(q.r.Header)
	for name, values := range q.r.Header {
		if httpheader.Forwarded(name, connection) && !strings.HasPrefix(name, "Sec-") && !strings.HasPrefix(name, "Hx-") {
			r.Header[name] = append([]string(nil), values...)
		}
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Mcp-Protocol-Version", mcpVersion)
	}
	r.Host, r.RemoteAddr, r.TLS = q.r.Host, q.r.RemoteAddr, q.r.TLS
	r.Proto, r.ProtoMajor, r.ProtoMinor, r.RequestURI = q.r.Proto, q.r.ProtoMajor, q.r.ProtoMinor, target
	r.URL.Scheme, r.URL.Host = "", ""
	defer func() {
		if value := recover(); value != nil {
			w.Status = http.StatusInternalServerError
			if value != http.ErrAbortHandler {
				q.logger.Error("a handler panicked in a request of the console", zap.String("panic", fmt.Sprint(value)))
			}
		}
	}()
	q.server.ServeHTTP(w, r)
	return w
}

// mcpText returns the text of the result that a model reads, and whether it is an error.
func mcpText(w *respond.Recorder) (text string, isError bool) {
	message := w.Body.B
	if media, _, _ := mime.ParseMediaType(w.Header().Get("Content-Type")); media == "text/event-stream" {
		message = lastEvent(message)
	}
	var response struct {
		Result *struct {
			Content []jsontext.Value `json:"content"`
			IsError bool             `json:"isError"`
		} `json:"result"`
		Error *struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	err := json.Unmarshal(message, &response)
	switch {
	case err == nil && response.Result != nil:
		blocks := make([]string, 0, len(response.Result.Content))
		for _, block := range response.Result.Content {
			blocks = append(blocks, blockText(block))
		}
		return strings.Join(blocks, "\n"), response.Result.IsError
	case err == nil && response.Error != nil:
		return fmt.Sprintf("error %d: %s", response.Error.Code, response.Error.Message), true
	}
	return refusedText(w), true
}

// blockText returns a block of content as text. Binary data are described.
func blockText(block jsontext.Value) string {
	switch kind := strictjson.Text(strictjson.MemberOf(block, "type")); kind {
	case "text":
		return strictjson.Text(strictjson.MemberOf(block, "text"))
	case "image", "audio":
		return fmt.Sprintf("[%s, %s, %d bytes in base64]", kind, strictjson.Text(strictjson.MemberOf(block, "mimeType")), len(strictjson.MemberOf(block, "data")))
	}
	return string(block)
}

// lastEvent returns the data of the last event of a stream.
func lastEvent(stream []byte) (data []byte) {
	for event, err := range sse.Events(bytes.NewReader(stream), len(stream)) {
		if err != nil {
			break
		}
		data = bytes.Clone(event.Data)
	}
	return data
}

// otcText returns the output of a call over OTC, and whether it is an error.
func otcText(w *respond.Recorder) (text string, isError bool) {
	var response struct {
		Success *bool `json:"success"`
		Output  struct {
			Value jsontext.Value `json:"value"`
			Error *struct {
				Message string `json:"message"`
			} `json:"error"`
		} `json:"output"`
	}
	if json.Unmarshal(w.Body.B, &response) != nil || response.Success == nil {
		return refusedText(w), true
	}
	if response.Output.Error != nil {
		return response.Output.Error.Message, true
	}
	if text := strictjson.Text(response.Output.Value); text != "" {
		return text, !*response.Success
	}
	return string(response.Output.Value), !*response.Success
}

// refusedText describes a response that is none of the protocol, such as one of a handler before the
// endpoint.
func refusedText(w *respond.Recorder) string {
	const most = 4 << 10 // bytes
	body := strings.TrimSpace(string(w.Body.B))
	text := fmt.Sprintf("The site responded with %d %s.", w.Status, http.StatusText(w.Status))
	if body != "" {
		text += "\n" + body[:min(len(body), most)]
	}
	return text
}
