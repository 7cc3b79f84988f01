package agentset

import (
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/oagent"
)

// warnFaults logs a warning about expressions of the agents that compile but are certainly wrong, such as an input that
// a tool does not have. Calls would be refused because of them. It repeats a warning only if the faults have changed.
// l.mu is held.
func (l *Loader) warnFaults(set *Set, read []*oagent.Agent) {
	if !set.complete() {
		return
	}
	found := make(map[string]string, len(read))
	for _, a := range read {
		faults := a.LintExpressions(set.Names)
		if len(faults) == 0 {
			continue
		}
		found[a.Name] = faults.Error()
		if l.faults[a.Name] != found[a.Name] {
			l.options.Logger.Warn("an expression of an agent cannot work, so that calls are refused; correct it, and check with caddy oagent lint --openapi",
				zap.String("agent", a.Name), zap.String("error", found[a.Name]))
		}
	}
	l.faults = found
}
