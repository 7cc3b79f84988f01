package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/tools/result"
	"github.com/fairwayhq/fairway/tools/security"
)

const (
	// defaultMaxResponse is the default size limit of an API's response, in bytes.
	defaultMaxResponse = 4 << 20

	// defaultCallTimeout is the default time limit of a call that an HTTPInvoker sends
	// with its own client.
	defaultCallTimeout = 30 * time.Second
)

// An HTTPInvoker sends calls directly to an API. It is safe for concurrent use.
type HTTPInvoker struct {
	// Client sends the requests. Its transport adds credentials and OCP headers
	// (Transport).
	Client *http.Client

	// MaxResponse limits a response, in bytes. 0 means 4 MiB.
	MaxResponse int64

	origin *url.URL
}

// NewHTTPInvoker returns an Invoker for the API at origin, such as "https://host". The
// tools contain the base path of the API (BuildOptions.BasePath).
func NewHTTPInvoker(origin string) (*HTTPInvoker, error) {
	u, err := url.Parse(origin)
	switch {
	case err != nil:
		return nil, errors.New("the address of the API cannot be parsed; write it as https://host")
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, fmt.Errorf("the address of the API, %q, must be an http or https URL with a host", u.Redacted())
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "":
		return nil, fmt.Errorf("the address of the API, %q, must end at its host; a path belongs into BuildOptions.BasePath", u.Redacted())
	}
	return &HTTPInvoker{
		Client: &http.Client{Timeout: defaultCallTimeout, CheckRedirect: followNone},
		origin: &url.URL{Scheme: u.Scheme, Host: u.Host, User: u.User},
	}, nil
}

// Address returns the URL of the call's request without the query and without credentials.
func (i *HTTPInvoker) Address(call *Call) (string, error) {
	path, err := call.Path()
	if err != nil {
		return "", err
	}
	return i.origin.Scheme + "://" + i.origin.Host + path, nil
}

// followNone returns a redirect to the caller instead of following it. The redirect is the
// tool's response, and a call must go only where its document says.
func followNone(*http.Request, []*http.Request) error {
	return http.ErrUseLastResponse
}

// Invoke sends the call and reads the response. Its errors are *Failure.
func (i *HTTPInvoker) Invoke(ctx context.Context, call *Call) (*Result, error) {
	r, err := call.Request(&CallContext{ctx, call})
	if err != nil {
		return nil, err
	}
	security.SupplementFromContext(ctx).Apply(r)
	r.URL.Scheme, r.URL.Host, r.URL.User = i.origin.Scheme, i.origin.Host, i.origin.User
	client := i.Client
	if client == nil {
		client = &http.Client{Timeout: defaultCallTimeout, CheckRedirect: followNone}
	}
	response, err := client.Do(r)
	if err != nil {
		return nil, unreachable(ctx, call.Tool, err)
	}
	defer response.Body.Close()
	content := buffer.Get()
	toolResult := &Result{Status: response.StatusCode, Header: response.Header, Memory: content}
	if err := i.readBody(ctx, toolResult, content, response.Body); err != nil {
		toolResult.Release()
		if failure, ok := errors.AsType[*Failure](err); ok {
			failure.Message = call.Tool.Operation() + " " + failure.Message
			return nil, failure
		}
		return nil, unreachable(ctx, call.Tool, err)
	}
	return toolResult, nil
}

// readBody reads the body of the response. If the response streams, it reads the events
// and returns their final content.
func (i *HTTPInvoker) readBody(ctx context.Context, toolResult *Result, content *buffer.Buffer, body io.Reader) error {
	limit := cmp.Or(max(i.MaxResponse, 0), defaultMaxResponse)
	var err error
	if format := result.FormatOf(toolResult.Header.Get("Content-Type")); format != 0 && toolResult.Status < http.StatusMultipleChoices {
		err = reduce(ctx, toolResult, content, body, format, limit)
	} else {
		err = content.ReadAll(body, limit)
	}
	switch {
	case errors.Is(err, buffer.ErrTooLarge):
		return &Failure{Kind: TooLarge, Status: toolResult.Status, Message: fmt.Sprintf("answered with more than %d bytes, which is the limit; ask for less", limit)}
	case err != nil:
		return err
	}
	toolResult.Body = content.B
	return nil
}

func reduce(ctx context.Context, toolResult *Result, content *buffer.Buffer, body io.Reader, format result.Format, limit int64) error {
	reducer := result.NewReducer(format, content, result.StreamOptions{Listener: ListenerFromContext(ctx), MaxContent: limit})
	defer reducer.Release()
	if _, err := io.Copy(reducer, body); err != nil && !reducer.Settled() {
		return err
	}
	contentType, err := reducer.Finish()
	if err != nil {
		return &Failure{Kind: Unreadable, Status: toolResult.Status, Message: "streamed an answer that cannot be used: " + err.Error()}
	}
	if toolResult.Header.Del("Content-Type"); contentType != "" {
		toolResult.Header.Set("Content-Type", contentType)
	}
	return nil
}

// unreachable describes an error of the HTTP client, without the URL, which may contain
// secrets.
func unreachable(ctx context.Context, t *Tool, err error) error {
	if cause := ctx.Err(); cause != nil {
		return cause
	}
	if sent, ok := errors.AsType[*url.Error](err); ok {
		err = sent.Err
	}
	if network, ok := errors.AsType[net.Error](err); ok && network.Timeout() {
		return &Failure{Kind: TimedOut, Message: t.Operation() + " was not answered in time"}
	}
	return &Failure{Kind: Unreachable, Message: fmt.Sprintf("%s could not be sent: %v", t.Operation(), err)}
}
