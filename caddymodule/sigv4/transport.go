// Package sigv4 has the transport aws_sigv4 of reverse_proxy, which signs requests to AWS.
package sigv4

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/smithy-go/encoding/httpbinding"
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/respond"
	"github.com/fairwayhq/fairway/tools"
)

func init() {
	caddy.RegisterModule(new(Transport))
}

// defaultMaxBody is the default of max_body, in bytes.
const defaultMaxBody = 10 << 20

// contentHash is the header with the digest of the body, and unsigned its value for a body that is not signed.
const (
	contentHash = "X-Amz-Content-Sha256"
	unsigned    = "UNSIGNED-PAYLOAD"
)

// Transport is the HTTP transport of reverse_proxy with a signature of AWS (Signature Version 4). It signs each request
// when it is sent, so after all changes of headers. The signature covers the host, the path, the query, the body, and the
// headers Content-Type and X-Amz-*. Authorization and X-Amz-Security-Token of the caller are removed.
//
// It has the options of the transport http too.
//
// Placeholders in the values are {env.*}, {file.*}, {system.*} and {time.*}. They are resolved for each request, so
// credentials in a file can be rotated. A request without credentials is not sent.
type Transport struct {
	reverseproxy.HTTPTransport

	// The region of the service, such as eu-central-1. Default: {env.AWS_REGION}.
	Region string `json:"region,omitempty"`

	// The service as AWS names it in signatures, such as execute-api, lambda, s3 or es. Required.
	Service string `json:"service,omitempty"`

	// The ID of the access key. Default: {env.AWS_ACCESS_KEY_ID}.
	AccessKey string `json:"access_key,omitempty"`

	// The secret access key. Use a placeholder such as {file./run/secrets/aws}. Default: {env.AWS_SECRET_ACCESS_KEY}.
	SecretKey string `json:"secret_key,omitempty"`

	// The session token of temporary credentials. Default: {env.AWS_SESSION_TOKEN} if the access key is that of the
	// environment, otherwise none.
	SessionToken string `json:"session_token,omitempty"`

	// The maximum size of a body in bytes. A body is read into memory before it is signed. A request with a larger one gets
	// 413. Default: 10 MiB.
	MaxBody int64 `json:"max_body,omitempty"`

	// Whether not to sign the body (UNSIGNED-PAYLOAD). Few services allow this, among them S3. The body is then not read into
	// memory. Default: false.
	UnsignedBody bool `json:"unsigned_body,omitempty"`

	signer *v4.Signer
	app    *app.App
}

// CaddyModule returns the Caddy module information.
func (*Transport) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.reverse_proxy.transport.aws_sigv4", New: func() caddy.Module { return new(Transport) }}
}

// Provision sets the defaults and prepares the connections.
func (t *Transport) Provision(ctx caddy.Context) error {
	if t.AccessKey == "" && t.SecretKey == "" {
		t.AccessKey, t.SecretKey = "{env.AWS_ACCESS_KEY_ID}", "{env.AWS_SECRET_ACCESS_KEY}"
		if t.SessionToken == "" {
			t.SessionToken = "{env.AWS_SESSION_TOKEN}"
		}
	}
	if t.Region == "" {
		t.Region = "{env.AWS_REGION}"
	}
	if t.MaxBody == 0 {
		t.MaxBody = defaultMaxBody
	}
	switch {
	case t.Service == "":
		return errors.New("aws_sigv4 needs the service, as in: service execute-api")
	case t.AccessKey == "" || t.SecretKey == "":
		return errors.New("aws_sigv4 needs access_key and secret_key, or neither for those of the environment")
	case t.MaxBody < 0:
		return errors.New("aws_sigv4: max_body is negative")
	}
	for _, text := range []string{t.Region, t.Service, t.AccessKey, t.SecretKey, t.SessionToken} {
		if _, err := caddy.NewReplacer().ReplaceOrErr(text, false, true); err != nil {
			return fmt.Errorf("aws_sigv4: %w: placeholders are {env.*}, {file.*}, {system.*} and {time.*}", err)
		}
		if err := directive.CheckVariable(text); err != nil {
			return fmt.Errorf("aws_sigv4: %w", err)
		}
	}
	agents, err := app.Of(ctx)
	if err != nil {
		return err
	}
	t.app = agents
	t.signer = v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = t.Service == "s3" })
	return t.HTTPTransport.Provision(ctx)
}

// RoundTrip signs a copy of the request and sends it. The request itself, which reverse_proxy may log, has no signature.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	signed := r.Clone(r.Context())
	t.SetScheme(signed)
	if !t.UnsignedBody && tools.CallFromContext(r.Context()) == nil { // the body of a tool call is a part of a body that counts
		if release := route.BoundBody(t.app, signed); release != nil {
			defer release()
		}
	}
	if err := t.sign(signed, time.Now()); err != nil {
		return nil, err // the body stays open: the server would take a closed one for one that was read
	}
	return t.HTTPTransport.RoundTrip(signed)
}

