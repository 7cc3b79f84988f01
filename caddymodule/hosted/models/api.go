package models

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app/credential"
	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/internal/oauth"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
	"github.com/fairwayhq/fairway/oagent/hosted/model/modelapi"
)

const (
	defaultRetries      = 2
	maxRetries          = 10
	defaultMaxFails     = 5
	defaultFailDuration = 30 * time.Second
	maxTemperature      = 2
)

// API are the options of a model behind an HTTP API.
//
// Placeholders that do not depend on a request are allowed in base_url, api_key and model:
// {env.*}, {file.*} and {system.*}. That of the key is resolved for each request, so a changed
// file takes effect with the next one.
type API struct {
	// The address of the API, the model, and how it generates text.
	model.APIOptions

	// The API key. Use a placeholder to keep it out of the configuration, as in
	// "{env.MODEL_KEY}" or "{file./run/secrets/key}". Default: none, for APIs without keys.
	APIKey string `json:"api_key,omitempty"`

	// How long the API may send nothing: before its response, or between two pieces of a stream. Default: 2m.
	Timeout caddy.Duration `json:"timeout,omitempty"`

	// How often a request is repeated at once if the API is overloaded, unreachable or asks to wait a little, or if its
	// response breaks off; at most 10. After that, the run waits until the model is available. With 0, each request is
	// made once, and a run whose request fails ends. Default: 2.
	Retries *int `json:"retries,omitempty"`

	// The number of requests that fail in a row before the model gets no more for a while: if they cannot be sent, get no
	// response, or one with 429, 408 or 5xx. Default: 5.
	MaxFails int `json:"max_fails,omitempty"`

	// How long the model gets no requests then. The next one decides whether it is available again. Default: 30s.
	FailDuration caddy.Duration `json:"fail_duration,omitempty"`

	// The model that gets the requests while this one is unavailable, after the retries. It may have a fallback too.
	// Default: none.
	FallbackRaw json.RawMessage `json:"fallback,omitempty" caddy:"namespace=oagent.models inline_key=name"`

	// Headers and query parameters of each request, such as other credentials than api_key, or the api-version of Azure.
	// Default: none.
	Credentials []json.RawMessage `json:"credentials,omitempty" caddy:"namespace=agents.credentials inline_key=in"`

	generator model.Model
	transport *http.Transport
	pause     *pause
	logger    *zap.Logger
}

// provision creates the model. create is New of the package of the API.
func (a *API) provision(ctx caddy.Context, provider, baseURL string, create func(model.APIOptions) (model.Model, error)) error {
	if err := processMetrics.register(ctx.GetMetricsRegistry()); err != nil {
		return err
	}
	options, err := a.options()
	if err != nil {
		return err
	}
	credentials, err := credential.Load(ctx, a.Credentials, ctx.Logger())
	if err != nil {
		return err
	}
	if len(credentials) > 0 {
		options.Authorize = credentials.Apply
	}
	if options, err = options.WithDefaults(baseURL); err != nil {
		return err
	}
	a.warn(ctx.Logger(), options)
	m, err := create(options)
	if err != nil {
		return err
	}
	retries := defaultRetries
	if a.Retries != nil {
		retries = *a.Retries
	}
	a.pause = &pause{gauge: processMetrics.paused.WithLabelValues(provider, options.Model)}
	a.logger = ctx.Logger().With(zap.String("provider", provider), zap.String("model", options.Model))
	breaker := model.WithBreaker(processMetrics.measure(m, provider, options.Model), model.BreakerOptions{
		MaxFails: cmp.Or(a.MaxFails, defaultMaxFails), FailDuration: cmp.Or(time.Duration(a.FailDuration), defaultFailDuration),
		Changed: a.changed,
	})
	a.generator = model.WithRetries(breaker, retries)
	return a.loadFallback(ctx)
}

// changed logs and counts that the model gets no more requests for a while; with a nil cause, that it gets them again.
func (a *API) changed(cause *model.Error) {
	if a.pause.set(cause != nil); cause == nil {
		a.logger.Info("the model is available again")
		return
	}
	a.logger.Warn("the model is unavailable: it gets no requests for a while", zap.String("kind", string(cause.Kind)), zap.Error(cause))
}

// loadFallback loads the fallback, if there is one.
func (a *API) loadFallback(ctx caddy.Context) error {
	if a.FallbackRaw == nil {
		return nil
	}
	loaded, err := ctx.LoadModule(a, "FallbackRaw")
	if err != nil {
		return fmt.Errorf("fallback: %w", err)
	}
	fallback, ok := loaded.(model.Model)
	if !ok {
		return fmt.Errorf("fallback: %T is not a model", loaded)
	}
	a.generator = model.WithFallback(a.generator, fallback)
	return nil
}

// Generate implements model.Model.
func (a *API) Generate(ctx context.Context, request *model.Request, onText func(string)) (*model.Response, error) {
	return a.generator.Generate(ctx, request, onText)
}

