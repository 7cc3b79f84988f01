package models

import (
	"context"
	"errors"
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
			Help:      "Tokens of requests to models, as the API reports them, by token type: input or output.",
			Buckets:   prometheus.ExponentialBuckets(1, 4, 14),
		}, []string{labelOperation, labelProvider, labelModel, labelTokenType}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace,
			Subsystem: subsystem,
			Name:      "operation_duration_seconds",
			Help:      "Duration of requests to models until the response is complete. Each repeated request counts.",
			Buckets:   prometheus.ExponentialBuckets(.01, 2, 14),
		}, []string{labelOperation, labelProvider, labelModel, labelError}),
	}
}

func (m *modelMetrics) register(registry prometheus.Registerer) error {
	return directive.RegisterMetrics(registry, m.tokens, m.duration)
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
		duration: m.duration.MustCurryWith(labels),
	}
}

// measured is a Model whose requests are counted and have spans.
type measured struct {
	model.Model

	provider, name string // of the configuration

	input, output prometheus.Observer
	duration      prometheus.ObserverVec // error type
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
		span.Used(response.Usage.InputTokens, response.Usage.OutputTokens)
	}
	span.Finish(failed)
	return response, err
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
