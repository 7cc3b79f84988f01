// Package openai is a Model that calls an OpenAI-compatible API: POST {base}/chat/completions.
// OpenAI, vLLM, Ollama, llama.cpp, LiteLLM and many others serve it.
//
// A request passes through it in this order: request.go writes it, [httpapi.Call] sends it,
// response.go reads the response if it is one JSON document, and stream.go if it is a stream of
// events.
//
// Of the official SDK, only its reader of event streams is used (packages/ssestream). Its client
// is one package with all of OpenAI's APIs: on linux/amd64 it adds 29 MB to a program of 98 MB,
// and reads settings from the environment.
package openai

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/fairwayhq/fairway/internal/mediatype"
	"github.com/fairwayhq/fairway/oagent/model"
	"github.com/fairwayhq/fairway/oagent/model/internal/httpapi"
)

// DefaultBaseURL is the API of OpenAI.
const DefaultBaseURL = "https://api.openai.com/v1"

// maxName is the maximum length of a tool's name in the API.
const maxName = 64

// Model is a model behind an OpenAI-compatible API.
type Model struct {
	options     model.APIOptions
	url         string
	limitMember string // of the request: how long the response may be
}

// New returns a Model.
func New(options model.APIOptions) (*Model, error) {
	options, err := options.WithDefaults(DefaultBaseURL)
	if err != nil {
		return nil, err
	}
	m := &Model{options: options, url: strings.TrimRight(options.BaseURL, "/") + "/chat/completions", limitMember: "max_tokens"}
	if isOpenAI(options.BaseURL) {
		m.limitMember = "max_completion_tokens"
	}
	return m, nil
}

// isOpenAI reports whether the API is OpenAI's own. Its newer models reject max_tokens, while
// compatible servers often know only that.
func isOpenAI(baseURL string) bool {
	u, err := url.Parse(baseURL)
	return err == nil && (u.Hostname() == "api.openai.com" || strings.HasSuffix(u.Hostname(), ".api.openai.com"))
}

// Generate implements model.Model. If onText is not nil, the response is streamed.
func (m *Model) Generate(ctx context.Context, request *model.Request, onText func(string)) (*model.Response, error) {
	if err := request.Check(); err != nil {
		return nil, model.Errorf(model.KindRequest, "%v", err)
	}
	names := model.NewNames(request.Tools, maxName)
	body, err := m.encode(request, names, onText != nil)
	if err != nil {
		return nil, model.Errorf(model.KindRequest, "the request cannot be encoded: %v", err)
	}
	call, err := httpapi.Begin(ctx, &m.options)
	if err != nil {
		return nil, err
	}
	defer call.End()
	response, err := m.send(call, body, onText)
	if err == nil {
		err = httpapi.Finish(request, response, names)
	}
	if err != nil {
		return nil, call.Err(err)
	}
	return response, nil
}

// errMediaType reports a response in another format.
var errMediaType = errors.New("expected JSON or an event stream; is base_url that of an OpenAI-compatible API?")

// send sends the request and reads the response.
func (m *Model) send(call *httpapi.Call, body []byte, onText func(string)) (*model.Response, error) {
	r, err := http.NewRequestWithContext(call.Context, http.MethodPost, m.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	if call.Key != "" {
		r.Header.Set("Authorization", "Bearer "+call.Key)
	}
	res, err := call.Client().Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	mediaType := mediatype.Base(res.Header.Get("Content-Type"))
	if res.StatusCode == http.StatusOK && mediaType == "text/event-stream" {
		return readStream(call, res, onText)
	}
	content, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return nil, err
	case res.StatusCode != http.StatusOK:
		return nil, call.StatusError(res.StatusCode, res.Header, content)
	case !mediatype.IsJSON(mediaType):
		return nil, errMediaType
	}
	response, err := readResponse(content)
	if err == nil && onText != nil && response.Text != "" {
		onText(response.Text) // the server does not stream
	}
	return response, err
}

// Interface guard
var _ model.Model = (*Model)(nil)
