package reviewers

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/go-json-experiment/json"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/calltrace"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
)

// maxAnswer is the maximum size of a program's response, in bytes.
const maxAnswer = 64 << 10

// newTransport returns the transport for calls of programs. It is used without an
// http.Client, so redirects are not followed. A redirect could send the credentials to another
// server.
func newTransport() *http.Transport {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = maxConcurrentCalls
	transport.MaxResponseHeaderBytes = maxAnswer
	return transport
}

// Target implements Asker.
func (a *Program) Target() string { return text.RedactURL(a.url) }

// Ask implements Asker. The error contains no credentials, and nothing of the question or the response.
func (a *Program) Ask(ctx context.Context, question *Question) (*Answer, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url, bytes.NewReader(question.JSON))
	if err != nil {
		return nil, errors.New("the URL is invalid")
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	calltrace.Inject(ctx, r.Header)
	if err := a.credentials.Apply(r); err != nil {
		return nil, err
	}
	response, err := a.transport.RoundTrip(r)
	if err != nil {
		return nil, safeError(ctx, err)
	}
	defer response.Body.Close()
	switch {
	case response.StatusCode == http.StatusAccepted:
		return &Answer{Decision: pending}, nil
	case response.StatusCode >= 300 && response.StatusCode < 400:
		return nil, errors.New("the program responds with a redirect, which is not followed: set ask to the final URL")
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("the program responds with status %d", response.StatusCode)
	}
	body, err := buffer.ReadLimited(response.Body, maxAnswer)
	switch {
	case errors.Is(err, buffer.ErrTooLarge):
		return nil, fmt.Errorf("the response is larger than %d bytes", maxAnswer)
	case err != nil:
		return nil, fmt.Errorf("the response is incomplete: %w", safeError(ctx, err))
	}
	return readAnswer(body)
}

// safeError returns a safe form of an error for the log. Errors of the connection are kept.
// Others may quote the response, or a URL that contains a secret.
func safeError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errors.New("no response before the timeout")
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return errors.New("the program does not use TLS: set ask to an http:// URL if that is intended")
	}
	if untrusted, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return untrusted
	}
	if broken, ok := errors.AsType[*net.OpError](err); ok {
		return broken
	}
	return errors.New("the response is invalid or incomplete HTTP")
}

// readAnswer parses a decision. An ambiguous response is no decision.
func readAnswer(body []byte) (*Answer, error) {
	members, err := strictjson.Members(nil, body)
	if err != nil {
		return nil, errors.New("the response is not one strict JSON object")
	}
	answer := new(Answer)
	for _, m := range members {
		to := &answer.Comment
		switch m.Name {
		case "decision":
			to = &answer.Decision
		case "comment":
		default:
			return nil, errors.New("the response has members other than decision and comment")
		}
		if m.Value.Kind() != '"' || json.Unmarshal(m.Value, to) != nil {
			return nil, fmt.Errorf("member %s of the response is not a string", m.Name)
		}
	}
	return answer, answer.check()
}
