package oagent

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/caddymodule/toolcall"
	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/headerkind"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/chat"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/ocp"
)

// Defaults for guardrails on traffic to a model API.
const (
	DefaultMaxChatInput  = 16 << 20 // bytes of a request, including images
	DefaultMaxChatOutput = 4 << 20  // bytes of a checked response
	DefaultChatKeepAlive = 15 * time.Second
)

// defaultChatPaths are the paths of the public model APIs.
var defaultChatPaths = []string{"/v1/chat/completions", "/v1/responses", "/v1/messages"}

// Chat applies the guardrails of the governing agent to traffic to a model API (OpenAgentSpec
// v1, guardrails). It supports OpenAI's chat completions and responses, Anthropic's messages,
// and compatible APIs.
//
//   - The input guardrail's tool is called before the model.
//   - The output guardrail's tool is called before the client gets the response. The whole
//     response is held until then, streamed or not.
//   - If a guardrail's assertion does not hold, the Engagement ends.
type Chat struct {
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

	passed passedTexts
	logger *zap.Logger
}

func (c *Chat) provision(logger *zap.Logger) error {
	c.logger = logger
	if len(c.Paths) == 0 {
		c.Paths = defaultChatPaths
	}
	if c.MaxInput == 0 {
		c.MaxInput = DefaultMaxChatInput
	}
	if c.MaxOutput == 0 {
		c.MaxOutput = DefaultMaxChatOutput
	}
	if c.KeepAlive == 0 {
		c.KeepAlive = caddy.Duration(DefaultChatKeepAlive)
	}
	c.Upstream = caddy.NewReplacer().ReplaceAll(c.Upstream, "")
	return c.check()
}

// check rejects invalid options.
func (c *Chat) check() error {
	for _, p := range c.Paths {
		if err := checkChatPath(p); err != nil {
			return fmt.Errorf("chat %s: %w", p, err)
		}
	}
	for _, role := range c.Roles {
		if err := checkChatRole(role); err != nil {
			return fmt.Errorf("chat: roles %s: %w", role, err)
		}
	}
	if err := errors.Join(directive.NotNegative("chat: max_input", c.MaxInput), directive.NotNegative("chat: max_output", c.MaxOutput)); err != nil {
		return err
	}
	if c.Upstream == "" {
		return nil
	}
	if _, err := ocp.NewHTTPInvoker(c.Upstream); err != nil {
		return fmt.Errorf("chat: upstream: %w", err)
	}
	return nil
}

func checkChatPath(p string) error {
	if !strings.HasPrefix(p, "/") {
		return toolcall.ErrNoSlash
	}
	if _, err := path.Match(p, "/"); err != nil {
		return errors.New("that is no pattern")
	}
	if chat.FormatOf(p) == 0 {
		return errors.New("the path of a model API ends in /chat/completions, /responses or /messages")
	}
	return nil
}

func checkChatRole(role string) error {
	switch role {
	case "user", "system", "developer", "assistant", "tool":
		return nil
	}
	return errors.New("it is user, system, developer, assistant or tool")
}

// formatOf returns the model API that a request is for, or 0 if it is for none.
func (c *Chat) formatOf(r *http.Request) chat.Format {
	if r.Method != http.MethodPost {
		return 0
	}
	for _, pattern := range c.Paths {
		if matched, err := path.Match(pattern, r.URL.Path); err == nil && matched {
			return chat.FormatOf(r.URL.Path)
		}
	}
	return 0
}

// serveChat handles the request if it goes to the model API.
func (o *Handler) serveChat(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) (answered bool, err error) {
	if o.Chat == nil {
		return false, nil
	}
	format := o.Chat.formatOf(r)
	if format == 0 {
		return false, nil
	}
	p, refusal := o.beside(w, r, next)
	if p.call = ocp.CallFromContext(r.Context()); p.call != nil {
		if refusal != nil || p.agent.Input == nil && p.agent.Output == nil {
			return false, nil //nolint:nilerr // it is checked like any other call, and refused there
		}
		return true, p.refuseChatCall()
	}
	x := &chatExchange{passage: p, Chat: o.Chat, format: format}
	if refusal != nil {
		return true, x.refuse(refusal)
	}
	return true, x.serve()
}

// refuseChatCall refuses a tool call to a model API that has guardrails, because the call
// would bypass them.
func (p *passage) refuseChatCall() error {
	p.rec, p.name = recorderOf(p.w), oagent.KebabName(p.call.Tool.Name)
	return p.answerRefusal(p.refuse(kindUnreadable, 0, "", fmt.Sprintf(
		"the call of %s was not made: it asks a model, and the guardrails of the agent %s look at requests to %s alone; send it there",
		p.name, p.agent.Name, p.r.URL.Path), nil))
}

// chatExchange is one request to a model and its response.
type chatExchange struct {
	*passage
	*Chat
	format  chat.Format
	guard   *oagent.Guard
	request *chat.Request
	alive   *keepAlive // nil unless the client waits for a stream
	asked   bool       // the model was called
}

func (x *chatExchange) serve() error {
	if err := x.open(); err != nil {
		return x.refuse(err)
	}
	agent := x.binding.Agent
	if agent.Input == nil && agent.Output == nil {
		return x.passOn()
	}
	if err := x.readChat(); err != nil {
		return x.refuse(err)
	}
	if err := x.checkInput(); err != nil {
		return x.refuse(err)
	}
	if agent.Output == nil {
		return x.passOn()
	}
	if x.request.Background {
		return x.refuse(&chat.Fault{
			Status: http.StatusForbidden, Code: chat.CodeUnchecked,
			Message: "an answer in the background is not looked at by the guardrail: ask without background",
		})
	}
	if x.request.Stream {
		x.alive = startKeepAlive(x.w, time.Duration(x.KeepAlive))
		defer x.alive.stop()
	}
	return x.answer()
}

