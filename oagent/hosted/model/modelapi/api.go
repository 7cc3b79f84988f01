// Package modelapi calls models behind the HTTP APIs of their providers. An API has two files: the format of its requests
// (openai.go, anthropic.go), and that of its responses (openai_response.go, anthropic_response.go). OpenAI's Responses API,
// which is small, has one (responses.go).
//
// All APIs have the rest in common: the time limits, the limits of responses and event streams (api.go), the names of
// tools (names.go), and the classification of errors (status.go). Requests follow no redirects, since they would
// carry the conversation and the key to another server. Every error passes through call.err or call.statusError, which
// remove the key from the message.
package modelapi

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/net/http/httpguts"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/internal/sse"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
)

// format is a model behind an API, with the format of that API.
type format struct {
	Options model.APIOptions // with defaults
	URL     string           // to which requests are sent with POST

	// SetKey adds the API key to the header of a request. It may add more headers. key is "" for none.
	SetKey func(header http.Header, key string)
	// Body returns the body of a request, which is encoded as JSON.
	Body func(o *model.APIOptions, request *model.Request, names *toolNames, stream bool) any
	// NewReader returns a Reader for one response.
	NewReader func() responseReader
}

// responseReader builds a response from what an API sends.
type responseReader interface {
	// ReadDocument reads a response that is one JSON document.
	ReadDocument(content []byte) error

	// ReadEvent reads the data of an event of a stream, which is valid until it returns. It returns the text that the
	// event adds to the response. io.EOF ends the stream. An error of the API is an eventError.
	ReadEvent(data []byte) (added string, err error)

	// Response returns the response, or nil if it is incomplete.
	Response() (*model.Response, error)
}

// eventError is an error that an API reports in a stream. Its text is the JSON of the event.
type eventError string

func (f eventError) Error() string { return string(f) }

// Generate implements model.Model. If onText is not nil, the response is streamed.
func (a *format) Generate(ctx context.Context, request *model.Request, onText func(string)) (*model.Response, error) {
	if err := request.Check(); err != nil {
		return nil, model.Errorf(model.KindRequest, "%v", err)
	}
	names := newNames(request.Tools)
	body, err := json.Marshal(a.Body(&a.Options, request, names, onText != nil), jsontext.AllowInvalidUTF8(true)) // of the results of tools
	if err != nil {
		return nil, model.Errorf(model.KindRequest, "the request cannot be encoded: %v", err)
	}
	c, err := begin(ctx, &a.Options)
	if err != nil {
		return nil, err
	}
	defer c.end()
	response, err := a.send(c, body, onText)
	if err == nil {
		response.Model = a.Options.Model
		err = finish(request, response, names)
	}
	if err != nil {
		return nil, c.err(err)
	}
	return response, nil
}

// Interface guard
var _ model.Model = (*format)(nil)

// send sends a request and reads the response.
func (a *format) send(c *call, body []byte, onText func(string)) (*model.Response, error) {
	r, err := http.NewRequestWithContext(c.ctx, http.MethodPost, a.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if err := c.authorize(r); err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	a.SetKey(r.Header, c.key)
	res, err := (&http.Client{Transport: c}).Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	reader := a.NewReader()
	mediaType := httpheader.MediaType(res.Header.Get("Content-Type"))
	if res.StatusCode == http.StatusOK && mediaType == "text/event-stream" {
		return c.readStream(res.Body, reader, onText)
	}
	content, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return nil, err
	case res.StatusCode != http.StatusOK:
		return nil, c.statusError(res.StatusCode, res.Header, content)
	case !httpheader.IsJSON(mediaType):
		return nil, errors.New("expected JSON or an event stream; is base_url that of an API of this kind?")
	}
	if err := reader.ReadDocument(content); err != nil {
		return nil, c.readError(err)
	}
	response, err := reader.Response()
	switch {
	case err == nil && response == nil:
		err = errors.New("it is not a complete message of a model")
	case err == nil && onText != nil && response.Text != "":
		onText(response.Text) // the server does not stream
	}
	return response, err
}

