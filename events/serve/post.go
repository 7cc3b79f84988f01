package serve

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/fetch"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/webhook"
)

// Limits of requests to receivers.
const (
	postTime         = 10 * time.Second
	maxAnswer        = 64 << 10 // bytes
	maxVerifications = 10       // of a user in a minute
)

// NewTransport returns the transport to webhooks. It connects only to public addresses, unless private is true.
func NewTransport(private bool, trusted *tls.Config) *http.Transport {
	dialer := &net.Dialer{Timeout: postTime}
	if !private {
		dialer.ControlContext = fetch.OnlyPublic
	}
	return &http.Transport{DialContext: dialer.DialContext, TLSClientConfig: trusted, ForceAttemptHTTP2: true, MaxResponseHeaderBytes: maxAnswer, IdleConnTimeout: time.Minute}
}

// post sends a signed message. The reason is "" for success, else a lastError of MCP Events. A final one does not change with a further try.
func (s *Server) post(ctx context.Context, to target, subscription, id string, message any) (answer []byte, reason string, final bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), postTime) // so that the result is known
	defer cancel()
	var p params
	body, err := json.Marshal(message)
	err = errors.Join(err, json.Unmarshal(to.Params, &p))
	request, requestErr := http.NewRequestWithContext(ctx, http.MethodPost, p.Delivery.URL, bytes.NewReader(body))
	if err != nil || requestErr != nil {
		return nil, "connection_refused", true
	}
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	for i, secret := range to.Secrets {
		if i == 0 || time.Since(to.Replaced) < secretOverlap {
			request.Header.Add("Webhook-Signature", "v1,"+webhook.Sign(keyOf(secret), id, stamp, body))
		}
	}
	request.Header.Set("Webhook-Signature", strings.Join(request.Header.Values("Webhook-Signature"), " "))
	request.Header.Set("Webhook-Id", id)
	request.Header.Set("Webhook-Timestamp", stamp)
	request.Header.Set("X-Mcp-Subscription-Id", subscription)
	request.Header.Set("Content-Type", "application/json")
	response, err := s.Transport.RoundTrip(request) // follows no redirects
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, "timeout", false
	case err != nil:
		if _, untrusted := errors.AsType[*tls.CertificateVerificationError](err); untrusted {
			return nil, "tls_error", false
		}
		return nil, "connection_refused", errors.Is(err, fetch.ErrPrivateAddress)
	}
	defer response.Body.Close()
	answer, _ = buffer.ReadLimited(response.Body, maxAnswer)
	switch status := response.StatusCode; {
	case status >= 500:
		return nil, "http_5xx", false
	case status >= 300:
		return nil, "http_4xx", status == http.StatusGone || status == http.StatusRequestEntityTooLarge
	}
	return answer, "", false
}

// verify returns an error unless the receiver shows that it wants events: it returns a challenge.
func (r *receiver) verify(ctx context.Context, subscription string, to *target) error {
	s := r.Server
	s.mu.Lock()
	if minute := time.Now().Unix() / 60; s.minute != minute {
		s.minute, s.verified = minute, make(map[string]int)
	}
	s.verified[r.user.ID]++
	tooMany := s.verified[r.user.ID] > maxVerifications
	s.mu.Unlock()
	if tooMany {
		return s.refuse(exhausted, map[string]any{"limit": "verifications", "max": maxVerifications}, "too many receivers were verified in this minute; try again later")
	}
	challenge := rand.Text()
	answer, reason, private := s.post(ctx, *to, subscription, "msg_verification_"+rand.Text(), map[string]any{"type": "verification", "challenge": challenge})
	if reason == "connection_refused" && private {
		return invalid("params.delivery.url: the address of the receiver is not public")
	}
	if reason == "" && (!strictjson.Valid(answer) || subtle.ConstantTimeCompare([]byte(strictjson.Text(strictjson.MemberOf(answer, "challenge"))), []byte(challenge)) != 1) {
		reason = "challenge_failed"
	}
	if reason != "" {
		return s.refuse(callbackEndpoint, map[string]any{"reason": reason}, "the receiver did not confirm the subscription: %s", reason)
	}
	return nil
}
