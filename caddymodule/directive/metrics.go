package directive

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// RegisterMetrics adds collectors to the registry of a configuration, unless another module has added them.
// The collectors of the process stay when Caddy creates a registry for the next configuration.
func RegisterMetrics(registry prometheus.Registerer, collectors ...prometheus.Collector) error {
	for _, c := range collectors {
		already := prometheus.AlreadyRegisteredError{}
		if err := registry.Register(c); err != nil && !errors.As(err, &already) {
			return err
		}
	}
	return nil
}

// namespace is the prefix of the names of Fairway's metrics.
const namespace = "fairway"

// Counter returns a counter fairway_<name>.
func Counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

// Gauge returns a gauge fairway_<name>.
func Gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

// CallDuration returns a histogram fairway_<name> of the durations of calls, in seconds.
func CallDuration(name, help string, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace,
		Name:      name,
		Help:      help,
		Buckets:   []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
	}, labels)
}