// readStream reads a response that is an event stream.
func (c *call) readStream(body io.Reader, reader responseReader, onText func(string)) (*model.Response, error) {
	var broken error
	for event, err := range sse.Events(body, int(c.options.MaxResponse)) {
		broken = err
		if err != nil {
			break
		}
		data := bytes.TrimSpace(event.Data)
		if len(data) == 0 {
			continue
		}
		added, err := reader.ReadEvent(data)
		if added != "" && onText != nil {
			onText(added)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, c.readError(err)
		}
	}
	response, err := reader.Response()
	if err == nil && response == nil { // else all content has arrived
		if err = broken; err == nil {
			c.failure = io.ErrUnexpectedEOF
			err = c.failure
		}
	}
	return response, err
}

// readError returns the error for an error of a responseReader.
func (c *call) readError(err error) error {
	if fault, ok := errors.AsType[eventError](err); ok {
		return c.streamError([]byte(fault))
	}
	return err
}

// finish completes a response that an API sent: it maps the names of tools back, gives calls
// without a unique id one, makes Stop consistent with the calls, and estimates the usage if the
// format did not report it. If there are too many calls, it returns an error.
func finish(request *model.Request, response *model.Response, names *toolNames) error {
	if err := checkCalls(len(response.Calls)); err != nil {
		return err
	}
	ids := make(map[string]bool, len(response.Calls))
	for i := range response.Calls {
		call := &response.Calls[i]
		call.Name = names.FromAPI(call.Name)
		if call.ID == "" || ids[call.ID] {
			call.ID = "call_" + rand.Text()
		}
		ids[call.ID] = true
		if call.Arguments == "" {
			call.Arguments = "{}"
		}
	}
	switch {
	case len(response.Calls) > 0 && response.Stop == model.StopEnd:
		response.Stop = model.StopTools
	case len(response.Calls) == 0 && response.Stop == model.StopTools:
		response.Stop = model.StopEnd
	}
	u := &response.Usage
	if u.InputTokens <= 0 || u.OutputTokens < 0 {
		*u = model.EstimateUsage(request, response)
	}
	u.CachedTokens = min(max(u.CachedTokens, 0), u.InputTokens)
	return nil
}

// checkCalls returns an error if a response has too many calls.
func checkCalls(calls int) error {
	if calls > model.MaxCalls {
		return model.Errorf(model.KindTooLarge, "the response has more than %d tool calls", model.MaxCalls)
	}
	return nil
}

// maxMessage limits the text of an API that an error repeats, in bytes.
const maxMessage = 300

// call is one request to an API.
type call struct {
	options *model.APIOptions
	key     string          // the API key; "" for none
	caller  context.Context // of Generate
	ctx     context.Context // ends when nothing has arrived for the timeout of the options
	cancel  context.CancelFunc
	idle    *time.Timer // cancels; restarted by each piece of the response
	secrets text.Secrets
	failure error // of the transport or of reading the body
}

// begin starts a call. The caller calls end.
func begin(ctx context.Context, o *model.APIOptions) (*call, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c := &call{options: o, caller: ctx}
	if o.Key != nil {
		key, err := o.Key()
		if err != nil {
			return nil, model.Errorf(model.KindCredentials, "the API key is not available: %v", err)
		}
		if c.key = strings.TrimSpace(key); c.key == "" {
			return nil, model.Errorf(model.KindCredentials, "the API key is empty")
		}
		if !httpguts.ValidHeaderFieldValue(c.key) {
			return nil, model.Errorf(model.KindCredentials, "the API key has characters that are not allowed in a header")
		}
		c.secrets.Add(c.key)
	}
	c.ctx, c.cancel = context.WithCancel(ctx)
	c.idle = time.AfterFunc(o.Timeout, c.cancel)
	return c, nil
}

// authorize adds the headers and query parameters of the options. Their values are secrets.
func (c *call) authorize(r *http.Request) error {
	if c.options.Authorize == nil {
		return nil
	}
	if err := c.options.Authorize(r); err != nil {
		return model.Errorf(model.KindCredentials, "%v", err)
	}
	for _, values := range r.Header {
		for _, value := range values {
			c.secrets.AddHeader(value)
		}
	}
	for _, values := range r.URL.Query() {
		for _, value := range values {
			c.secrets.Add(value)
		}
	}
	return nil
}

// end releases the resources of the call.
func (c *call) end() {
	c.idle.Stop()
	c.cancel()
}

