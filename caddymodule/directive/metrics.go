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