// options returns the options with their placeholders replaced.
func (a *API) options() (model.APIOptions, error) {
	o := a.APIOptions
	o.Timeout = time.Duration(a.Timeout)
	if err := errors.Join(directive.NotNegative("max_fails", int64(a.MaxFails)), directive.NotNegative("fail_duration", int64(a.FailDuration))); err != nil {
		return o, err
	}
	if err := checkTemperature(a.Temperature); err != nil {
		return o, err
	}
	if a.Retries != nil && (*a.Retries < 0 || *a.Retries > maxRetries) {
		return o, fmt.Errorf("retries %d is not between 0 and %d", *a.Retries, maxRetries)
	}
	repl := caddy.NewReplacer()
	var err error
	if o.BaseURL, err = repl.ReplaceOrErr(a.BaseURL, true, true); err != nil {
		return o, fmt.Errorf("base_url: %w", err)
	}
	if o.Model, err = repl.ReplaceOrErr(a.Model, true, true); err != nil {
		return o, fmt.Errorf("model: %w", err)
	}
	if a.APIKey != "" {
		if _, err := repl.ReplaceOrErr(a.APIKey, false, true); err != nil {
			return o, fmt.Errorf("api_key: %w: use {env.*} or {file.*}", err)
		}
		o.Key = func() (string, error) { return caddy.NewReplacer().ReplaceOrErr(a.APIKey, true, true) }
	}
	a.transport = model.NewTransport()
	o.Transport = a.transport
	return o, nil
}

// checkTemperature returns an error for a temperature that no API knows. It may be nil.
func checkTemperature(t *float64) error {
	if t != nil && !(*t >= 0 && *t <= maxTemperature) {
		return fmt.Errorf("temperature %v is not between 0 and %d", *t, maxTemperature)
	}
	return nil
}

// warn logs what is valid but probably a mistake. It does not log the key.
func (a *API) warn(logger *zap.Logger, o model.APIOptions) {
	if o.Key != nil {
		if key, err := o.Key(); err != nil {
			logger.Warn("the API key of the model has no value; requests fail until it has one", zap.Error(err))
		} else if len(key) < directive.MinSecret {
			logger.Warn("the API key of the model is very short; is its placeholder correct?")
		}
	}
	if (o.Key != nil || o.Authorize != nil) && oauth.CheckAddress(o.BaseURL) != nil {
		logger.Warn("the API key and the conversations are sent unencrypted; use https in base_url", zap.String("base_url", o.BaseURL))
	}
}

// Cleanup closes idle connections.
func (a *API) Cleanup() error {
	if a.transport != nil {
		a.transport.CloseIdleConnections()
	}
	if a.pause != nil {
		a.pause.end()
	}
	return nil
}

// OpenAI is a model behind an OpenAI-compatible API (chat completions): OpenAI, vLLM, Ollama,
// llama.cpp and others.
type OpenAI struct {
	API

	// Like max_tokens, for models that expect the limit as max_completion_tokens. Default: max_completion_tokens is sent
	// to api.openai.com, and to servers that reject max_tokens.
	MaxCompletionTokens int `json:"max_completion_tokens,omitempty"`
}

// CaddyModule returns the Caddy module information.
func (OpenAI) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "oagent.models.openai", New: func() caddy.Module { return new(OpenAI) }}
}

// Provision sets up the module.
func (m *OpenAI) Provision(ctx caddy.Context) error {
	if m.MaxCompletionTokens != 0 && m.MaxTokens != 0 {
		return errors.New("max_tokens and max_completion_tokens are the same limit: remove one")
	}
	return m.provision(ctx, "openai", modelapi.OpenAIBaseURL, func(o model.APIOptions) (model.Model, error) {
		if m.MaxCompletionTokens != 0 {
			o.MaxTokens, o.CompletionTokens = m.MaxCompletionTokens, true
		}
		return modelapi.NewOpenAI(o)
	})
}

// Responses is a model behind OpenAI's Responses API. Nothing is stored there: each request has the whole conversation.
type Responses struct{ API }

// CaddyModule returns the Caddy module information.
func (Responses) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "oagent.models.openai_responses", New: func() caddy.Module { return new(Responses) }}
}

// Provision sets up the module.
func (m *Responses) Provision(ctx caddy.Context) error {
	return m.provision(ctx, "openai", modelapi.OpenAIBaseURL, func(o model.APIOptions) (model.Model, error) { return modelapi.NewResponses(o) })
}

// Anthropic is a model of Anthropic (Messages API).
type Anthropic struct{ API }

// CaddyModule returns the Caddy module information.
func (Anthropic) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "oagent.models.anthropic", New: func() caddy.Module { return new(Anthropic) }}
}

// Provision sets up the module.
func (m *Anthropic) Provision(ctx caddy.Context) error {
	return m.provision(ctx, "anthropic", modelapi.AnthropicBaseURL, func(o model.APIOptions) (model.Model, error) { return modelapi.NewAnthropic(o) })
}

func init() {
	caddy.RegisterModule(OpenAI{})
	caddy.RegisterModule(Responses{})
	caddy.RegisterModule(Anthropic{})
	caddy.RegisterModule(Scripted{})
}

// Interface guards
var (
	_ caddy.Provisioner  = (*OpenAI)(nil)
	_ caddy.CleanerUpper = (*OpenAI)(nil)
	_ model.Model        = (*OpenAI)(nil)
	_ caddy.Provisioner  = (*Responses)(nil)
	_ caddy.CleanerUpper = (*Responses)(nil)
	_ model.Model        = (*Responses)(nil)
	_ caddy.Provisioner  = (*Anthropic)(nil)
	_ caddy.CleanerUpper = (*Anthropic)(nil)
	_ model.Model        = (*Anthropic)(nil)
)
