package route

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"net/http"
	"strings"

	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/internal/keptcall"
	"github.com/fairwayhq/fairway/caddymodule/internal/metrics"
	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/calltrace"
	"github.com/fairwayhq/fairway/internal/celenv"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/inspect"
	"github.com/fairwayhq/fairway/tools/logonly"
	"github.com/fairwayhq/fairway/tools/rule"
)

// Rules in log only never change a call. What they would have done is in the entry of the call (CallEntry) until the call has ended. It
// is reported if the call went through. Nothing of this file runs for toolsets and agents without such rules.

// unkept is the Recorder of calls that have an entry only for rules in log only.
type unkept struct{}

func (unkept) Begin(*keptcall.Call, []byte)          {}
func (unkept) Record(*keptcall.Call, []byte, []byte) {}
func (unkept) Forget(*keptcall.Call)                 {}

// noteWould keeps what a rule would have done to the call of a context. The first one stays.
func noteWould(ctx context.Context, would logonly.Would) {
	if entry := CallEntry(ctx); entry != nil && entry.Would.Effect == "" {
		entry.Would = would
	}
}

// wouldOfFiles returns what an inspector in log only would have done about the uploaded files of a call.
func wouldOfFiles(call *tools.Call) (would logonly.Would) {
	if call == nil {
		return would
	}
	if files, ok := call.Files.(interface{ Would() logonly.Would }); ok {
		would = files.Would()
	}
	return would
}

// ReportWould counts a call that went through although a rule in log only would have stopped or changed it, and adds it to the span of the
// context. agent is the name of the document that governs the call, or "".
func ReportWould(ctx context.Context, agent string, would logonly.Would) {
	metrics.All.Would(agent, would.Rule)
	calltrace.Decision(ctx, calltrace.EventWould, agent, would.String(), would.Rule)
}

// ReportIncomplete counts and logs that a rule in log only could not be judged.
func ReportIncomplete(logger *zap.Logger, agent, name, why string) {
	metrics.All.Incomplete(agent, name)
	logger.Info("a rule in log only could not be judged", zap.String("agent", agent), zap.String("rule", name), zap.String("reason", why))
}

// conclude reports what a rule in log only would have done to a call, or forgets it if the call did not go through.
func (r callRun) conclude(ctx context.Context, entry *keptcall.Call, outcome *tools.Outcome) {
	if f := outcome.Failure; f != nil && (f.Kind == tools.Restricted || f.Kind == tools.Unauthorized || f.Kind == tools.InvalidArguments) {
		entry.Would = logonly.Would{}
		return
	}
	ReportWould(ctx, entry.Agent, entry.Would)
	if entry.Engagement == "" { // no guard logs the call
		r.caller.logger.Info("a call went through that "+entry.Would.String(), zap.String("toolset", r.caller.toolset), zap.String("tool", entry.Tool),
			zap.String("user", entry.User), zap.String("rule", entry.Would.Rule), zap.String("reason", entry.Would.Why))
	}
}

// tryRule judges the rule allow_log_only of the toolset.
func tryRule(ctx context.Context, c *Caller, call *tools.Call) {
	name := c.toolset + ".allow_log_only"
	err := c.logOnly.Allow.Check(rule.NewSubject(UserOf(c.client.Request)), call, c.toolset)
	if celenv.IsInterrupted(err) {
		ReportIncomplete(c.logger, "", name, "the evaluation takes too long")
	} else if err != nil { // an enforced rule that fails allows nothing either
		noteWould(ctx, logonly.Would{Effect: logonly.Refuse, Rule: name, Why: "the rule does not allow " + call.Tool.Name + " with these arguments"})
	}
}

// try judges the inspectors in log only of a message that the others have passed.
func (i *Inspection) try(ctx context.Context, m inspect.Message) {
	for n := range i.LogOnly {
		passed, labels, err := i.LogOnly[n:n+1].Inspect(ctx, m)
		would := logonly.Would{Rule: i.Toolset + ".inspect." + i.LogOnly[n].Name}
		rejection, rejected := errors.AsType[*inspect.RejectedError](err)
		review, held := errors.AsType[*inspect.ReviewError](err)
		switch {
		case rejected && rejection.Failed:
			ReportIncomplete(i.Logger, "", would.Rule, rejection.Reason)
		case rejected:
			would.Effect, labels = logonly.Refuse, rejection.Labels
		case held:
			would.Effect, labels = logonly.Hold, review.Required[0].Labels
		case !bytes.Equal(passed, m.Body):
			would.Effect = logonly.Mask
		}
		if would.Effect == "" || i.Would.Effect != "" {
			continue
		}
		would.Why = "in the " + string(m.Phase)
		if len(labels) > 0 {
			would.Why += ": " + strings.Join(labels, ", ")
		}
		i.Would = would
	}
}

// TryResponse judges the inspectors in log only of a response that no other inspector gets. It does not change the response.
func (i *Inspection) TryResponse(ctx context.Context, status int, header http.Header, body []byte) {
	if !i.LogOnly.Has(i.phase(status)) || len(body) == 0 {
		return
	}
	copied := buffer.Get()
	copied.B = append(copied.B, body...)
	decoded, err := i.Response(ctx, status, maps.Clone(header), copied)
	if err != nil {
		ReportIncomplete(i.Logger, "", i.Toolset+".inspect", err.Error())
	}
	buffer.Put(decoded)
}
