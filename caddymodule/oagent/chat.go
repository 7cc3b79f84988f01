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
	"github.com/fairwayhq/fairway/ocp"
)

// Defaults of guardrails on traffic to a model API.
const (
	DefaultMaxChatInput  = 16 << 20 // bytes of a request, images and all
	DefaultMaxChatOutput = 4 << 20  // bytes of an answer that is checked
	DefaultChatKeepAlive = 15 * time.Second
)

// defaultChatPaths are those of the model APIs themselves.
var defaultChatPaths = []string{"/v1/chat/completions", "/v1/responses", "/v1/messages"}

// Chat puts the guardrails of the agent that governs a request on traffic to
// a model API: OpenAI's chat completions and responses, Anthropic's messages, and
// what is compatible with them. The tool of the input guardrail is asked before
// the model is, and that of the output guardrail before the client gets the
// answer, which is held until its end, streamed or not. The Engagement ends when a
// guardrail does not hold.
type Chat struct {
	// The paths that are POSTed to, which end in /chat/completions, /responses or
	// /messages; * stands for one segment. Default: /v1/chat/completions,
	// /v1/responses and /v1/messages.
	Paths []string `json:"paths,omitempty"`

	// Where the API of the guardrails' tools is, as https://host. Default: where
	// its document says.
	Upstream string `json:"upstream,omitempty"`

	// Whose messages the input guardrail looks at: user, system, developer,
	// assistant, tool. The user's are always among them. Default: all.
	Roles []string `json:"roles,omitempty"`

	// Lets images, sound and files pass unseen. Default: they are refused where a
	// guardrail would have to look at them.
	AllowMedia bool `json:"allow_media,omitempty"`

	// The largest request, in bytes. Default: 16 MiB.
	MaxInput int64 `json:"max_input,omitempty"`

	// The largest answer that is checked, in bytes; a larger one is refused.
	// Default: 4 MiB.
	MaxOutput int64 `json:"max_output,omitempty"`

	// How often a client that waits for a stream gets a comment, so that nothing
	// on the way takes the connection for dead. Default: 15s. Negative ("off" in
	// the Caddyfile) means never.
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

// check refuses what can never work.
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

// formatOf tells which API a request is for, 0 if for none.
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

// serveChat answers a request to the model, if it is one.
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
			return false, nil //nolint:nilerr // it is judged as every call, and refused there
		}
		return true, p.refuseChatCall()
	}
	x := &chatExchange{passage: p, Chat: o.Chat, format: format}
	if refusal != nil {
		return true, x.refuse(refusal)
	}
	return true, x.serve()
}

// refuseChatCall refuses a tool call that asks a model whose traffic guardrails
// look at: the call would go past them.
func (p *passage) refuseChatCall() error {
	p.rec, p.name = recorderOf(p.w), oagent.KebabName(p.call.Tool.Name)
	return p.answerRefusal(p.refuse(kindUnreadable, 0, "", fmt.Sprintf(
		"the call of %s was not made: it asks a model, and the guardrails of the agent %s look at requests to %s alone; send it there",
		p.name, p.agent.Name, p.r.URL.Path), nil))
}

// chatExchange is one request to a model and its answer.
type chatExchange struct {
	*passage
	*Chat
	format  chat.Format
	guard   *oagent.Guard
	request *chat.Request
	alive   *keepAlive // nil unless the client waits for a stream
	asked   bool       // the model has been
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

// open finds the Engagement, which must not have ended.
func (x *chatExchange) open() (err error) {
	if x.guard, err = x.passage.guard(x.r); err != nil {
		x.Chat.logger.Error("the records of agents cannot be opened", zap.Error(err))
		return &chat.Fault{
			Status: http.StatusServiceUnavailable, Code: string(oagent.KindStore),
			Message: "the model was not asked, because the record of the Engagement cannot be kept just now: try again later",
		}
	}
	return x.guard.CheckActive(x.r.Context(), x.binding)
}

// passOn lets the model answer as it likes.
func (x *chatExchange) passOn() error {
	x.allow()
	w := &exposingWriter{ResponseWriterWrapper: caddyhttp.ResponseWriterWrapper{ResponseWriter: x.w}, exposed: make(http.Header)}
	x.expose(w.exposed)
	return x.next.ServeHTTP(w, x.r)
}

// exposingWriter is a http.ResponseWriter of which the agent alone says what is
// exposed.
type exposingWriter struct {
	caddyhttp.ResponseWriterWrapper
	exposed http.Header
}

// WriteHeader replaces what the API says that the agent exposes.
func (w *exposingWriter) WriteHeader(status int) {
	delete(w.Header(), headerExposes)
	maps.Copy(w.Header(), w.exposed)
	w.ResponseWriterWrapper.WriteHeader(status)
}

// allow tells of a request that has passed.
func (x *chatExchange) allow() {
	x.decided(allowed)
	x.tell(allowed, nil, "")
}

// readChat reads the request, and puts its body back as it was.
func (x *chatExchange) readChat() (err error) {
	if coding := x.r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return &chat.Fault{
			Status: http.StatusUnsupportedMediaType, Code: chat.CodeMalformed,
			Message: "the request is compressed, so that no guardrail can look at it: send it without Content-Encoding",
		}
	}
	body := new(buffer.Buffer) // not of the pool: the transport may read of it after the answer has come
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
	x.r.Header.Set("Content-Type", "application/json") // in no other character set than it was read in
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

// refuse tells the client why there is no answer, as the API does.
func (x *chatExchange) refuse(err error) error {
	fault, wait := x.faultOf(err)
	if wait > 0 && !x.alive.stop() {
		x.w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
	}
	x.write(fault)
	return nil
}

// write answers with a fault.
func (x *chatExchange) write(fault *chat.Fault) {
	if x.alive.stop() {
		_, _ = x.w.Write(x.format.AppendErrorEvent(nil, fault)) // the client may be gone
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

// faultOf puts an error into the words of the API, and tells the log of it.
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

// refusedBy returns the refusal that an error stands for.
func (x *chatExchange) refusedBy(err error) *refused {
	if _, ok := oagent.AsRefusal(err); ok {
		return refusedBy(err)
	}
	if fault, ok := chat.AsFault(err); ok {
		return x.passage.refuse(oagent.Kind(fault.Code), fault.Status, "", fault.Message, nil)
	}
	return x.passage.refuse(kindUnreadable, http.StatusInternalServerError, "", "the gateway failed; its log says why", err)
}
