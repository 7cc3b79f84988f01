package reviewers

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairwayhq/fairway/caddymodule/directive"
)

// Values of the label answer when the program of an agent has made no decision. Otherwise the
// label has the status of the review.
const (
	laterDecision = "later"
	noDecision    = "none"
)

// metrics are the collectors of this package. There is one set in the process, so that they
// survive a reload. The label agent has only names of documents.
var questions = directive.Counter("agent_review_questions_total",
	"Requests to the programs of reviewing agents, and runs of hosted ones, by agent and by decision. later: the program decides later; none: there was no decision.",
	"agent", "answer")

// RegisterMetrics registers the collectors.
func RegisterMetrics(registry prometheus.Registerer) error {
	return directive.RegisterMetrics(registry, questions)
}
