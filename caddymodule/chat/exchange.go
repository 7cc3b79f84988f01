package chat

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	guard "github.com/fairwayhq/fairway/caddymodule/oagent"
	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/internal/respond"
	"github.com/fairwayhq/fairway/internal/sse"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/chat"
	"github.com/fairwayhq/fairway/oagent/engagement"
)

// exchange is one request to a model and its response.
type exchange struct {
	*Handler
	request *guard.ModelRequest
	w       http.ResponseWriter
	r       *http.Request
	next    caddyhttp.Handler
	binding oagent.Binding
	format  chat.Format
	guard   *oagent.Guard
	read    *chat.Request
	alive   *keepAlive // nil unless the client waits for a stream
	called  bool       // the model was called
}

// Serve implements guard.Chat.
func (h *Handler) Serve(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler, request *guard.ModelRequest, refusal error) error {
	x := &exchange{Handler: h, request: request, w: w, r: r, next: next, binding: request.Binding(), format: h.formatOf(r)}
	if refusal != nil {
		return x.refuse(refusal)
	}
	return x.serve()
}

func (x *exchange) serve() error {
	if err := x.open(); err != nil {
		return x.refuse(err)
	}
	agent := x.binding.Agent
	if agent.Input == nil && agent.Output == nil {
		return x.passOn()
	}
	if agent.GuardrailsLogOnly {
		return x.try()
	}
	if err := x.readRequest(); err != nil {
		return x.refuse(err)
	}
	if err := x.checkInput(); err != nil {
		return x.refuse(err)
	}
	if agent.Output == nil {
		return x.passOn()
	}
	if x.read.Background {
		return x.refuse(&chat.Fault{
			Status: http.StatusForbidden, Code: chat.CodeUnchecked,
			Message: "guardrails cannot check background responses: send the request without background",
		})
	}
	if x.read.Stream {
		x.alive = startKeepAlive(x.w, time.Duration(x.KeepAlive))
		defer x.alive.stop()
	}
	return x.callModel()
}

// open finds the Engagement. It must not have ended.
func (x *exchange) open() (err error) {
	if x.guard, err = x.request.Guard(); err != nil {
		x.logger.Error("opening the store of Engagements failed", zap.Error(err))
		return &chat.Fault{
			Status: http.StatusServiceUnavailable, Code: string(engagement.KindStore),
			Message: "the model was not called: the record of the Engagement is unavailable; try again later",
		}
	}
	return x.guard.CheckActive(x.r.Context(), x.binding)
}

// passOn passes the model's response on unchecked.
func (x *exchange) passOn() error {
	x.request.Allow(0)
	return x.next.ServeHTTP(x.request.ExposingWriter(x.w), x.r)
}

// readRequest parses the request and restores its body.
func (x *exchange) readRequest() (err error) {
	if coding := x.r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return &chat.Fault{
			Status: http.StatusUnsupportedMediaType, Code: chat.CodeMalformed,
			Message: "guardrails cannot check compressed requests: send the request without Content-Encoding",
		}
	}
	body := new(buffer.Buffer) // not from the pool: the transport may still read it after the response has arrived
	switch err := body.ReadAll(x.r.Body, x.MaxInput); {
	case errors.Is(err, buffer.ErrTooLarge):
		return &chat.Fault{
			Status: http.StatusRequestEntityTooLarge, Code: chat.CodeMalformed,
			Message: fmt.Sprintf("the request is larger than the limit of %d bytes", x.MaxInput),
		}
	case err != nil:
		if status, message := respond.BodyFailure(err); status != 0 {
			x.w.Header().Set("Retry-After", respond.BodyRetry)
			return &chat.Fault{Status: status, Code: chat.CodeMalformed, Message: message}
		}
		return &chat.Fault{Status: http.StatusBadRequest, Code: chat.CodeMalformed, Message: "the body of the request is incomplete"}
	}
	options := x.options()
	options.AllowMedia = options.AllowMedia || x.binding.Agent.Input == nil
	if x.read, err = x.format.ReadRequest(body.B, options); err != nil {
		return err
	}
	x.r.Body = io.NopCloser(bytes.NewReader(body.B))
	x.r.ContentLength, x.r.TransferEncoding = int64(len(body.B)), nil
	x.r.Trailer = nil
	delete(x.r.Header, "Trailer")
	x.r.Header.Set("Content-Length", strconv.Itoa(len(body.B)))
	x.r.Header.Set("Accept-Encoding", "identity")
	x.r.Header.Set("Content-Type", "application/json") // prevents the model API from assuming another character set
	for name := range x.r.Header {
		if httpheader.KindOf(name) != httpheader.Ordinary {
			delete(x.r.Header, name)
		}
	}
	return nil
}

func (h *Handler) options() chat.ReadOptions {
	return chat.ReadOptions{Roles: h.Roles, AllowMedia: h.AllowMedia}
}

// refuse sends the reason for the refusal in the error format of the API.
func (x *exchange) refuse(err error) error {
	if fault, ok := chat.AsFault(err); ok {
		err = guard.RefusalOf(engagement.Kind(fault.Code), fault.Status, fault.Message)
	}
	refusal, status := x.request.Refuse(err, x.called)
	if refusal.RetryAfter > 0 && !x.alive.stop() {
		x.w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(refusal.RetryAfter.Seconds()))))
	}
	x.write(&chat.Fault{Status: status, Code: string(refusal.Kind), Message: refusal.Message})
	return nil
}

// write responds with a fault.
func (x *exchange) write(fault *chat.Fault) {
	if x.alive.stop() {
		_, _ = x.w.Write(x.format.AppendErrorEvent(nil, fault)) // the client may have disconnected
		return
	}
	body := x.format.AppendError(nil, fault)
	header := x.w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	header.Set("Cache-Control", "no-store")
	x.w.WriteHeader(fault.Status)
	_, _ = x.w.Write(body)
}

// keepAlive sends comments to a client that waits for a stream. A nil keepAlive sends none.
type keepAlive struct {
	events *sse.Writer
	end    context.CancelFunc
	ended  sync.WaitGroup
}

func startKeepAlive(w http.ResponseWriter, interval time.Duration) *keepAlive {
	if interval <= 0 {
		return nil
	}
	k := &keepAlive{events: sse.NewWriter(w, sse.MaxWriteWait)}
	ctx, end := context.WithCancel(context.Background())
	k.end = end
	k.ended.Go(func() { k.events.KeepAlive(ctx, interval) })
	return k
}

// stop ends the comments so that the response can be written. It reports whether a stream has
// begun.
func (k *keepAlive) stop() (begun bool) {
	if k == nil {
		return false
	}
	k.end()
	k.ended.Wait()
	return k.events.IsOpen()
}
