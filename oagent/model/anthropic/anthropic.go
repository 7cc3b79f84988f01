// Package anthropic is a Model that calls Anthropic's Messages API with the official SDK:
// POST {base}/v1/messages.
//
// A request passes through it in this order: request.go converts it, the SDK sends it, and
// response.go converts the response. The SDK neither repeats requests nor reads settings from
// the environment here, and writes no traces.
package anthropic

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/fairwayhq/fairway/internal/mediatype"
	"github.com/fairwayhq/fairway/oagent/model"
	"github.com/fairwayhq/fairway/oagent/model/internal/httpapi"
)

// DefaultBaseURL is the API of Anthropic.
const DefaultBaseURL = "https://api.anthropic.com"

// maxName is the maximum length of a tool's name. The API allows 128 characters; with 64, the
// names are those of package openai.
const maxName = 64

// Model is a model of Anthropic.
type Model struct {
	options model.APIOptions
	service anthropic.MessageService
}

// New returns a Model. The base URL may end in /v1 or not.
func New(options model.APIOptions) (*Model, error) {
	options, err := options.WithDefaults(DefaultBaseURL)
	if err != nil {
		return nil, err
	}
	base := strings.TrimSuffix(strings.TrimRight(options.BaseURL, "/"), "/v1")
	return &Model{
		options: options,
		service: anthropic.NewMessageService(
			option.WithBaseURL(base+"/"),
			option.WithMaxRetries(0),
			option.WithRequestTimeout(options.Timeout),
			option.WithoutOpenTelemetry(),
		),
	}, nil
}

// Generate implements model.Model. If onText is not nil, the response is streamed.
func (m *Model) Generate(ctx context.Context, request *model.Request, onText func(string)) (*model.Response, error) {
	if err := request.Check(); err != nil {
		return nil, model.Errorf(model.KindRequest, "%v", err)
	}
	names := model.NewNames(request.Tools, maxName)
	call, err := httpapi.Begin(ctx, &m.options)
	if err != nil {
		return nil, err
	}
	defer call.End()
	response, err := m.send(call, m.params(request, names), onText)
	if err == nil {
		err = httpapi.Finish(request, response, names)
	}
	if err != nil {
		return nil, call.Err(apiError(call, err))
	}
	return response, nil
}

// errMediaType reports a response in another format.
var errMediaType = errors.New("expected JSON or an event stream; is base_url that of Anthropic's API?")

// send sends the request and reads the response.
func (m *Model) send(call *httpapi.Call, params anthropic.MessageNewParams, onText func(string)) (*model.Response, error) {
	options := []option.RequestOption{option.WithHTTPClient(call.Client())}
	if call.Key != "" {
		options = append(options, option.WithAPIKey(call.Key))
	}
	if onText == nil {
		message, err := m.service.New(call.Context, params, options...)
		if err != nil {
			return nil, err
		}
		return readMessage(message)
	}
	var res *http.Response
	stream := m.service.NewStreaming(call.Context, params, append(options, option.WithResponseInto(&res))...)
	defer stream.Close()
	if stream.Err() != nil {
		return nil, stream.Err()
	}
	switch mediaType := mediatype.Base(res.Header.Get("Content-Type")); {
	case mediaType == "text/event-stream":
		return readStream(call, stream, onText)
	case mediatype.IsJSON(mediaType):
		return readUnstreamed(res, onText)
	}
	return nil, errMediaType
}

// readUnstreamed reads the response of a server that does not stream.
func readUnstreamed(res *http.Response, onText func(string)) (*model.Response, error) {
	content, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	var message anthropic.Message
	if err := message.UnmarshalJSON(content); err != nil {
		return nil, err
	}
	response, err := readMessage(&message)
	if err == nil && response.Text != "" {
		onText(response.Text)
	}
	return response, err
}

// apiError converts an error response of the API. Its own text has the URL and the whole body.
func apiError(call *httpapi.Call, err error) error {
	e, ok := errors.AsType[*anthropic.Error](err)
	switch {
	case !ok:
		return err
	case e.StatusCode == http.StatusOK:
		return call.StreamError([]byte(e.RawJSON()))
	case e.Response == nil:
		return call.StatusError(e.StatusCode, nil, []byte(e.RawJSON()))
	}
	return call.StatusError(e.StatusCode, e.Response.Header, []byte(e.RawJSON()))
}

// Interface guard
var _ model.Model = (*Model)(nil)