// open finds the Engagement. It must not have ended.
func (x *chatExchange) open() (err error) {
	if x.guard, err = x.passage.guard(x.r); err != nil {
		x.Chat.logger.Error("the records of agents cannot be opened", zap.Error(err))
		return &chat.Fault{
			Status: http.StatusServiceUnavailable, Code: string(engagement.KindStore),
			Message: "the model was not asked, because the record of the Engagement cannot be kept just now: try again later",
		}
	}
	return x.guard.CheckActive(x.r.Context(), x.binding)
}

// passOn passes the model's response on unchecked.
func (x *chatExchange) passOn() error {
	x.allow()
	w := &exposingWriter{ResponseWriterWrapper: caddyhttp.ResponseWriterWrapper{ResponseWriter: x.w}, exposed: make(http.Header)}
	x.expose(w.exposed)
	return x.next.ServeHTTP(w, x.r)
}

// exposingWriter is an http.ResponseWriter that sets the header of exposed values. An API
// cannot forge this header.
type exposingWriter struct {
	caddyhttp.ResponseWriterWrapper
	exposed http.Header
}

// WriteHeader replaces the API's value of the header by the values that the agent exposes.
func (w *exposingWriter) WriteHeader(status int) {
	delete(w.Header(), headerExposes)
	maps.Copy(w.Header(), w.exposed)
	w.ResponseWriterWrapper.WriteHeader(status)
}

// allow logs and counts a request that was allowed.
func (x *chatExchange) allow() {
	x.decided(allowed)
	x.tell(allowed, nil, "")
}

// readChat parses the request and restores its body.
func (x *chatExchange) readChat() (err error) {
	if coding := x.r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return &chat.Fault{
			Status: http.StatusUnsupportedMediaType, Code: chat.CodeMalformed,
			Message: "the request is compressed, so that no guardrail can look at it: send it without Content-Encoding",
		}
	}
	body := new(buffer.Buffer) // not from the pool: the transport may still read it after the response has arrived
	switch err := body.ReadAll(x.r.Body, x.Chat.MaxInput); {
	case errors.Is(err, buffer.ErrTooLarge):
		return &chat.Fault{
			Status: http.StatusRequestEntityTooLarge, Code: chat.CodeMalformed,
			Message: fmt.Sprintf("the request has more than %d bytes, which is the limit", x.Chat.MaxInput),
		}
	case err != nil:
		return &chat.Fault{Status: http.StatusBadRequest, Code: chat.CodeMalformed, Message: "the request could not be read to its end"}
	}
	options := x.options()
	options.AllowMedia = options.AllowMedia || x.binding.Agent.Input == nil
	if x.request, err = x.format.ReadRequest(body.B, options); err != nil {
		return err
	}
	x.r.Body = io.NopCloser(bytes.NewReader(body.B))
	x.r.ContentLength, x.r.TransferEncoding = int64(len(body.B)), nil
	x.r.Trailer = nil
	delete(x.r.Header, "Trailer")
	x.r.Header.Set("Content-Length", strconv.Itoa(len(body.B)))
	x.r.Header.Set("Accept-Encoding", "identity")
	x.r.Header.Set("Content-Type", "application/json") // prevents the model API from assuming another character set
	for name := range x.r.Header {
		if headerkind.Of(name) != headerkind.Ordinary {
			delete(x.r.Header, name)
		}
	}
	return nil
}

func (c *Chat) options() chat.ReadOptions {
	return chat.ReadOptions{Roles: c.Roles, AllowMedia: c.AllowMedia}
}

// refuse sends the reason for the refusal in the error format of the API.
func (x *chatExchange) refuse(err error) error {
	fault, wait := x.faultOf(err)
	if wait > 0 && !x.alive.stop() {
		x.w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
	}
	x.write(fault)
	return nil
}

// write responds with a fault.
func (x *chatExchange) write(fault *chat.Fault) {
	if x.alive.stop() {
		_, _ = x.w.Write(x.format.AppendErrorEvent(nil, fault)) // the client may have disconnected
		return
	}
	body := x.format.AppendError(nil, fault)
	header := x.w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	header.Set("Cache-Control", "no-store")
	x.w.WriteHeader(fault.Status)
	_, _ = x.w.Write(body)
}

// faultOf converts an error to the error format of the API, and logs it.
func (x *chatExchange) faultOf(err error) (fault *chat.Fault, retryAfter time.Duration) {
	refusal := &refused{}
	ok := errors.As(err, &refusal)
	if !ok {
		refusal = x.refusedBy(err)
	}
	x.status, refusal.Made = refusal.status, refusal.Made || x.asked
	x.adviseRenewal(refusal)
	x.recordRefusal(refusal)
	x.decided(string(refusal.Kind))
	x.tell(string(refusal.Kind), refusal, "")
	return &chat.Fault{Status: refusal.status, Code: string(refusal.Kind), Message: refusal.Message}, refusal.RetryAfter
}

// refusedBy returns the refusal for an error.
func (x *chatExchange) refusedBy(err error) *refused {
	if _, ok := engagement.AsRefusal(err); ok {
		return refusedBy(err)
	}
	if fault, ok := chat.AsFault(err); ok {
		return x.passage.refuse(engagement.Kind(fault.Code), fault.Status, "", fault.Message, nil)
	}
	return x.passage.refuse(kindUnreadable, http.StatusInternalServerError, "", "the gateway failed; its log says why", err)
}
