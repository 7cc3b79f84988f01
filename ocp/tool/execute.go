package tool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairwayhq/fairway/internal/nearest"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/ocp/internal/apierror"
	"github.com/fairwayhq/fairway/ocp/internal/naming"
)

// Execute runs one call. It finds the tool, binds the arguments, invokes the call and
// decides whether the response is a success.
func Execute(ctx context.Context, tools *Toolset, name string, arguments []byte, invoker Invoker) Outcome {
	start := time.Now()
	tool, ok := tools.Tool(name)
	if !ok {
		return Outcome{Failure: tools.unknownTool(name), Duration: time.Since(start)}
	}
	outcome := Outcome{Tool: tool}
	call, err := tool.Bind(arguments)
	if err == nil {
		outcome.Result, err = invoker.Invoke(ctx, call)
	}
	if err != nil {
		outcome.Failure = asFailure(err)
	} else {
		outcome.Failure = outcome.Result.failureOf(tool)
	}
	outcome.Duration = time.Since(start)
	return outcome
}

func (s *Toolset) unknownTool(name string) *Failure {
	message := fmt.Sprintf("unknown tool %q", text.Cut(name, 2*naming.MaxLength))
	near := nearest.Name(name, func(yield func(string) bool) {
		for _, t := range s.tools {
			if !yield(t.Name) {
				return
			}
		}
	})
	if near != "" {
		message += fmt.Sprintf("; did you mean %q?", near)
	} else {
		message += "; list the tools to see which there are"
	}
	return &Failure{Kind: UnknownTool, Message: message}
}

// asFailure returns the error as a Failure. It keeps the error's message only if the
// message was written for the client.
func asFailure(err error) *Failure {
	var failure *Failure
	switch {
	case errors.As(err, &failure):
		return failure
	case errors.Is(err, context.Canceled):
		return &Failure{Kind: Canceled, Message: "the call was canceled"}
	case errors.Is(err, context.DeadlineExceeded):
		return &Failure{Kind: TimedOut, Message: "the call took longer than it may"}
	}
	return &Failure{Kind: Internal, Message: "the call failed inside the gateway; its log says why"}
}

// failureOf returns nil if the result of a call of the tool is a success, and the Failure otherwise.
func (r *Result) failureOf(t *Tool) *Failure {
	switch {
	case r.Status >= 500:
		return refusal(t, Failed, r)
	case r.Status >= 400:
		return refusal(t, Refused, r)
	case r.Status >= 300:
		return redirection(t, r)
	case r.Status < 200:
		return &Failure{Kind: Unreadable, Status: r.Status, Message: fmt.Sprintf("%s answered %s, which ends no request", t.Operation(), text.StatusLine(r.Status))}
	}
	if r.MediaType() == "text/html" && !declaresHTML(t) {
		return &Failure{Kind: Unreadable, Status: r.Status, Message: fmt.Sprintf(
			"%s answered an HTML page%s where its document declares %s: this is often a login or error page, so check the credentials and the address of the API",
			t.Operation(), apierror.PageTitle(r.Body), strings.Join(t.Answer.MediaTypes, " or "))}
	}
	return nil
}

// declaresHTML reports whether the document permits an HTML page as a response. A document
// that declares no media type permits any.
func declaresHTML(t *Tool) bool {
	return len(t.Answer.MediaTypes) == 0 || slices.ContainsFunc(t.Answer.MediaTypes, func(m string) bool {
		return m == "*/*" || m == "text/*" || strings.Contains(m, "html")
	})
}
