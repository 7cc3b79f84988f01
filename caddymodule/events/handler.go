package events

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/events"
	"github.com/fairwayhq/fairway/events/signature"
	"github.com/fairwayhq/fairway/internal/audit"
	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/respond"
	"github.com/fairwayhq/fairway/tools/result"
	"github.com/fairwayhq/fairway/tools/schema"
)

// Limits of the body of a request, in bytes.
const (
	defaultMaxBody = 256 << 10
	maxMaxBody     = 1 << 20
)

// maxReady is how long a request waits at the start, until agents can be started for its events.
const maxReady = 2 * time.Second

// What happens to an event whose body does not fit its schema.
const (
	invalidStore  = "store"
	invalidRefuse = "refuse"
)

func init() {
	caddy.RegisterModule(new(Handler))
	httpcaddyfile.RegisterDirective("agent_events", func(h httpcaddyfile.Helper) ([]httpcaddyfile.ConfigValue, error) {
		return directive.ParseEndpoint(h, new(Handler))
	})
}

// Handler receives the webhooks of an API. It verifies the signature of each request, and responds with 200 when the events of it are stored. In the
// default order it runs before authentication, because APIs have no other credentials. Requests for other paths are passed on unchanged.
type Handler struct {
	// The path at which the API sends its webhooks. Required.
	Path string `json:"path,omitempty"`

	// The toolset of the API, whose document has the events. Required.
	Toolset string `json:"toolset,omitempty"`

	// How requests are verified. Required.
	Verify *Verification `json:"verify,omitempty"`

	// The URL that the API calls, for signatures over the URL: square, hubspot, twilio, and schemes with {url}. Placeholders are replaced. Default: none.
	PublicURL string `json:"public_url,omitempty"`

	// Which users get an event: a CEL expression over user (id, groups, claims), event (the body), event_name and received_at. If it fails, the user
	// does not get the event. Default: no user gets any.
	For string `json:"for,omitempty"`

	// Events that the document does not have, and changes of those that it has, by the type that the API sends. Default: none.
	Events map[string]*Event `json:"events,omitempty"`

	// The hosted agents that are started for events, by the names of the events. Default: none.
	Starts map[string]string `json:"starts,omitempty"`

	// What happens to an event whose body does not fit its schema: "store", with a warning, or "refuse", with status 400. Default: store.
	Invalid string `json:"invalid,omitempty"`

	// The largest body of a request, in bytes, at most 1 MiB. Default: 256 KiB.
	MaxBody int64 `json:"max_body,omitempty"`

	// How long events are kept. Default: 7d.
	Retention caddy.Duration `json:"retention,omitempty"`

	// The size of all events, in bytes, above which the oldest are deleted. Default: 64 MiB.
	MaxSize int64 `json:"max_size,omitempty"`

	section  *Section
	source   *Source
	verifier *signature.Verifier
	logger   *zap.Logger
}

// Verification is how requests are verified.
type Verification struct {
	// The API: standard (Standard Webhooks), stripe, github, shopify, slack, zoom, square, hubspot, discord or twilio. Default: none; scheme says it.
	Preset string `json:"preset,omitempty"`

	// How the API signs, if there is no preset for it. Default: none.
	Scheme *signature.Scheme `json:"scheme,omitempty"`

	// The secret of the webhook, or the public key of ed25519. Placeholders are replaced. Required.
	Secret string `json:"secret,omitempty"`

	// Another secret that is accepted while the secret is being replaced. Placeholders are replaced. Default: none.
	PreviousSecret string `json:"previous_secret,omitempty"`
}

// CaddyModule returns the Caddy module information.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.agent_events",
		New: func() caddy.Module { return new(Handler) },
	}
}

