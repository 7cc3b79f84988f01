package chat

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/oagent"
)

// try passes a request and the response on as they are, and lets guardrails in log only judge them. What the guardrails cannot read is
// reported as incomplete.
func (x *exchange) try() error {
	agent := x.binding.Agent
	body, err := io.ReadAll(io.LimitReader(x.r.Body, x.MaxInput+1))
	x.r.Body = bodyOf{io.MultiReader(bytes.NewReader(body), x.r.Body), x.r.Body}
	if err == nil && int64(len(body)) > x.MaxInput {
		err = errors.New("the request is larger than max_input")
	}
	options := x.options()
	options.AllowMedia = options.AllowMedia || agent.Input == nil
	if err == nil {
		x.read, err = x.format.ReadRequest(body, options)
	}
	if err != nil {
		x.unjudged(agent.Input, err)
		x.unjudged(agent.Output, err)
		return x.passOn()
	}
	_ = x.checkInput() // refuses nothing
	if agent.Output == nil {
		return x.passOn()
	}
	x.r.Header.Set("Accept-Encoding", "identity")
	x.request.Allow(0)
	w := &copyingWriter{ResponseWriter: x.w, limit: x.MaxOutput}
	if err := x.next.ServeHTTP(x.request.ExposingWriter(w), x.r); err != nil {
		return err
	}
	_ = http.NewResponseController(x.w).Flush() // the client need not wait for the guardrail
	if w.status >= http.StatusMultipleChoices {
		return nil
	}
	err = buffer.ErrTooLarge
	if !w.isCut {
		answer, failed := x.format.ReadAnswer(w.Header().Get("Content-Type"), w.copied.Bytes(), x.options())
		if err = failed; err == nil && answer.Text != "" {
			x.r = x.r.WithContext(context.WithoutCancel(x.r.Context()))
			_ = x.checkOutput(answer.Text) // refuses nothing
		}
	}
	if err != nil {
		x.unjudged(agent.Output, err)
	}
	return nil
}

// unjudged reports that a guardrail could not judge a text. The guardrail may be nil.
func (x *exchange) unjudged(g *oagent.Guardrail, err error) {
	if g != nil {
		route.ReportIncomplete(x.logger, x.binding.Agent.Name, g.Assertion.Rule, err.Error())
	}
}

// bodyOf is a body whose beginning was read.
type bodyOf struct {
	io.Reader
	io.Closer
}

// copyingWriter is an http.ResponseWriter that copies the body up to a limit.
type copyingWriter struct {
	http.ResponseWriter
	limit  int64
	status int
	copied bytes.Buffer
	isCut  bool // the body is larger
}

// Unwrap is for http.ResponseController.
func (w *copyingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w *copyingWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *copyingWriter) Write(p []byte) (int, error) {
	if w.isCut = w.isCut || int64(w.copied.Len()+len(p)) > w.limit; !w.isCut {
		w.copied.Write(p)
	}
	return w.ResponseWriter.Write(p)
}
