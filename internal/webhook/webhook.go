// Package webhook sends requests that are signed by the rules of Standard Webhooks
// (https://www.standardwebhooks.com).
package webhook

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/fairwayhq/fairway/internal/buffer"
)

// Limits of webhooks.
const (
	defaultTimeout = 10 * time.Second
	maxTimeout     = time.Minute

	minSecret   = 16       // bytes
	maxResponse = 64 << 10 // bytes of a response that are read
	maxIdle     = 8        // connections
	secretStart = "whsec_" // prefix of a secret in base64 (Standard Webhooks)
)

// Client sends POST requests to one URL. Redirects are not followed.
type Client struct {
	url       string
	key       []byte                    // signs requests; nil for none
	authorize func(*http.Request) error // adds credentials and headers; nil for none
	timeout   time.Duration             // 0 for that of the context
	transport *http.Transport
}

// New returns the client for a URL. The secret has at least 16 bytes, or is `whsec_` and base64. A timeout of 0 is defaultTimeout.
// Errors contain neither the URL nor the secret.
func New(address, secret string, timeout time.Duration) (*Client, error) {
	key := []byte(secret)
	if encoded, ok := strings.CutPrefix(secret, secretStart); ok {
		decoded, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return nil, errors.New("the secret begins with whsec_, but the rest is not base64")
		}
		key = decoded
	}
	if len(key) < minSecret {
		return nil, fmt.Errorf("the secret has %d bytes; it needs at least %d, as in: secret {env.WEBHOOK_SECRET}", len(key), minSecret)
	}
	c, err := NewUnsigned(address, timeout, nil)
	if err == nil {
		c.key = key
	}
	return c, err
}

// NewUnsigned is like New for a server that checks no signature. authorize adds credentials and headers to each request; it may be
// nil.
func NewUnsigned(address string, timeout time.Duration, authorize func(*http.Request) error) (*Client, error) {
	timeout = cmp.Or(timeout, defaultTimeout)
	if timeout < 0 || timeout > maxTimeout {
		return nil, fmt.Errorf("timeout %s: must be more than 0 and at most %s", timeout, maxTimeout)
	}
	c, err := NewUntimed(address, authorize)
	if err == nil {
		c.timeout = timeout
	}
	return c, err
}

// NewUntimed is like NewUnsigned for requests that may take as long as their contexts allow.
func NewUntimed(address string, authorize func(*http.Request) error) (*Client, error) {
	if err := CheckURL(address); err != nil {
		return nil, err
	}
	c := &Client{url: address, authorize: authorize}
	c.transport = http.DefaultTransport.(*http.Transport).Clone()
	c.transport.MaxIdleConnsPerHost = maxIdle
	c.transport.MaxResponseHeaderBytes = maxResponse
	return c, nil
}

// Close closes the connections.
func (c *Client) Close() {
	if c != nil {
		c.transport.CloseIdleConnections()
	}
}

// Timeout returns how long one request may take.
func (c *Client) Timeout() time.Duration { return c.timeout }

// CheckURL checks the URL of a webhook. Errors do not quote it, because it may contain a secret.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.Fragment != "" {
		return errors.New("the URL must begin with https:// or http://, and have a host, no user and no fragment, as in: https://hooks.example.com/path")
	}
	return nil
}

// Post sends a body. The id is that of the message: it is the same if the message is sent again. Every status of 2xx is a success.
// Errors contain no secrets.
func (c *Client) Post(ctx context.Context, id, mediaType string, body []byte) error {
	return c.send(ctx, id, mediaType, body, func(response *http.Response) error {
		_, _ = io.CopyN(io.Discard, response.Body, maxResponse) // so that the connection can be used again
		return nil
	})
}

// Ask is like Post for a message with a random id, and returns the status and the body of the response, of at most limit bytes.
func (c *Client) Ask(ctx context.Context, mediaType string, body []byte, limit int64) (status int, response []byte, err error) {
	err = c.send(ctx, rand.Text(), mediaType, body, func(from *http.Response) (err error) {
		status = from.StatusCode
		response, err = buffer.ReadLimited(from.Body, limit)
		switch {
		case errors.Is(err, buffer.ErrTooLarge):
			return fmt.Errorf("the response has more than %d bytes", limit)
		case err != nil:
			return safeError(ctx, err)
		}
		return nil
	})
	return status, response, err
}

// send sends a body, and calls read with the body of a successful response.
func (c *Client) send(ctx context.Context, id, mediaType string, body []byte, read func(*http.Response) error) error {
	if c.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.timeout)
		defer cancel()
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return errors.New("the URL is invalid")
	}
	r.Header.Set("Content-Type", mediaType)
	if c.key != nil {
		stamp := strconv.FormatInt(time.Now().Unix(), 10)
		r.Header["webhook-id"] = []string{id}
		r.Header["webhook-timestamp"] = []string{stamp}
		r.Header["webhook-signature"] = []string{"v1," + Sign(c.key, id, stamp, body)}
	}
	if c.authorize != nil {
		if err := c.authorize(r); err != nil {
			return err
		}
	}
	response, err := c.transport.RoundTrip(r)
	if err != nil {
		return safeError(ctx, err)
	}
	defer response.Body.Close()
	if response.StatusCode < 200 || response.StatusCode >= 300 {
		_, _ = io.CopyN(io.Discard, response.Body, maxResponse) // so that the connection can be used again
	}
	switch {
	case response.StatusCode >= 300 && response.StatusCode < 400:
		return errors.New("the endpoint responds with a redirect, which is not followed: set the final URL")
	case response.StatusCode < 200 || response.StatusCode >= 300:
		return fmt.Errorf("the endpoint responds with status %d", response.StatusCode)
	}
	return read(response)
}

// Sign returns the signature of a message: HMAC-SHA256 over its id, its timestamp and its body.
func Sign(key []byte, id, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// safeError returns a form of an error for the log. Errors of the connection are kept. Others may quote
// the URL, which may contain a secret.
func safeError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errors.New("no response before the timeout")
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return errors.New("the server does not use TLS: use an http:// URL if that is intended")
	}
	if untrusted, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return untrusted
	}
	if broken, ok := errors.AsType[*net.OpError](err); ok {
		return broken
	}
	return errors.New("the response is invalid or incomplete HTTP")
}