// scheme returns how requests are signed.
func (v *Verification) scheme() (signature.Scheme, error) {
	if v.Scheme != nil {
		return *v.Scheme, nil
	}
	scheme, ok := signature.Preset(v.Preset)
	if !ok {
		return scheme, fmt.Errorf("verify: unknown preset %s%s", v.Preset, directive.DidYouMean(v.Preset, append(signature.Presets(), schemeHMAC, signature.Ed25519)))
	}
	return scheme, nil
}

// verifier returns the Verifier.
func (v *Verification) verifier(publicURL string) (*signature.Verifier, error) {
	if v == nil || (v.Preset == "") == (v.Scheme == nil) {
		return nil, errors.New("verify is missing: without a signature, anyone could send events, as in: verify stripe {env.SHOP_HOOK_SECRET}")
	}
	scheme, err := v.scheme()
	if err != nil {
		return nil, err
	}
	repl := caddy.NewReplacer()
	var secrets []string
	for i, configured := range []string{v.Secret, v.PreviousSecret} {
		secret, err := repl.ReplaceOrErr(configured, i == 0, true)
		if err != nil {
			return nil, fmt.Errorf("verify: secret: %w", err)
		}
		if secret != "" {
			secrets = append(secrets, secret)
		}
	}
	if len(secrets) == 0 {
		return nil, errors.New("verify: the secret of the webhook is missing")
	}
	created, err := signature.New(scheme, repl.ReplaceAll(publicURL, ""), secrets...)
	if err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	return created, nil
}

// Provision sets up the source of the toolset.
func (h *Handler) Provision(ctx caddy.Context) (err error) {
	h.logger = ctx.Logger()
	if h.section, err = site.SectionOf[*Section](ctx); err != nil {
		return err
	}
	if h.verifier, err = h.Verify.verifier(h.PublicURL); err != nil {
		return err
	}
	toolset, ok := h.section.app.Toolset(h.Toolset)
	switch _, taken := h.section.sources[h.Toolset]; {
	case h.Toolset == "":
		return errors.New("the toolset is missing, as in: agent_events /hooks/shop shop")
	case !ok:
		return fmt.Errorf("unknown toolset %q; %s", h.Toolset, h.section.app.ListNames())
	case taken:
		return fmt.Errorf("toolset %s has two agent_events: one path receives all its webhooks", h.Toolset)
	}
	s := &Source{
		name: h.Toolset, toolset: toolset, site: site.At(ctx), shapes: h.Events, typeAt: h.verifier.TypeAt(), memory: h.section.memory, logger: h.logger,
		refused: make(map[string]refused),
	}
	for name, e := range h.Events {
		if err := e.provision(); err != nil {
			return fmt.Errorf("event %s: %w", name, err)
		}
	}
	if h.For != "" {
		if s.audience, err = compileAudience(h.For); err != nil {
			return fmt.Errorf("for: %w", err)
		}
	}
	s.log = events.NewLog(events.Options{
		Open: h.section.app.Handle.Open, Source: h.Toolset, Retention: time.Duration(h.Retention), MaxSize: h.MaxSize,
	})
	s.starter = newStarter(s, h.section.app.Handle.Open, h.Starts)
	s.toolset.Loader.KeepDocument()
	if err := s.toolset.LoadFile(ctx); err != nil {
		return err
	}
	if err := s.load(); err != nil {
		return err
	}
	s.cancel = s.OnChange(func() {
		if err := s.load(); err != nil {
			h.logger.Error("reading the events of the document failed", zap.Error(err))
		}
	})
	h.source, h.section.sources[h.Toolset] = s, s
	h.MaxBody = cmp.Or(h.MaxBody, defaultMaxBody)
	return nil
}

