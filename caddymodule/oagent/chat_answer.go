package oagent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/toolcall"
	"github.com/fairwayhq/fairway/internal/headerkind"
	"github.com/fairwayhq/fairway/oagent/chat"
)

// answer calls the model, holds the whole response, and sends it if the output guardrail
// allows it.
func (x *chatExchange) answer() error {
	rec, err := x.record()
	defer rec.Release()
	x.asked = rec.Status != 0 || rec.TooLarge
	switch {
	case rec.TooLarge:
		return x.refuse(&chat.Fault{Status: http.StatusBadGateway, Code: chat.CodeUnchecked, Message: fmt.Sprintf(
			"the answer of the model has more than %d bytes, which is the most that a guardrail looks at; ask for less", x.Chat.MaxOutput)})
	case err != nil:
		return x.fail(err)
	case rec.Status == 0:
		return x.refuse(&chat.Fault{Status: http.StatusBadGateway, Code: chat.CodeUnreadable, Message: "nothing stands behind oagent that answers for the model"})
	}
	if coding := rec.Headers.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return x.refuse(&chat.Fault{
			Status: http.StatusBadGateway, Code: chat.CodeUnreadable,
			Message: "the answer of the model is compressed though it was asked for as it is, so nothing of it is given",
		})
	}
	if rec.Status >= http.StatusMultipleChoices {
		return x.passError(rec)
	}
	answer, err := x.format.ReadAnswer(rec.Headers.Get("Content-Type"), rec.Body.B, x.options())
	if err != nil {
		return x.refuse(err)
	}
	if err := x.checkOutput(answer.Text); err != nil {
		return x.refuse(err)
	}
	return x.pass(rec, answer.Body)
}

// record runs the next handlers with a recorder, so that nothing is sent to the client.
func (x *chatExchange) record() (*toolcall.Recorder, error) {
	ctx, cancel := context.WithCancelCause(x.r.Context())
	defer cancel(nil)
	rec := toolcall.NewRecorder(x.r.Method, x.Chat.MaxOutput, cancel)
	return rec, toolcall.Serve(x.next, rec, x.r.WithContext(ctx))
}

// fail handles an error of a next handler. The recorded response is dropped.
func (x *chatExchange) fail(err error) error {
	if p, ok := errors.AsType[*toolcall.PanicError](err); ok {
		if p.Stack != nil {
			x.Chat.logger.Error("panic behind a guardrail", zap.Any("value", p.Value), zap.ByteString("stack", p.Stack))
		}
		return x.refuse(&chat.Fault{
			Status: http.StatusBadGateway, Code: chat.CodeUnreadable,
			Message: "the model broke off in the middle of its answer, so nothing of it is given; try again",
		})
	}
	if !x.alive.stop() {
		return err // other handlers may have an error page for it
	}
	status := http.StatusBadGateway
	if handlerError, ok := errors.AsType[caddyhttp.HandlerError](err); ok && handlerError.StatusCode != 0 {
		status = handlerError.StatusCode
	}
	return x.refuse(&chat.Fault{Status: status, Code: "upstream_error", Message: "the model could not be asked: " + http.StatusText(status)})
}

// passError sends an error of the API to the client. Text that the model may have written is
// sent only if the guardrail allows it.
func (x *chatExchange) passError(rec *toolcall.Recorder) error {
	status := rec.Status
	if status < http.StatusBadRequest {
		status = http.StatusBadGateway
	}
	fault := x.format.ReadError(status, rec.Body.B)
	if fault.Said != "" {
		if err := x.checkOutput(fault.Said); err != nil {
			return x.refuse(err)
		}
	}
	for name, values := range rec.Headers {
		lower := strings.ToLower(name)
		if lower == "retry-after" || lower == "request-id" || lower == "x-request-id" || strings.Contains(lower, "ratelimit-") {
			if !x.alive.stop() {
				x.w.Header()[name] = values
			}
		}
	}
	x.status = status
	x.allow()
	x.write(fault)
	return nil
}

// pass sends the response to the client.
func (x *chatExchange) pass(rec *toolcall.Recorder, body []byte) error {
	x.status = rec.Status
	x.allow()
	if x.alive.stop() {
		_, err := x.w.Write(body)
		return err
	}
	header := x.w.Header()
	named := append(headerkind.ConnectionOptions(rec.Headers), trailersOf(rec.Headers)...)
	for name, values := range rec.Headers {
		if passesBack(name, named) {
			header[name] = values
		}
	}
	header["Content-Type"] = rec.Headers["Content-Type"][:1] // the type that the response was parsed as
	x.expose(header)
	header.Set("Content-Length", strconv.Itoa(len(body)))
	x.w.WriteHeader(rec.Status)
	_, err := x.w.Write(body)
	return err
}

// passesBack reports whether a header of the held response is still valid for the response
// that is sent.
func passesBack(name string, dropped []string) bool {
	if slices.Contains(dropped, name) {
		return false
	}
	switch name {
	case "Connection", "Keep-Alive", "Trailer", "Transfer-Encoding", "Upgrade", "Proxy-Connection", "Te",
		headerExposes, "Content-Length", "Content-Encoding", "Content-Digest", "Repr-Digest", "Digest", "Content-Md5", "Etag":
		return false
	}
	return !strings.HasPrefix(name, http.TrailerPrefix)
}

// trailersOf returns the names of the trailers.
func trailersOf(header http.Header) []string {
	var names []string
	for _, line := range header["Trailer"] {
		for name := range strings.SplitSeq(line, ",") {
			names = append(names, http.CanonicalHeaderKey(strings.TrimSpace(name)))
		}
	}
	return names
}

// keepAlive sends comments to a client that waits for a stream. A nil keepAlive sends none.
type keepAlive struct {
	w       http.ResponseWriter
	end     chan struct{}
	ended   chan struct{}
	once    sync.Once
	started bool // the header was written; read it only after ended is closed
}

// keepAliveComment is an event stream comment, which clients ignore.
var keepAliveComment = []byte(": the answer is being checked\n\n")

func startKeepAlive(w http.ResponseWriter, interval time.Duration) *keepAlive {
	if interval <= 0 {
		return nil
	}
	k := &keepAlive{w: w, end: make(chan struct{}), ended: make(chan struct{})}
	go k.run(interval)
	return k
}

func (k *keepAlive) run(interval time.Duration) {
	defer close(k.ended)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-k.end:
			return
		case <-ticker.C:
		}
		select {
		case <-k.end: // the response arrived at the same time
			return
		default:
		}
		if !k.started {
			k.started = true
			header := k.w.Header()
			header.Set("Content-Type", "text/event-stream")
			header.Set("Cache-Control", "no-store")
			header.Set("X-Accel-Buffering", "no")
			k.w.WriteHeader(http.StatusOK)
		}
		if _, err := k.w.Write(keepAliveComment); err != nil {
			return // the client has disconnected, and the request's context ends
		}
		_ = http.NewResponseController(k.w).Flush()
	}
}

// stop ends the comments so that the response can be written. It reports whether a stream has
// begun.
func (k *keepAlive) stop() (begun bool) {
	if k == nil {
		return false
	}
	k.once.Do(func() { close(k.end) })
	<-k.ended
	return k.started
}