// sign adds the signature to a request.
func (t *Transport) sign(r *http.Request, now time.Time) error {
	repl := caddy.NewReplacer()
	region := strings.TrimSpace(repl.ReplaceKnown(t.Region, ""))
	key := aws.Credentials{
		AccessKeyID:     strings.TrimSpace(repl.ReplaceKnown(t.AccessKey, "")),
		SecretAccessKey: strings.TrimSpace(repl.ReplaceKnown(t.SecretKey, "")),
		SessionToken:    strings.TrimSpace(repl.ReplaceKnown(t.SessionToken, "")),
	}
	if region == "" || key.AccessKeyID == "" || key.SecretAccessKey == "" {
		return caddyhttp.Error(http.StatusServiceUnavailable, errors.New("aws_sigv4: the region, the access key or the secret key has no value, so the request was not sent"))
	}
	if _, err := url.ParseQuery(r.URL.RawQuery); err != nil {
		return caddyhttp.Error(http.StatusBadRequest, fmt.Errorf("aws_sigv4: the query cannot be signed: %w", err))
	}
	hash, err := t.hash(r)
	if err != nil {
		return err
	}
	for _, name := range []string{"Authorization", "X-Amz-Security-Token", "X-Amz-Date"} {
		r.Header.Del(name)
	}
	r.Header.Set(contentHash, hash)
	if r.URL.RawPath == "" { // AWS escapes more characters than net/url
		r.URL.RawPath = httpbinding.EscapePath(r.URL.Path, false)
	}
	bare := r.Clone(r.Context())
	for name := range bare.Header {
		if name != "Content-Type" && !strings.HasPrefix(name, "X-Amz-") {
			delete(bare.Header, name)
		}
	}
	if err := t.signer.SignHTTP(r.Context(), key, bare, hash, repl.ReplaceKnown(t.Service, ""), region, now); err != nil {
		return fmt.Errorf("aws_sigv4: %w", err)
	}
	maps.Copy(r.Header, bare.Header)
	r.Host, r.URL.RawQuery = bare.Host, bare.URL.RawQuery
	return nil
}

// hash returns the digest of the body, which is read into memory.
func (t *Transport) hash(r *http.Request) (string, error) {
	if t.UnsignedBody {
		return unsigned, nil
	}
	var body []byte
	if r.Body != nil && r.Body != http.NoBody {
		var err error
		if body, err = buffer.ReadLimited(r.Body, t.MaxBody); err != nil {
			if errors.Is(err, buffer.ErrTooLarge) {
				return "", caddyhttp.Error(http.StatusRequestEntityTooLarge, fmt.Errorf("aws_sigv4: the body is larger than max_body, which is %d bytes", t.MaxBody))
			}
			if status, _ := respond.BodyFailure(err); status != 0 {
				return "", caddyhttp.Error(status, fmt.Errorf("aws_sigv4: reading the body: %w", err))
			}
			return "", fmt.Errorf("aws_sigv4: reading the body: %w", err)
		}
		_ = r.Body.Close()
		r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
		if len(body) == 0 {
			r.Body = http.NoBody
		}
	}
	digest := sha256.Sum256(body)
	return hex.EncodeToString(digest[:]), nil
}

// UnmarshalCaddyfile sets up the transport from Caddyfile tokens. Syntax:
//
//	transport aws_sigv4 {
//		region        <region>
//		service       <service>
//		access_key    <id>
//		secret_key    <secret>
//		session_token <token>
//		max_body      <size>
//		unsigned_body
//		http {
//			<options of the transport http>
//		}
//	}
func (t *Transport) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the transport
	if d.NextArg() {
		return d.ArgErr()
	}
	b := directive.NewBlock(d)
	return b.Read("aws_sigv4", directive.Options{
		"region":        directive.To(b.Text, &t.Region),
		"service":       directive.To(b.Text, &t.Service),
		"access_key":    directive.To(b.Text, &t.AccessKey),
		"secret_key":    directive.To(b.Text, &t.SecretKey),
		"session_token": directive.To(b.Text, &t.SessionToken),
		"max_body":      directive.To(b.Size, &t.MaxBody),
		"unsigned_body": directive.To(b.Flag, &t.UnsignedBody),
		"http":          func() error { return t.HTTPTransport.UnmarshalCaddyfile(b.NewFromNextSegment()) },
	})
}

// Interface guards
var (
	_ caddy.Provisioner         = (*Transport)(nil)
	_ caddy.CleanerUpper        = (*Transport)(nil)
	_ http.RoundTripper         = (*Transport)(nil)
	_ reverseproxy.TLSTransport = (*Transport)(nil)
	_ caddyfile.Unmarshaler     = (*Transport)(nil)
)