// provision reads what an event refers to.
func (e *Event) provision() (err error) {
	if e.Schema != "" {
		if e.payload, err = buffer.ReadFile(caddy.NewReplacer().ReplaceAll(e.Schema, ""), events.MaxSize); err != nil {
			return fmt.Errorf("schema: %w", err)
		}
		if _, err := schema.CompileBounded(e.payload); err != nil {
			return fmt.Errorf("schema %s: %w", e.Schema, err)
		}
	}
	if e.Select != "" {
		if e.query, err = result.CompileQuery(e.Select); err != nil {
			return fmt.Errorf("select: %w", err)
		}
	}
	if e.Hide && (e.Select != "" || e.Description != "") {
		return errors.New("describe and select have no effect with hide")
	}
	return nil
}

// maxRetention is the longest time for which events are kept: a store keeps nothing for longer than store.MaxTTL.
const maxRetention = 365 * 24 * time.Hour

// Validate returns an error for invalid options.
func (h *Handler) Validate() error {
	switch {
	case !strings.HasPrefix(h.Path, "/") || h.Path == "/":
		return fmt.Errorf("path %q must begin with a slash, and name a path such as /hooks/shop", h.Path)
	case strings.Contains(h.Path, "*"):
		return fmt.Errorf("path %q must be one path, without *: an API sends all its webhooks there", h.Path)
	case h.MaxBody < 0 || h.MaxBody > maxMaxBody:
		return fmt.Errorf("max_body must be at most 1 MiB; it is %d", h.MaxBody)
	case time.Duration(h.Retention) > maxRetention:
		return errors.New("retention must be at most 365 days")
	case h.Invalid != "" && h.Invalid != invalidStore && h.Invalid != invalidRefuse:
		return fmt.Errorf("invalid %s: use %s or %s", h.Invalid, invalidStore, invalidRefuse)
	}
	return errors.Join(directive.NotNegative("retention", int64(h.Retention)), directive.NotNegative("max_size", h.MaxSize))
}

// A refusal is a response to a request that is not accepted.
type refusal struct {
	status int
	reason string // the label of the metric
	detail string
}

// ServeHTTP receives the webhooks.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if r.URL.Path != h.Path {
		return next.ServeHTTP(w, r)
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		respond.WriteProblem(w, http.StatusMethodNotAllowed, "Method not allowed", "webhooks are sent with POST")
		return nil
	}
	owner := route.OwnerOf(r)
	if err := h.section.requests.Take(owner, 1); err != nil {
		h.refuse(w, &refusal{http.StatusServiceUnavailable, "busy", err.Error()})
		return nil
	}
	defer h.section.requests.Give(owner, 1)
	if release := h.section.app.Bodies.Bound(r, route.OwnerOf); release != nil {
		defer release()
	}
	status, body, refused := h.receive(r)
	switch {
	case refused != nil:
		h.refuse(w, refused)
	case len(body) > 0:
		w.Header().Set("Content-Type", "application/json")
		fallthrough
	default:
		w.WriteHeader(status)
		_, _ = w.Write(body)
	}
	return nil
}

func (h *Handler) refuse(w http.ResponseWriter, refused *refusal) {
	received.WithLabelValues(h.Toolset, refused.reason).Inc()
	h.source.addRefused(refused.reason)
	h.logger.Info("refused a webhook", zap.String("toolset", h.Toolset), zap.String("reason", refused.reason), zap.Int("status", refused.status))
	if refused.status == http.StatusServiceUnavailable || refused.status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", respond.BodyRetry)
	}
	respond.WriteProblem(w, refused.status, "The webhook was not accepted", refused.detail)
}

