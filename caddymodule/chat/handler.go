// Package chat applies the guardrails of agents to traffic to a model API. It is the subdirective
// chat of the directive oagent, which it registers as a guard.Part.
//
// Data passes through it in this order:
//
//   - The directive recognizes a request to the model API by Handler.IsFor and calls
//     Handler.Serve with the agent and the Engagement (guard.ModelRequest).
//   - An exchange parses the request and gives the new messages to the input guardrail
//     (exchange.go). Messages that have passed before are remembered (passed_texts.go).
//   - It calls the model through the next handlers, holds the whole response, and gives its text to
//     the output guardrail (response.go). A client that waits for a stream gets comments meanwhile
//     (keep_alive.go).
//   - It sends the response, or a refusal in the error format of the model API.
//
// The formats of the model APIs are in package github.com/fairwayhq/fairway/oagent/chat.
package chat

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/caddymodule/internal/agentset"
	guard "github.com/fairwayhq/fairway/caddymodule/oagent"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/oagent/chat"
	"github.com/fairwayhq/fairway/tools"
)

func init() { guard.RegisterPart(func() guard.Part { return new(part) }) }

// Defaults for guardrails on traffic to a model API.
const (
	defaultMaxInput  = 16 << 20 // bytes of a request, including images
	defaultMaxOutput = 4 << 20  // bytes of a checked response
	defaultKeepAlive = 15 * time.Second
)

// defaultPaths are the paths of the public model APIs.
var defaultPaths = []string{"/v1/chat/completions", "/v1/responses", "/v1/messages"}

// Handler applies the guardrails of the governing agent to traffic to a model API (OpenAgentSpec
// v1, guardrails). It supports OpenAI's chat completions and responses, Anthropic's messages,
// and compatible APIs.
//
//   - The input guardrail's tool is called before the model.
//   - The output guardrail's tool is called before the client gets the response. The whole
//     response is held until then, streamed or not.
//   - If a guardrail's assertion does not hold, the Engagement ends.
type Handler struct {
	// The paths of the model API, for POST requests. Each must end in /chat/completions,
	// /responses or /messages; * matches one segment. Default: /v1/chat/completions,
	// /v1/responses and /v1/messages.
	Paths []string `json:"paths,omitempty"`

	// The origin of the API of the guardrails' tools, as https://host. Default: the server in
	// its OpenAPI document.
	Upstream string `json:"upstream,omitempty"`

	// The roles whose messages the input guardrail checks: user, system, developer, assistant,
	// tool. user is always included. Default: all.
	Roles []string `json:"roles,omitempty"`

	// Whether images, audio and files pass unchecked. If false, they are refused wherever a
	// guardrail would have to check them. Default: false.
	AllowMedia bool `json:"allow_media,omitempty"`

	// The maximum size of a request, in bytes. Default: 16 MiB.
	MaxInput int64 `json:"max_input,omitempty"`

	// The maximum size of a checked response, in bytes. A larger response is refused. Default:
	// 4 MiB.
	MaxOutput int64 `json:"max_output,omitempty"`

	// How often a comment is sent to a client that waits for a stream, so that proxies do not
	// close the idle connection. A negative value ("off" in the Caddyfile) disables these
	// comments. Default: 15s.
	KeepAlive caddy.Duration `json:"keep_alive,omitempty"`

	passed     passedTexts
	guardrails *agentset.GuardrailCaller
	logger     *zap.Logger
}

// part is the part of the handler oagent with the option chat.
type part struct {
	// Applies the agents' guardrails to traffic to a model API. Default: no guardrails on
	// model traffic.
	Chat *Handler `json:"chat,omitempty"`
}

// Provision implements guard.Part.
func (p *part) Provision(ctx caddy.Context, o *guard.Handler) error {
	if p.Chat == nil {
		return nil
	}
	o.Chat = p.Chat
	return p.Chat.provision(ctx.Logger())
}

// ServedPaths implements guard.PathServer.
func (p *part) ServedPaths() (option string, paths []string) {
	if p.Chat != nil {
		paths = p.Chat.Paths
	}
	return "chat", paths
}

// provision sets the defaults and checks the options.
func (h *Handler) provision(logger *zap.Logger) error {
	h.logger = logger
	if len(h.Paths) == 0 {
		h.Paths = defaultPaths
	}
	h.MaxInput = cmp.Or(h.MaxInput, defaultMaxInput)
	h.MaxOutput = cmp.Or(h.MaxOutput, defaultMaxOutput)
	h.KeepAlive = cmp.Or(h.KeepAlive, caddy.Duration(defaultKeepAlive))
	h.Upstream = caddy.NewReplacer().ReplaceAll(h.Upstream, "")
	h.guardrails = &agentset.GuardrailCaller{Upstream: h.Upstream, Chat: true, Logger: logger}
	return h.check()
}

// Guardrails implements guard.Chat.
func (h *Handler) Guardrails() *agentset.GuardrailCaller { return h.guardrails }

// check rejects invalid options.
func (h *Handler) check() error {
	for _, p := range h.Paths {
		if err := checkPath(p); err != nil {
			return fmt.Errorf("chat %s: %w", p, err)
		}
	}
	for _, role := range h.Roles {
		if err := checkRole(role); err != nil {
			return fmt.Errorf("chat: roles %s: %w", role, err)
		}
	}
	if err := errors.Join(directive.NotNegative("chat: max_input", h.MaxInput), directive.NotNegative("chat: max_output", h.MaxOutput)); err != nil {
		return err
	}
	if h.Upstream == "" {
		return nil
	}
	if _, err := tools.NewHTTPInvoker(h.Upstream); err != nil {
		return fmt.Errorf("chat: upstream: %w", err)
	}
	return nil
}

func checkPath(p string) error {
	if !strings.HasPrefix(p, "/") {
		return route.ErrNoSlash
	}
	if _, err := path.Match(p, "/"); err != nil {
		return errors.New("not a valid pattern")
	}
	if chat.FormatOf(p) == 0 {
		return errors.New("the path must end in /chat/completions, /responses or /messages")
	}
	return nil
}

func checkRole(role string) error {
	switch role {
	case "user", "system", "developer", "assistant", "tool":
		return nil
	}
	return errors.New("must be user, system, developer, assistant or tool")
}

// IsFor implements guard.Chat.
func (h *Handler) IsFor(r *http.Request) bool { return h.formatOf(r) != 0 }

// formatOf returns the model API that a request is for, or 0 if it is for none.
func (h *Handler) formatOf(r *http.Request) chat.Format {
	if r.Method != http.MethodPost {
		return 0
	}
	for _, pattern := range h.Paths {
		if matched, err := path.Match(pattern, r.URL.Path); err == nil && matched {
			return chat.FormatOf(r.URL.Path)
		}
	}
	return 0
}
