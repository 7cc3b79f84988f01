package chat

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/internal/agentset"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/oagent/chat"
	"github.com/fairwayhq/fairway/oagent/engagement"
)

// callModel calls the model, holds the whole response, and sends it if the output guardrail
// allows it.
func (x *exchange) callModel() error {
	rec, err := x.record()
	defer rec.Release()
	x.called = rec.Status != 0 || rec.TooLarge
	switch {
	case rec.TooLarge:
		return x.refuse(&chat.Fault{Status: http.StatusBadGateway, Code: chat.CodeUnchecked, Message: fmt.Sprintf(
			"the response of the model is larger than %d bytes, the limit for guardrails; request less", x.MaxOutput)})
	case err != nil:
		return x.fail(err)
	case rec.Status == 0:
		return x.refuse(&chat.Fault{Status: http.StatusBadGateway, Code: chat.CodeUnreadable, Message: "no handler after oagent responds for the model API"})
	}
	if coding := rec.Headers.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return x.refuse(&chat.Fault{
			Status: http.StatusBadGateway, Code: chat.CodeUnreadable,
			Message: "the response of the model is compressed although the request forbids it; it was discarded because guardrails cannot check it",
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
func (x *exchange) record() (*route.Recorder, error) {
	ctx, cancel := context.WithCancelCause(x.r.Context())
	defer cancel(nil)
	rec := route.NewRecorder(x.r.Method, x.MaxOutput, cancel)
	return rec, route.Serve(x.next, rec, x.r.WithContext(ctx))
}

// fail handles an error of a next handler. The recorded response is dropped.
func (x *exchange) fail(err error) error {
	if p, ok := errors.AsType[*route.PanicError](err); ok {
		if p.Stack != nil {
			x.logger.Error("panic in a handler after oagent", zap.Any("value", p.Value), zap.ByteString("stack", p.Stack))
		}
		return x.refuse(&chat.Fault{
			Status: http.StatusBadGateway, Code: chat.CodeUnreadable,
			Message: "the model API aborted its response, which was discarded; try again",
		})
	}
	if !x.alive.stop() {
		return err // other handlers may have an error page for it
	}
	status := http.StatusBadGateway
	if handlerError, ok := errors.AsType[caddyhttp.HandlerError](err); ok && handlerError.StatusCode != 0 {
		status = handlerError.StatusCode
	}
	return x.refuse(&chat.Fault{Status: status, Code: "upstream_error", Message: "calling the model failed: " + http.StatusText(status)})
}

// passError sends an error of the API to the client. Text that the model may have written is
// sent only if the guardrail allows it.
func (x *exchange) passError(rec *route.Recorder) error {
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
	x.request.Allow(status)
	x.write(fault)
	return nil
}

// pass sends the response to the client.
func (x *exchange) pass(rec *route.Recorder, body []byte) error {
	x.request.Allow(rec.Status)
	if x.alive.stop() {
		_, err := x.w.Write(body)
		return err
	}
	header := x.w.Header()
	named := append(httpheader.ConnectionOptions(rec.Headers), trailersOf(rec.Headers)...)
	for name, values := range rec.Headers {
		if passesBack(name, named) {
			header[name] = values
		}
	}
	header["Content-Type"] = rec.Headers["Content-Type"][:1] // the type that the response was parsed as
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w := x.request.ExposingWriter(x.w)
	w.WriteHeader(rec.Status)
	_, err := w.Write(body)
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
		"Content-Length", "Content-Encoding", "Content-Digest", "Repr-Digest", "Digest", "Content-Md5", "Etag":
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

// checkInput calls the input guardrail with the text that is about to reach the model. That is
// the newest message, each time, and all earlier messages that have not passed in this
// Engagement. So a client cannot insert an unchecked message into the history of a
// conversation.
func (x *exchange) checkInput() error {
	if x.binding.Agent.Input == nil || len(x.read.Inputs) == 0 {
		return nil
	}
	inputs := x.read.Inputs
	newest := len(inputs) - 1
	var texts []string
	for _, text := range inputs[:newest] {
		if !x.passed.has(x.passedKey(text)) {
			texts = append(texts, text)
		}
	}
	texts = append(texts, inputs[newest])
	if err := x.check(engagement.SideInput, agentset.GuardrailText{Input: strings.Join(texts, "\n\n")}); err != nil {
		return err
	}
	for _, text := range texts {
		x.passed.add(x.passedKey(text))
	}
	return nil
}

// checkOutput calls the output guardrail with the text of the model.
func (x *exchange) checkOutput(text string) error {
	if text == "" {
		return x.guard.CheckActive(x.r.Context(), x.binding)
	}
	return x.check(engagement.SideOutput, agentset.GuardrailText{Input: x.read.Said, Output: text})
}

// check calls a guardrail of the agent.
func (x *exchange) check(side engagement.Side, text agentset.GuardrailText) error {
	return x.guardrails.Check(x.r.Context(), x.guard, x.binding, x.request.Names(), side, text)
}

// passedKey returns the key of a text that passed an agent's guardrail in an Engagement.
func (x *exchange) passedKey(text string) [sha256.Size]byte {
	sum := sha256.New()
	fmt.Fprintf(sum, "%s %s ", x.binding.Key(), x.binding.Agent.Hash)
	sum.Write([]byte(text))
	return [sha256.Size]byte(sum.Sum(nil))
}