// receive verifies a request, and stores its events.
func (h *Handler) receive(r *http.Request) (status int, body []byte, refused *refusal) {
	body, refused = h.read(r)
	if refused != nil {
		return 0, nil, refused
	}
	request := &signature.Request{Method: r.Method, Query: r.URL.RawQuery, Header: r.Header, Body: body}
	if err := h.verifier.Verify(request, time.Now()); err != nil {
		reason := map[error]string{signature.ErrMissing: "no_signature", signature.ErrSignature: "wrong_signature", signature.ErrTime: "wrong_time"}[err]
		return 0, nil, &refusal{http.StatusUnauthorized, reason, err.Error()}
	}
	messages, err := h.verifier.Read(request)
	if err != nil {
		return 0, nil, &refusal{http.StatusBadRequest, "no_json", err.Error()}
	}
	if status, body, ok := h.verifier.Handshake(request); ok {
		received.WithLabelValues(h.Toolset, "handshake").Inc()
		return status, body, nil
	}
	t := h.source.types.Load()
	for i := range messages {
		found := t.find(messages[i].Type)
		if found == nil && !t.isLoaded {
			return 0, nil, &refusal{http.StatusServiceUnavailable, "not_loaded", "the document of the API is not loaded yet"}
		}
		if found == nil {
			continue
		}
		if err := found.check(messages[i].Body); err != nil && h.Invalid == invalidRefuse {
			return 0, nil, &refusal{http.StatusBadRequest, "invalid", err.Error()}
		} else if err != nil {
			h.logger.Warn("the body of an event does not fit its schema", zap.String("event", found.Name), zap.String("id", messages[i].ID))
		}
	}
	select {
	case <-h.source.starter.ready:
	case <-time.After(maxReady):
		return 0, nil, &refusal{http.StatusServiceUnavailable, "not_ready", "the gateway cannot start agents yet"}
	}
	for i := range messages {
		if refused := h.store(r.Context(), &messages[i], t.find(messages[i].Type)); refused != nil {
			return 0, nil, refused
		}
	}
	return http.StatusOK, nil, nil
}

// read returns the body of a request.
func (h *Handler) read(r *http.Request) ([]byte, *refusal) {
	tooLarge := &refusal{http.StatusRequestEntityTooLarge, "too_large", fmt.Sprintf("the body has more than %d bytes", h.MaxBody)}
	if r.ContentLength > h.MaxBody {
		return nil, tooLarge
	}
	body, err := buffer.ReadLimited(r.Body, h.MaxBody)
	status, message := respond.BodyFailure(err)
	switch {
	case errors.Is(err, buffer.ErrTooLarge):
		return nil, tooLarge
	case status != 0:
		return nil, &refusal{status, "slow_or_busy", message}
	case err != nil:
		return nil, &refusal{http.StatusBadRequest, "incomplete", "the body could not be read"}
	}
	return body, nil
}

// store stores an event. An event of a type that nothing declares is accepted, because APIs often send more than is wanted.
func (h *Handler) store(ctx context.Context, m *signature.Message, t *eventType) *refusal {
	name, outcome := m.Type, "undeclared"
	if t != nil {
		name = t.Name
		e := &events.Event{ID: m.ID, Name: name, Received: time.Now(), Body: m.Body}
		sum := sha256.Sum256(e.Body)
		entry := audit.Entry{Event: "received", Name: name, EventID: e.ID, Size: len(e.Body), Digest: hex.EncodeToString(sum[:])}
		if err := h.section.archive(ctx, h.Toolset, entry); err != nil {
			return &refusal{http.StatusServiceUnavailable, "archive", err.Error()}
		}
		added, err := h.source.log.Append(ctx, e)
		switch {
		case errors.Is(err, events.ErrTooLarge):
			return &refusal{http.StatusRequestEntityTooLarge, "too_large", err.Error()}
		case err != nil:
			h.logger.Error("storing an event failed", zap.String("event", name), zap.String("id", m.ID), zap.Error(err))
			return &refusal{http.StatusServiceUnavailable, "store", "the event could not be stored"}
		case added:
			outcome = "stored"
		default:
			outcome = "duplicate"
		}
	}
	received.WithLabelValues(h.Toolset, outcome).Inc()
	h.logger.Info("received an event", zap.String("toolset", h.Toolset), zap.String("event", name), zap.String("id", m.ID), zap.String("result", outcome))
	return nil
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.Validator             = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
	_ caddyfile.Unmarshaler       = (*Handler)(nil)
)
