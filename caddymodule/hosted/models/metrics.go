package models

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/internal/calltrace"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
)

// modelMetrics are the collectors of models, named by the OpenTelemetry conventions for
// generative AI. They survive a reload. The labels have only names of the configuration and the
// kinds of errors, so neither clients nor models can create label values.
type modelMetrics struct {
	tokens   *prometheus.HistogramVec // operation, provider, model, token type
	duration *prometheus.HistogramVec // operation, provider, model, error type
	paused   *prometheus.GaugeVec     // provider, model
}

// processMetrics is the only set of these collectors in the process.
var processMetrics = newModelMetrics()

// Labels of the conventions, and the only operation.
const (
	labelOperation = "gen_ai_operation_name"
	labelProvider  = "gen_ai_provider_name"
	labelModel     = "gen_ai_request_model"
	labelTokenType = "gen_ai_token_type" //nolint:gosec // no credential
	labelError     = "error_type"        // "" for a success

	operationChat = "chat"
)

func newModelMetrics() *modelMetrics {
	const namespace, subsystem = "gen_ai", "client"
	return &modelMetrics{
		tokens: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace,
			Subsystem: subsystem,
			Name:      "token_usage",
			Help:      "Tokens of requests to models, as the API reports them, by token type: input, output, or cached, which is the part of input that the API read from its cache.",
			Buckets:   prometheus.ExponentialBuckets(1, 4, 14),
		}, []string{labelOperation, labelProvider, labelModel, labelTokenType}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace,
			Subsystem: subsystem,
			Name:      "operation_duration_seconds",
			Help:      "Duration of requests to models until the response is complete. Each repeated request counts.",
			Buckets:   prometheus.ExponentialBuckets(.01, 2, 14),
		}, []string{labelOperation, labelProvider, labelModel, labelError}),
		paused: directive.Gauge("agent_models_paused", "Models that get no requests for a while, because the latest ones have failed.", labelProvider, labelModel),
	}
}

func (m *modelMetrics) register(registry prometheus.Registerer) error {
	return directive.RegisterMetrics(registry, m.tokens, m.duration, m.paused)
}

// measure returns a Model whose requests are counted. provider and name are those of the
// configuration.
func (m *modelMetrics) measure(of model.Model, provider, name string) model.Model {
	labels := prometheus.Labels{labelOperation: operationChat, labelProvider: provider, labelModel: name}
	tokens := m.tokens.MustCurryWith(labels)
	return &measured{
		Model:    of,
		provider: provider,
		name:     name,
		input:    tokens.WithLabelValues("input"),
		output:   tokens.WithLabelValues("output"),
		cached:   tokens.WithLabelValues("cached"),
		duration: m.duration.MustCurryWith(labels),
	}
}

// measured is a Model whose requests are counted and have spans.
type measured struct {
	model.Model

	provider, name string // of the configuration

	input, output, cached prometheus.Observer
	duration              prometheus.ObserverVec // error type
}

// Generate implements model.Model.
func (m *measured) Generate(ctx context.Context, request *model.Request, onText func(string)) (*model.Response, error) {
	begin := time.Now()
	ctx, span := calltrace.BeginModel(ctx, m.provider, m.name)
	response, err := m.Model.Generate(ctx, request, onText)
	failed := errorType(err)
	m.duration.WithLabelValues(failed).Observe(time.Since(begin).Seconds())
	if err == nil && !response.Usage.Estimated {
		m.input.Observe(float64(response.Usage.InputTokens))
		m.output.Observe(float64(response.Usage.OutputTokens))
		m.cached.Observe(float64(response.Usage.CachedTokens))
		span.Used(response.Usage.InputTokens, response.Usage.OutputTokens)
	}
	span.Finish(failed)
	return response, err
}

// pause counts whether a model gets no requests for a while.
type pause struct {
	gauge prometheus.Gauge

	mu        sync.Mutex
	on, ended bool // after the end, requests of the old configuration may still be in progress
}

func (p *pause) set(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || p.on == on {
		return
	}
	p.on = on
	if on {
		p.gauge.Inc()
	} else {
		p.gauge.Dec()
	}
}

func (p *pause) end() {
	p.set(false)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
}

// errorType returns the label of an error.
func errorType(err error) string {
	if err == nil {
		return ""
	}
	switch kind := model.KindOf(err); {
	case kind != "":
		return string(kind)
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded):
		return string(model.KindTimeout)
	}
	return "internal"
}
