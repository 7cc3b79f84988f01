// Package httpapi has what the Models that call an HTTP API have in common: time limits, limits
// of responses, the classification of errors, and the last steps on a response.
//
// [Begin] starts a call. Its Client sends the request; it follows no redirects, since they would
// carry the conversation and the key to another server. Every error passes through [Call.Err] or
// [Call.StatusError], which remove the key from the message. [Finish] completes the response.
package httpapi

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/conceal"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/oagent/model"
)

// maxMessage limits the text of an API that an error repeats, in bytes.
const maxMessage = 300

// Call is one request to an API. Call End when the response has been read.
type Call struct {
	// Context ends after the timeout of the options.
	Context context.Context

	// Key is the API key; "" for none.
	Key string

	options *model.APIOptions
	caller  context.Context
	cancel  context.CancelFunc
	secrets conceal.Secrets
	failure error // of the transport or of reading the body
}

// Begin starts a call with complete options.
func Begin(ctx context.Context, o *model.APIOptions) (*Call, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c := &Call{options: o, caller: ctx}
	if o.Key != nil {
		key, err := o.Key()
		if err != nil {
			return nil, model.Errorf(model.KindCredentials, "the API key is not available: %v", err)
		}
		if c.Key = strings.TrimSpace(key); c.Key == "" {
			return nil, model.Errorf(model.KindCredentials, "the API key is empty")
		}
		if !httpguts.ValidHeaderFieldValue(c.Key) {
			return nil, model.Errorf(model.KindCredentials, "the API key has characters that are not allowed in a header")
		}
		c.secrets.Add(c.Key)
	}
	c.Context, c.cancel = context.WithTimeout(ctx, o.Timeout)
	return c, nil
}

// End releases the resources of the call.
func (c *Call) End() { c.cancel() }

// Client returns the HTTP client of this call.
func (c *Call) Client() *http.Client {
	return &http.Client{Transport: c}
}

// RoundTrip implements http.RoundTripper. It limits the response. A redirect is an error.
func (c *Call) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := c.options.Transport.RoundTrip(r)
	if err != nil {
		c.failure = err
		return nil, err
	}
	if response.StatusCode >= 300 && response.StatusCode < 400 {
		_ = response.Body.Close()
		c.failure = c.StatusError(response.StatusCode, response.Header, nil)
		return nil, c.failure
	}
	response.Body = &body{ReadCloser: response.Body, call: c, left: c.options.MaxResponse}
	return response, nil
}

// body is the body of a response. It remembers why reading failed, since SDKs do not always
// return that error.
type body struct {
	io.ReadCloser
	call *Call
	left int64
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		n, err = 0, buffer.ErrTooLarge
	}
	if err != nil && err != io.EOF {
		b.call.failure = err
	}
	return n, err
}

// Err returns the error of Generate for an error of the transport, of reading the response or of
// decoding it.
func (c *Call) Err(err error) error {
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
	case errors.Is(err, buffer.ErrTooLarge), errors.Is(err, bufio.ErrTooLong):
		return model.Errorf(model.KindTooLarge, "the response is larger than the limit of %d bytes", c.options.MaxResponse)
	case c.Context.Err() != nil:
		return model.Errorf(model.KindTimeout, "the API sent no complete response within %v", c.options.Timeout)
	case errors.As(err, &wrapped):
		err = wrapped.Err // the message of wrapped has the URL
	}
	if c.failure != nil {
		return model.Errorf(model.KindConnection, "the connection to the API failed: %s", c.quote(err.Error()))
	}
	return model.Errorf(model.KindMalformed, "the response is malformed: %s", c.quote(err.Error()))
}

// Incomplete returns the error of a response that ended before it was complete.
func (c *Call) Incomplete() error {
	if c.failure == nil {
		c.failure = io.ErrUnexpectedEOF
	}
	return c.failure
}

// quote returns a text without secrets that fits into a message.
func (c *Call) quote(message string) string {
	message = strings.ToValidUTF8(message[:min(len(message), maxErrorBody)], "")
	return text.Cut(c.secrets.Conceal(strings.Join(strings.Fields(message), " ")), maxMessage)
}