// RoundTrip implements http.RoundTripper. It limits the response. A redirect is an error.
func (c *call) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := c.options.Transport.RoundTrip(r)
	if err != nil {
		c.failure = err
		return nil, err
	}
	if response.StatusCode >= 300 && response.StatusCode < 400 {
		_ = response.Body.Close()
		c.failure = c.statusError(response.StatusCode, response.Header, nil)
		return nil, c.failure
	}
	response.Body = &body{ReadCloser: response.Body, call: c, left: c.options.MaxResponse}
	return response, nil
}

// body is the body of a response. It limits its size, restarts the timeout, and remembers why reading failed.
type body struct {
	io.ReadCloser
	call *call
	left int64
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 && b.call.ctx.Err() == nil {
		b.call.idle.Reset(b.call.options.Timeout)
	}
	if b.left -= int64(n); b.left < 0 {
		n, err = 0, buffer.ErrTooLarge
	}
	if err != nil && err != io.EOF {
		b.call.failure = err
	}
	return n, err
}

// err returns the error of Generate for an error of the transport, of reading the response or of
// decoding it.
func (c *call) err(err error) error {
	if ended := c.caller.Err(); ended != nil {
		return ended
	}
	if c.failure != nil {
		err = c.failure
	}
	var e *model.Error
	switch wrapped := (*url.Error)(nil); {
	case errors.As(err, &e):
		return e
	case errors.Is(err, buffer.ErrTooLarge):
		return model.Errorf(model.KindTooLarge, "the response is larger than the limit of %d bytes", c.options.MaxResponse)
	case c.ctx.Err() != nil:
		return model.Errorf(model.KindTimeout, "the API sent nothing for %v", c.options.Timeout)
	case errors.As(err, &wrapped):
		err = wrapped.Err // the message of wrapped has the URL
	}
	if c.failure != nil {
		return model.Errorf(model.KindConnection, "the connection to the API failed: %s", c.quote(err.Error()))
	}
	return model.Errorf(model.KindMalformed, "the response is malformed: %s", c.quote(err.Error()))
}

// quote returns a text without secrets that fits into a message.
func (c *call) quote(message string) string {
	message = strings.ToValidUTF8(message[:min(len(message), maxErrorBody)], "")
	return text.Cut(c.secrets.Conceal(strings.Join(strings.Fields(message), " ")), maxMessage)
}

// toolNames maps the names of tools to names that an API allows, and back. Names of OpenAgentSpec
// are DNS subdomains of up to 253 characters. APIs of models allow [A-Za-z0-9_-] and fewer
// characters.
type toolNames struct {
	toAPI   map[string]string
	fromAPI map[string]string
}

// maxName is the maximum length of the name of a tool in an API. That of Anthropic allows 128 characters.
const maxName = 64

// hashLength is the length of what distinguishes names that would be equal, in characters.
const hashLength = 8

// newNames returns the mapping for the tools of a request. Names that the API allows stay as they are. The
// mapping depends only on the names, not on their order.
func newNames(tools []model.Tool) *toolNames {
	n := &toolNames{toAPI: make(map[string]string, len(tools)), fromAPI: make(map[string]string, len(tools))}
	count := make(map[string]int, len(tools))
	for i := range tools {
		count[allowed(tools[i].Name)]++
	}
	for i := range tools {
		name := tools[i].Name
		mapped := allowed(name)
		if mapped != name && (count[mapped] > 1 || len(name) > maxName) {
			mapped = hashed(name)
		}
		n.toAPI[name], n.fromAPI[mapped] = mapped, name
	}
	return n
}

// ToAPI returns the name of a tool in the API. The name of a tool that is not in the request is
// reduced to what the API allows.
func (n *toolNames) ToAPI(name string) string {
	if mapped, known := n.toAPI[name]; known {
		return mapped
	}
	return allowed(name)
}

// FromAPI returns the name of the tool that the model called. An unknown name is returned as it
// is.
func (n *toolNames) FromAPI(name string) string {
	if original, known := n.fromAPI[name]; known {
		return original
	}
	return name
}

// allowed replaces the characters that are not allowed, and cuts the name.
func allowed(name string) string {
	mapped := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, name)
	if mapped == "" {
		return "_"
	}
	return mapped[:min(len(mapped), maxName)]
}

// hashed ends the name with a hash of the original one.
func hashed(name string) string {
	sum := sha256.Sum256([]byte(name))
	mapped := allowed(name)
	return mapped[:min(len(mapped), maxName-hashLength-1)] + "_" + hex.EncodeToString(sum[:hashLength/2])
}
